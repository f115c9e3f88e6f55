#!/bin/sh
# Starts slurmd as a dynamic node under the Kubernetes node's name. Mounted: /keys/slurm.key.
# NODE_NAME, CONF_SERVER (host:port of slurmctld) and NODE_CONF (slurmd --conf) come from the pod.
# Without -b: a pod that starts anew on a machine that did not boot is no reboot; with it, slurmctld would set the node DOWN.
set -eu
mkdir -p /var/spool/slurmd
install -o slurm -g slurm -m 600 /keys/slurm.key /etc/slurm/slurm.key
exec slurmd -D -Z -N "$NODE_NAME" --conf-server "$CONF_SERVER" --conf "$NODE_CONF"
