"""Tests of homeostat_steps.py: python3 -m unittest discover -s examples -p '*_test.py'."""

import fcntl
import json
import os
import stat
import subprocess
import sys
import tempfile
import types
import unittest
from unittest import mock

import homeostat_steps


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.clock = Clock()

    def steps(self, **extra):
        environment = {"SLURM_JOB_ID": "12", "SLURM_PROCID": "3", "SLURM_LOCALID": "1", **extra.pop("environment", {})}
        return homeostat_steps.Steps(extra.pop("folder", self.folder), environment=environment, clock=self.clock, **extra)

    def report(self, name="12.3.json"):
        with open(os.path.join(self.folder, name), encoding="utf-8") as file:
            return json.load(file)

    def run_steps(self, steps, count, compute=0.4, wait=0.1, wall=None):
        """Steps of compute + wait seconds, marked by hand; wall: something else at the end of each."""
        for _ in range(count):
            steps.step()
            self.clock.now += compute
            with steps.waiting():
                self.clock.now += wait
            if wall:
                wall()


class StepsTest(Case):
    def test_a_report_has_the_medians(self):
        steps = self.steps(group="stage0")
        self.run_steps(steps, 3, compute=30)  # warm-up
        self.run_steps(steps, 30)
        steps.step()
        report = self.report()
        self.assertEqual((report["job"], report["rank"], report["local_rank"], report["group"]), ("12", 3, 1, "stage0"))
        self.assertAlmostEqual(report["step_time_s"], 0.5)
        self.assertAlmostEqual(report["compute_time_s"], 0.4)
        self.assertAlmostEqual(report["wait_time_s"], 0.1)
        self.assertEqual(report["step"], 33)  # written at the last full second
        self.assertLess(os.path.getsize(os.path.join(self.folder, "12.3.json")), 4096)

    def test_without_marks_only_whole_steps_are_told(self):
        steps = self.steps()
        for number in range(100, 120):
            steps.step(number)
            self.clock.now += 1
        report = self.report()
        self.assertEqual(report["step"], 119)
        self.assertAlmostEqual(report["step_time_s"], 1)
        self.assertNotIn("compute_time_s", report)

    def test_a_mark_ends_the_compute_time(self):
        steps = self.steps()
        for _ in range(20):
            steps.step()
            self.clock.now += 0.7
            steps.computed()
            self.clock.now += 0.3
        self.assertAlmostEqual(self.report()["compute_time_s"], 0.7)

    def test_a_checkpoint_is_no_part_of_a_step(self):
        steps = self.steps()

        def save():
            with steps.paused():
                self.clock.now += 60

        self.run_steps(steps, 20, wall=save)
        self.assertAlmostEqual(self.report()["step_time_s"], 0.5)
        self.assertAlmostEqual(self.report()["compute_time_s"], 0.4)

    def test_it_writes_at_most_once_a_second_and_leaves_nothing_else(self):
        steps = self.steps()
        with mock.patch.object(os, "rename", wraps=os.rename) as rename:
            self.run_steps(steps, 1000, compute=0.004, wait=0.001)  # 5 s
        self.assertLessEqual(rename.call_count, 6)
        self.assertGreaterEqual(rename.call_count, 4)
        self.assertEqual(os.listdir(self.folder), ["12.3.json"])
        self.assertEqual(stat.S_IMODE(os.stat(os.path.join(self.folder, "12.3.json")).st_mode) & 0o022, 0)

    def test_the_file_is_locked_while_the_process_lives_and_gone_after(self):
        program = (
            "import homeostat_steps as hs, os, sys, time\n"
            "clock = iter(range(1000))\n"
            "hs._default = hs.Steps(sys.argv[1], clock=lambda: float(next(clock)))\n"
            "for _ in range(12): hs.step()\n"
            "print('ready', flush=True); how = sys.stdin.readline()\n"
            "if how == 'leave\\n': hs.close(); os._exit(0)\n")
        for end, killed in ((b"\n", False), (b"\n", True), (b"leave\n", False)):
            process = subprocess.Popen([sys.executable, "-c", program, self.folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       cwd=os.path.dirname(os.path.abspath(__file__)),
                                       env={**os.environ, "SLURM_JOB_ID": "7", "SLURM_PROCID": "0"})
            process.stdout.readline()
            path = os.path.join(self.folder, "7.0.json")
            with open(path, "r+b") as file:
                with self.assertRaises(OSError):
                    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if killed:
                    process.kill()
                    process.wait()
                    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            process.communicate(end)
            self.assertEqual(os.path.exists(path), killed)

    def test_it_does_nothing_without_a_job_or_a_folder(self):
        for steps in (self.steps(environment={"SLURM_JOB_ID": ""}), self.steps(environment={"SLURM_JOB_ID": "../7"}),
                      self.steps(environment={"SLURM_PROCID": "x"}), self.steps(folder=os.path.join(self.folder, "none"))):
            self.run_steps(steps, 20)
            steps.follow_ddp(None)
            steps.computed()
            steps.close()
        self.assertEqual(os.listdir(self.folder), [])

    def test_a_folder_that_cannot_be_written_ends_the_reports_not_the_training(self):
        steps = self.steps()
        self.run_steps(steps, 20)
        with mock.patch.object(os, "rename", side_effect=OSError(28, "No space left on device")):
            self.run_steps(steps, 20)
        with open(os.path.join(self.folder, "12.3.json"), "r+b") as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # a report that is not kept up holds no lock
        self.assertEqual(os.listdir(self.folder), ["12.3.json"])
        self.run_steps(steps, 20)

    def test_what_the_training_raises_goes_on_its_way(self):
        steps = self.steps()
        for span in (steps.waiting(), steps.paused()):
            with self.assertRaises(KeyError), span:
                raise KeyError("of the training")

    def test_torchrun_counts_its_ranks_itself(self):
        steps = self.steps(environment={"RANK": "9", "LOCAL_RANK": "1"})
        self.run_steps(steps, 20)
        self.assertEqual(self.report("12.9.json")["rank"], 9)

    def test_slow_steps_are_told_by_the_newest(self):
        steps = self.steps()
        self.run_steps(steps, 3)
        self.run_steps(steps, 20, compute=30, wait=1)
        self.run_steps(steps, 5, compute=60, wait=1)
        steps.step()
        self.assertAlmostEqual(self.report()["compute_time_s"], 60)


class FakeEvent:
    """A GPU in virtual time: an event is over once the GPU's clock has come to it."""

    gpu_now = host_now = 0.0

    def __init__(self, enable_timing):
        self.enable_timing = enable_timing

    def record(self):
        self.at = FakeEvent.host_now

    def query(self):
        return FakeEvent.gpu_now >= self.at

    def elapsed_time(self, end):
        return (end.at - self.at) * 1000


class FakeModel:
    def __init__(self, cuda):
        self.cuda, self.hook = cuda, None

    def parameters(self):
        return iter([types.SimpleNamespace(is_cuda=self.cuda)])

    def register_comm_hook(self, state, hook):
        if self.hook:
            raise RuntimeError("register_comm_hook can only be called once")
        self.state, self.hook = state, hook

    def backward(self):
        return [self.hook(self.state, types.SimpleNamespace(is_last=lambda last=last: last)) for last in (False, True)]


class DdpTest(Case):
    def setUp(self):
        super().setUp()
        torch = types.ModuleType("torch")
        torch.cuda = types.SimpleNamespace(Event=FakeEvent)
        hooks = types.ModuleType("torch.distributed.algorithms.ddp_comm_hooks.default_hooks")
        hooks.allreduce_hook = lambda state, bucket: "reduced"
        modules = {"torch": torch, hooks.__name__: hooks}
        for name in ("torch.distributed", "torch.distributed.algorithms", "torch.distributed.algorithms.ddp_comm_hooks"):
            modules[name] = types.ModuleType(name)
        patch = mock.patch.dict(sys.modules, modules)
        patch.start()
        self.addCleanup(patch.stop)

    def test_the_last_bucket_ends_the_compute_time(self):
        steps, model = self.steps(), FakeModel(cuda=False)
        steps.follow_ddp(model)
        for _ in range(20):
            steps.step()
            self.clock.now += 0.4
            self.assertEqual(model.backward(), ["reduced", "reduced"])
            self.clock.now += 0.2
        self.assertAlmostEqual(self.report()["compute_time_s"], 0.4)
        self.assertAlmostEqual(self.report()["wait_time_s"], 0.2)

    def test_on_a_gpu_events_tell_and_are_never_waited_for(self):
        steps, model = self.steps(), FakeModel(cuda=True)
        steps.follow_ddp(model)
        for number in range(40):
            self.clock.now = FakeEvent.host_now = number * 1.0
            FakeEvent.gpu_now = FakeEvent.host_now - 2.5  # the GPU lags more than two steps behind
            steps.step()
            FakeEvent.host_now += 0.7
            self.clock.now += 0.1  # launching kernels takes the host no time worth the name
            model.backward()
        self.assertAlmostEqual(self.report()["compute_time_s"], 0.7)
        self.assertAlmostEqual(self.report()["wait_time_s"], 0.3)

    def test_a_model_with_another_hook_is_left_alone(self):
        steps, model = self.steps(), FakeModel(cuda=False)
        model.hook = "somebody's"
        steps.follow_ddp(model)
        self.assertEqual(model.hook, "somebody's")
        for _ in range(20):
            steps.step()
            self.clock.now += 1
        self.assertNotIn("compute_time_s", self.report())


if __name__ == "__main__":
    unittest.main()
