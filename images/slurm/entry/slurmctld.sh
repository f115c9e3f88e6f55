#!/bin/sh
# Starts slurmctld as user slurm. Mounted: /config (the rendered files), /keys (slurm.key, jwt.key), /var/spool/slurmctld (state).
set -eu
mkdir -p /run/slurmctld
cp /config/slurm.conf /config/gres.conf /config/cgroup.conf /config/plugstack.conf /etc/slurm/
install -d -o slurm -g slurm -m 700 /etc/slurm-keys
install -o slurm -g slurm -m 600 /keys/slurm.key /etc/slurm/slurm.key
install -o slurm -g slurm -m 600 /keys/jwt.key /etc/slurm-keys/jwt.key
chown slurm:slurm /run/slurmctld /var/spool/slurmctld
# -i: a state that a killed slurmctld left half written must not keep the cluster down.
exec setpriv --reuid slurm --regid slurm --clear-groups --inh-caps=-all slurmctld -D -i
