"""Of scripts/lint, with the real clang-tidy-19 on a tree of its own: what is linted anew, and what not."""

import json
import os
import signal
import subprocess
import tempfile
import textwrap
import time
import unittest

LINT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lint")
WAIT_S = 60

CLEAN = "int two() { return 2; }\n"
CHECKS = "Checks: '-*,modernize-use-nullptr'\nWarningsAsErrors: '*'\nHeaderFilterRegex: '.*'\n"


class Tree:
    """src/a.cpp and src/b.cpp read include/shared.hpp, src/c.cpp nothing."""

    def __init__(self, folder, cache):
        self.folder, self.cache = folder, cache
        self.write(".clang-tidy", CHECKS)
        self.write("include/shared.hpp", "#pragma once\ninline int* shared() { return nullptr; }\n")
        self.write("src/a.cpp", '#include "shared.hpp"\nint* a() { return shared(); }\n')
        self.write("src/b.cpp", '#include "shared.hpp"\nint* b() { return shared(); }\n')
        self.write("src/c.cpp", CLEAN)
        self.database()
        subprocess.run(["git", "init", "-q", folder], check=True)

    def write(self, name, text):
        """With a time in the past: what changes while it is linted is not remembered."""
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        then = time.time() - 60
        os.utime(path, (then, then))

    def database(self, flags="-O1", folders="-I{0}/src -I{0}/include"):
        self.write("build/compile_commands.json", json.dumps(
            [{"directory": self.folder + "/build", "file": f"{self.folder}/src/{name}.cpp",
              "command": f"/usr/bin/ccache /usr/bin/g++ {folders.format(self.folder)} {flags} -Wno-maybe-uninitialized -std=c++23 "
                         f"-o {name}.o -c {self.folder}/src/{name}.cpp"} for name in "abc"]))

    def lint(self, *words, path=None):
        environment = {**os.environ, "HOMEOSTAT_CACHE": self.cache, "PATH": path or os.environ["PATH"]}
        return subprocess.run([LINT, *words], cwd=self.folder, env=environment, capture_output=True, text=True, timeout=WAIT_S,
                              check=False)


class LintTest(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory(prefix="homeostat-lint-test-")
        self.addCleanup(self.scratch.cleanup)
        self.tree = self.new_tree("tree")

    def new_tree(self, name):
        return Tree(os.path.join(os.path.realpath(self.scratch.name), name), os.path.join(self.scratch.name, "cache"))

    def linted(self, count, tree=None):
        done = (tree or self.tree).lint("src")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn(f"no findings; {count} of 3 files linted", done.stdout)

    def test_what_is_clean_is_known(self):
        self.linted(3)
        self.linted(0)
        self.assertIn("1 of 1 files linted", self.tree.lint("--anew", "src/c.cpp").stdout)

    def test_another_clone_knows_it_too(self):
        self.linted(3)
        self.linted(0, self.new_tree("clone"))

    def test_only_what_reads_a_changed_header_is_linted(self):
        self.linted(3)
        self.tree.write("include/shared.hpp", "#pragma once\ninline int* shared() { return nullptr; } // said\n")
        self.linted(2)

    def test_a_header_that_hides_another_one(self):
        self.linted(3)
        self.tree.write("src/shared.hpp", "#pragma once\ninline int* shared() { return 0; }\n")
        self.assertEqual(self.tree.lint("src").returncode, 1)

    def test_a_check_or_a_flag_more(self):
        self.linted(3)
        self.tree.write(".clang-tidy", "# the reason\n" + CHECKS)
        self.linted(0)
        self.tree.write(".clang-tidy", CHECKS.replace("nullptr", "nullptr,modernize-use-override"))
        self.linted(3)
        self.tree.database("-O1 -DMORE")
        self.linted(3)

    def test_a_file_that_the_database_has_not(self):
        self.tree.write("src/fuzz/d.cpp", '#include "shared.hpp"\nint* d() { return shared(); }\n')
        done = self.tree.lint("src/fuzz")
        self.assertEqual((done.returncode, "1 of 1 files linted" in done.stdout), (0, True), done.stdout)

    def test_a_finding_is_told_once_and_never_remembered(self):
        self.tree.write("include/shared.hpp", "#pragma once\ninline int* shared() { return 0; }\n")
        for linted in (3, 2):
            done = self.tree.lint("src")
            self.assertEqual(done.returncode, 1)
            self.assertEqual(done.stdout.count("include/shared.hpp:2:31: error: use nullptr"), 1, done.stdout)
            self.assertIn(f"1 finding; {linted} of 3 files linted", done.stdout)

    def test_a_file_that_does_not_compile(self):
        self.tree.write("src/c.cpp", "int two() { return three; }\n")
        done = self.tree.lint("src")
        self.assertEqual(done.returncode, 1)
        self.assertIn("src/c.cpp:1:20: error: use of undeclared identifier 'three'", done.stdout)

    def test_what_is_missing_is_named(self):
        self.assertEqual(self.tree.lint("srk").returncode, 3)
        os.unlink(os.path.join(self.tree.folder, "build/compile_commands.json"))
        done = self.tree.lint("src")
        self.assertEqual(done.returncode, 3)
        self.assertIn("cmake --preset dev", done.stderr)

    def stand_in(self, text):
        """A PATH on which clang-tidy-19 is a script that lints with `text`."""
        program = os.path.join(self.scratch.name, "bin", "clang-tidy-19")
        os.makedirs(os.path.dirname(program))
        with open(program, "w", encoding="utf-8") as file:
            file.write(textwrap.dedent(f"""\
                #!/bin/bash
                case $1 in --version | --dump-config) echo none; exit 0;; esac
                {text}
                """))
        os.chmod(program, 0o755)
        return os.path.dirname(program) + ":" + os.environ["PATH"]

    def test_a_clang_tidy_that_dies_is_a_finding(self):
        done = self.tree.lint("src/c.cpp", path=self.stand_in("kill -SEGV $$"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("src/c.cpp:1:1: error: clang-tidy-19 ended with -11", done.stdout)

    def test_an_interrupt_ends_what_runs(self):
        pid_file = os.path.join(self.scratch.name, "pid")
        path = self.stand_in(f"echo $$ >{pid_file}.new; mv {pid_file}.new {pid_file}; exec sleep {WAIT_S}")
        environment = {**os.environ, "HOMEOSTAT_CACHE": self.tree.cache, "PATH": path}
        lint = subprocess.Popen([LINT, "src/c.cpp"], cwd=self.tree.folder, env=environment, stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        give_up = time.monotonic() + WAIT_S / 2
        while not os.path.exists(pid_file) and time.monotonic() < give_up:
            time.sleep(0.02)
        with open(pid_file, encoding="utf-8") as file:
            pid = int(file.read())
        lint.send_signal(signal.SIGINT)
        self.assertEqual(lint.wait(WAIT_S / 2), 130)
        with self.assertRaises(ProcessLookupError):
            os.kill(pid, 0)


if __name__ == "__main__":
    unittest.main()
