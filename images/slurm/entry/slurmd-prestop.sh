#!/bin/sh
# Holds the end of the pod back while a step still runs here, for GRACE_S seconds at most: the end of slurmd's container ends every
# process of the pod at once, whatever Slurm's KillWait says. It changes nothing in Slurm.
deadline=$(($(date +%s) + ${GRACE_S:-150}))
while [ "$(date +%s)" -lt "$deadline" ] && pgrep -x slurmstepd >/dev/null; do sleep 0.2; done
exit 0
