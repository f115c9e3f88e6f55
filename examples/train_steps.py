#!/usr/bin/env python3
"""train.py that also tells how fast each rank steps, so that a node which holds the job up is found. See homeostat_steps.py.

Takes train.py's arguments and two of its own, to see it work: --slow-rank RANK --slow-seconds SECONDS makes one rank compute longer
(sbatch: have train.sbatch run this file instead of train.py).
"""

import argparse
import os
import sys
import time

import train  # first: it takes SIGTERM before anything slow is imported

try:
    import homeostat_steps
except ImportError:  # optional: without it this is train.py
    homeostat_steps = None


class Trainer(train.Trainer):
    slow_seconds = 0.0
    followed = False

    def step(self, model):
        if homeostat_steps:
            if not self.followed:
                homeostat_steps.follow_ddp(model)
                self.followed = True
            homeostat_steps.step(self.done)
        time.sleep(self.slow_seconds)
        super().step(model)


def main():
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--slow-rank", type=int, default=-1)
    parser.add_argument("--slow-seconds", type=float, default=0.1)
    own, rest = parser.parse_known_args()
    sys.argv[1:] = rest
    if os.environ.get("SLURM_PROCID") == str(own.slow_rank):
        Trainer.slow_seconds = own.slow_seconds
    train.Trainer = Trainer
    return train.main()


if __name__ == "__main__":
    exit_code = main()
    if homeostat_steps:
        homeostat_steps.close()
    train.leave(exit_code)
