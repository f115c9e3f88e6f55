#!/bin/sh
# Slurm's Prolog (as root, on each node of a job): the names of the job's nodes resolve in this pod's /etc/hosts, as training scripts
# expect of `scontrol show hostnames`. Kubernetes resolves pods and services, not nodes. Always ends well: a prolog that fails drains
# its node.
export PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin  # slurmd gives a prolog none
nodes=${SLURM_JOB_NODELIST:-}
[ -n "$nodes" ] || exit 0
answer=$(timeout 5 scontrol getaddrs "$nodes" 2>/dev/null) || exit 0

# "name: 10.0.0.1:6818" or "name: [fd00::1]:6818" -> "10.0.0.1 name # slurm node"
lines=$(printf '%s\n' "$answer" | sed -n -E 's/^ *([A-Za-z0-9_.-]+): \[?([0-9A-Fa-f.:]+)\]?:[0-9]+$/\2 \1 # slurm node/p')
[ -n "$lines" ] || exit 0
(
  flock -w 5 9 || exit 0
  kept=$(awk -v new="$lines" 'BEGIN {n = split(new, line, "\n"); for (i = 1; i <= n; i++) {split(line[i], word, " "); is_new[word[2]] = 1}}
    !(/# slurm node$/ && ($2 in is_new))' /etc/hosts)
  printf '%s\n%s\n' "$kept" "$lines" >/etc/hosts  # in place: the kubelet mounts this one file
) 9>/run/job-hosts.lock
exit 0
