#!/bin/sh
# Starts sackd (credentials for Slurm's commands) and sshd. Mounted: /config, /keys/slurm.key, /hostkeys, /var/lib/extrausers, /home.
set -eu
mkdir -p /run/sshd /run/slurm
install -o slurm -g slurm -m 600 /keys/slurm.key /etc/slurm/slurm.key
install -d -m 700 /etc/ssh-hostkeys
install -m 600 /hostkeys/ssh_host_ecdsa_key /etc/ssh-hostkeys/
while IFS=: read -r _ _ uid gid _ home _; do
  if [ "$uid" -ge 1000 ] && [ ! -d "$home" ]; then
    install -d -o "$uid" -g "$gid" -m 750 "$home"
    cp /etc/skel/.bashrc /etc/skel/.profile "$home/" && chown "$uid:$gid" "$home/.bashrc" "$home/.profile"
  fi
done </var/lib/extrausers/passwd
# sackd fetches the configuration from slurmctld, which may still be starting.
tries=0
until sackd --conf-server "$CONF_SERVER"; do
  tries=$((tries + 1))
  [ "$tries" -lt 60 ] || exit 1
  sleep 1
done
exec /usr/sbin/sshd -D -e -f /config/sshd_config
