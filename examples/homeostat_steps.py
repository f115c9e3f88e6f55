"""Tells Homeostat how fast this rank steps, so that it can find the node that holds a job up. Optional, standard library only.

Copy this file beside the training script. Call step() once per step, at the top of the loop:

    import homeostat_steps as hs

    hs.follow_ddp(model)              # or mark the waits by hand, see below
    for batch in loader:
        hs.step()
        ...
        with hs.paused():             # checkpoints, evaluation: no part of a step
            save()

In synchronous training all ranks wait for the slowest, so whole steps last equally long everywhere and name nobody. What names the
slow one is the time until it begins to wait. Three ways to tell it, the first that fits:
    hs.follow_ddp(model)              DistributedDataParallel: a communication hook marks when this rank's last gradients are ready (on a
                                      GPU with CUDA events, without waiting for them)
    hs.computed()                     mark that moment yourself
    with hs.waiting(): all_reduce()   mark the waits; what is left of the step is compute time. On a GPU, synchronize() before, or the
                                      wait for your own kernels counts as a wait for others

It never raises into the training, never waits, and does nothing where there is no Slurm job or no folder /run/homeostat/steps. At most
once a second it replaces one small file there, <job>.<rank>.json, and holds a lock on it that the kernel drops when the process is gone:
a job that was killed is told from one that hangs.
"""

import atexit
import collections
import fcntl
import json
import os
import time
import warnings

FOLDER = "/run/homeostat/steps"
WARM_UP = 3      # first steps that count for nothing: caches, compilation, autotuning
WINDOW = 20      # steps that a median is over, ...
WINDOW_S = 60.0  # ... and no older than this where there are at least LEAST newer ones
LEAST = 5
WRITE_EVERY_S = 1.0


def _median(values):
    values = sorted(values)
    middle = len(values) // 2
    return values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2


class _Span:
    """Adds the time within a `with` block to one of the reporter's sums. What the block raises goes on its way."""

    def __init__(self, steps, name):
        self._steps, self._name = steps, name

    def __enter__(self):
        self._began = self._steps._clock()

    def __exit__(self, *_):
        self._steps._add(self._name, self._steps._clock() - self._began)
        return False


class Steps:
    def __init__(self, folder=None, group="", environment=None, clock=time.monotonic):
        """group: ranks that do the same work, such as a pipeline stage; only those are compared with each other."""
        environment = os.environ if environment is None else environment
        self._clock = clock
        self._folder = folder or environment.get("HOMEOSTAT_STEPS_FOLDER", FOLDER)
        self._job = environment.get("SLURM_JOB_ID", "")
        # torchrun starts one task per node and counts its ranks itself.
        self._rank = environment.get("RANK", environment.get("SLURM_PROCID", ""))
        self._local_rank = environment.get("LOCAL_RANK", environment.get("SLURM_LOCALID", "0"))
        self._group = str(group)[:64]
        self._pid = os.getpid()
        self._on = self._job.isdigit() and self._rank.isdigit() and os.path.isdir(self._folder)
        self._path = os.path.join(self._folder, f"{self._job}.{self._rank}.json")
        self._file = None  # kept open for its lock
        self._step = self._finished = 0
        self._began = self._computed = None
        self._waited = self._paused = self._paused_before = 0.0
        self._steps = collections.deque(maxlen=WINDOW)     # (end, seconds)
        self._computes = collections.deque(maxlen=WINDOW)  # (end, seconds)
        self._events = collections.deque(maxlen=8)         # CUDA events of steps whose work the GPU may not have done yet
        self._start_event = None
        self._cuda = None
        self._written = float("-inf")
        if self._on:
            atexit.register(self.close)

    def step(self, number=None):
        """A step begins here, and the one before ends."""
        if not self._on:
            return
        try:
            now = self._clock()
            if self._began is not None:
                self._finish(now)
            self._step = self._step + 1 if number is None else int(number)
            self._began, self._computed = now, None
            self._waited = self._paused = self._paused_before = 0.0
            if self._cuda is not None:
                self._start_event = self._record()
            if now - self._written >= WRITE_EVERY_S and len(self._steps) >= LEAST:
                self._written = now
                self._write(now)
        except Exception:  # whatever it is, the training matters more
            self._give_up()

    def computed(self):
        """This rank has done its own work of the step; from here on it waits for others."""
        if self._on and self._began is not None:
            self._computed = self._clock()
            self._paused_before = self._paused

    def waiting(self):
        return _Span(self, "_waited")

    def paused(self):
        return _Span(self, "_paused")

    def follow_ddp(self, model):
        """Has DistributedDataParallel tell when this rank's last gradients are ready."""
        if not self._on:
            return
        try:
            import torch
            with warnings.catch_warnings():  # PyTorch's own, about its enums on newer Pythons
                warnings.simplefilter("ignore")
                from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

            if next(model.parameters()).is_cuda:
                self._cuda = torch.cuda

            def hook(state, bucket):
                if bucket.is_last():
                    self._mark()
                return allreduce_hook(state, bucket)

            model.register_comm_hook(None, hook)
        except Exception:  # no PyTorch, another hook is there already, ...: whole steps are told, compute times are not
            self._cuda = None

    def close(self):
        """The process ends well: nothing is left behind."""
        if not self._on or self._pid != os.getpid():
            return
        self._on = False
        try:
            if self._file is not None:
                os.unlink(self._path)
                os.close(self._file)
        except OSError:
            pass

    def _give_up(self):
        """A file that is no longer written must not be locked, or the job would seem to hang."""
        self._on = False
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _add(self, name, seconds):
        setattr(self, name, getattr(self, name) + seconds)

    def _mark(self):
        if self._cuda is None:
            self.computed()
            return
        try:
            if self._start_event is not None and self._paused == 0:
                self._events.append((self._start_event, self._record()))
                self._start_event = None
        except Exception:
            self._cuda = None

    def _record(self):
        event = self._cuda.Event(enable_timing=True)
        event.record()
        return event

    def _finish(self, now):
        self._finished += 1
        if self._finished <= WARM_UP:
            self._events.clear()
            return
        seconds = now - self._began - self._paused
        self._steps.append((now, seconds))
        if self._computed is not None:
            self._computes.append((now, self._computed - self._began - self._paused_before))
        elif self._waited > 0:
            self._computes.append((now, max(0.0, seconds - self._waited)))
        while self._events and self._events[0][1].query():  # never waits for the GPU
            start, end = self._events.popleft()
            self._computes.append((now, start.elapsed_time(end) / 1000.0))

    def _over_window(self, values, now):
        recent = [seconds for end, seconds in values if now - end <= WINDOW_S]
        return _median(recent if len(recent) >= LEAST else [seconds for _, seconds in list(values)[-LEAST:]])

    def _write(self, now):
        if self._pid != os.getpid():  # a forked helper process of the training
            self._give_up()
            return
        step_s = self._over_window(self._steps, now)
        report = {"v": 1, "job": self._job, "rank": int(self._rank), "local_rank": int(self._local_rank), "group": self._group,
                  "step": self._step, "step_time_s": round(step_s, 6), "updated_at": round(time.time(), 3)}
        if len(self._computes) >= min(LEAST, len(self._steps)):
            compute_s = min(self._over_window(self._computes, now), step_s)
            report["compute_time_s"] = round(compute_s, 6)
            report["wait_time_s"] = round(step_s - compute_s, 6)
        partial = os.path.join(self._folder, f".{self._job}.{self._rank}.{self._pid}")
        file = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.write(file, json.dumps(report).encode())
            os.rename(partial, self._path)
        except BaseException:
            os.close(file)
            os.unlink(partial)
            raise
        if self._file is not None:
            os.close(self._file)
        self._file = file


_default = None


def _steps():
    global _default
    if _default is None:
        _default = Steps(group=os.environ.get("HOMEOSTAT_STEPS_GROUP", ""))
    return _default


def step(number=None):
    _steps().step(number)


def computed():
    _steps().computed()


def waiting():
    return _steps().waiting()


def paused():
    return _steps().paused()


def follow_ddp(model):
    _steps().follow_ddp(model)


def close():
    """Before os._exit, which runs nothing that Python would at an end: this rank ends well, and its file goes."""
    if _default is not None:
        _default.close()
