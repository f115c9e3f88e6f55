#!/usr/bin/env python3
"""Trains a small model on several nodes with DistributedDataParallel, and survives being stopped at any moment.

Start one process per node with srun (see train.sbatch). What makes the job safe to stop and requeue:
  - A checkpoint is written beside the old one, synced and renamed over it: there is always one that is whole.
  - SIGTERM only sets a flag. After each step all ranks agree, by an all-reduce, whether anybody was told to stop; then all stop after
    the same step and rank 0 saves it. No step is lost.
  - When a peer dies instead of answering, each survivor saves the last step it finished, unless a newer one is on disk.
  - At the start, rank 0 loads the checkpoint and hands it to the others.

It logs one line per event to stdout and, since srun's output ends with srun, also to DIR/train.log:
  <UTC time> rank 0: step 17 loss 0.4312
Exit codes: 0 all steps are done, 143 stopped by SIGTERM after saving, 1 a peer was lost or something failed.
"""

import signal
import threading

STOP = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: STOP.set())  # before the slow imports: a signal during start-up is kept, too

import argparse  # noqa: E402
import contextlib  # noqa: E402
import datetime  # noqa: E402
import os  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("USE_LIBUV", "0")  # Debian builds PyTorch without libuv

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402

EXIT_STOPPED = 128 + signal.SIGTERM
INPUTS, HIDDEN, BATCH = 64, 128, 32


class Log:
    def __init__(self, folder, rank):
        self.rank = rank
        self.file = open(os.path.join(folder, "train.log"), "a", encoding="utf-8")

    def __call__(self, message):
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
        line = f"{now} rank {self.rank}: {message}\n"
        for out in (self.file, sys.stdout):
            with contextlib.suppress(OSError):  # stdout breaks when srun is gone; that must not cost the checkpoint
                out.write(line)
                out.flush()


class Checkpoint:
    """One file, replaced atomically."""

    def __init__(self, folder):
        self.folder = folder
        self.path = os.path.join(folder, "checkpoint.pt")

    def load(self):
        if not os.path.exists(self.path):
            return None
        return torch.load(self.path, map_location="cpu", weights_only=True)

    def save(self, step, model, optimizer):
        partial = f"{self.path}.{os.uname().nodename}.{os.getpid()}"
        with open(partial, "wb") as file:
            torch.save({"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, self.path)
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def batch_of(step, rank):
    """Synthetic data that depends only on step and rank, so that a resumed run sees what an unbroken one would have."""
    generator = torch.Generator().manual_seed(step * 1009 + rank)
    inputs = torch.randn(BATCH, INPUTS, generator=generator)
    return inputs, torch.sin(inputs.sum(dim=1, keepdim=True))


def somebody_must_stop():
    flag = torch.tensor([1 if STOP.is_set() else 0])
    dist.all_reduce(flag, op=dist.ReduceOp.MAX)
    return bool(flag.item())


class Trainer:
    def __init__(self, arguments, log, rank):
        self.arguments, self.log, self.rank = arguments, log, rank
        self.checkpoint = Checkpoint(arguments.dir)
        torch.manual_seed(1)
        self.model = nn.Sequential(nn.Linear(INPUTS, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, 1))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)
        self.done = 0  # steps that are in the model

    def resume(self):
        box = [self.checkpoint.load() if self.rank == 0 else None]
        dist.broadcast_object_list(box, src=0)
        if box[0] is None:
            self.log("starting at step 0")
            return
        self.model.load_state_dict(box[0]["model"])
        self.optimizer.load_state_dict(box[0]["optimizer"])
        self.done = box[0]["step"]
        self.log(f"resumed from step {self.done}")

    def run(self):
        """Trains to the end; returns the exit code."""
        self.resume()
        model = nn.parallel.DistributedDataParallel(self.model)
        while self.done < self.arguments.steps:
            started = time.monotonic()
            self.step(model)
            stop = somebody_must_stop()
            if stop and STOP.is_set():
                self.log(f"SIGTERM received at step {self.done}")
            if stop or self.done % self.arguments.checkpoint_every == 0 or self.done == self.arguments.steps:
                self.save()
            if stop:
                dist.barrier()  # nobody leaves before the checkpoint is whole
                return EXIT_STOPPED
            STOP.wait(max(0.0, self.arguments.step_seconds - (time.monotonic() - started)))
        self.log(f"finished at step {self.done}")
        return 0

    def step(self, model):
        inputs, targets = batch_of(self.done, self.rank)
        self.optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        self.optimizer.step()
        self.done += 1
        if self.rank == 0:
            self.log(f"step {self.done} loss {loss.item():.4f}")

    def save(self):
        if self.rank == 0:
            self.checkpoint.save(self.done, self.model, self.optimizer)
            self.log(f"checkpoint saved at step {self.done}")

    def save_alone(self):
        """A peer is gone, and it may be rank 0. All ranks hold the same model, so any survivor can save it."""
        on_disk = self.checkpoint.load()
        if self.done > 0 and (on_disk is None or on_disk["step"] < self.done):
            self.checkpoint.save(self.done, self.model, self.optimizer)
            self.log(f"checkpoint saved at step {self.done}")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dir", required=True, help="folder for checkpoint.pt and train.log, on storage that all nodes share")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--step-seconds", type=float, default=0.3, help="how long a step takes at least")
    parser.add_argument("--checkpoint-every", type=int, default=20, metavar="STEPS")
    parser.add_argument("--peer-timeout", type=float, default=60, metavar="SECONDS",
                        help="how long to wait for a peer; must leave room to save within Slurm's KillWait")
    return parser.parse_args()


def main():
    arguments = parse()
    rank, world = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
    os.makedirs(arguments.dir, exist_ok=True)
    log = Log(arguments.dir, rank)
    torch.set_num_threads(1)
    log(f"rank {rank} of {world} on {os.environ.get('SLURMD_NODENAME', os.uname().nodename)}, "
        f"restart {os.environ.get('SLURM_RESTART_COUNT', '0')}")
    trainer = Trainer(arguments, log, rank)
    dist.init_process_group("gloo", rank=rank, world_size=world, timeout=datetime.timedelta(seconds=arguments.peer_timeout))
    try:
        code = trainer.run()
    except RuntimeError as error:  # what a collective raises when a peer is gone or silent
        if STOP.is_set():
            log(f"SIGTERM received at step {trainer.done}")
        log(f"lost a peer after step {trainer.done}: {str(error).splitlines()[0]}")
        trainer.save_alone()
        code = EXIT_STOPPED if STOP.is_set() else 1
    return code


def leave(code):
    """Ends the process at once; all that matters is on disk. Taking gloo down in good order waits for its threads, which may wait
    for a peer that is gone: PyTorch 2.6 stood there until Slurm's SIGKILL, two minutes later, in one of ten stops."""
    with contextlib.suppress(OSError):  # stdout breaks when srun is gone
        sys.stdout.flush()
    os._exit(code)


if __name__ == "__main__":
    leave(main())
