#!/bin/sh
# Lays the configuration and the key where the unprivileged slurmrestd may read them. Mounted: /config, /keys, /etc-slurm (memory).
set -eu
cp /config/slurm.conf /config/gres.conf /config/cgroup.conf /config/plugstack.conf /etc-slurm/
install -m 600 /keys/slurm.key /etc-slurm/slurm.key
chown -R slurmrestd:slurmrestd /etc-slurm
