"""Mutation testing of the kernels: see scripts/mutate.sh for how it is called, docs/testing.md for the lists' form.

Each worker has a copy of the sources and a release build of its own. A mutant is written into the copy, the test that
must catch it is built (what depends on the changed file, no more) and run until its first failure, and the file is put
back.
"""

import argparse
import functools
import os
import queue
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import drawn_mutants

ROOT = Path(__file__).resolve().parent.parent
LISTS = ROOT / "tests" / "mutants"
WORK = ROOT / "build" / "mutants"


class Mutant:
    """One planted bug: `old` becomes `new` in `path`; one of `tests` must fail on a machine with `level`."""

    def __init__(self, listed, name, where):
        self.list, self.name, self.where = listed, name, where
        self.path, self.tests, self.level = None, (listed,), None
        self.old, self.new = [], []

    def __str__(self):
        return f"{self.list}/{self.name}"

    def pattern(self):
        """Spaces and line breaks match any others, so that formatting does not make a mutant stale."""
        words = re.split(r"\s+", "\n".join(self.old).strip())
        return re.compile(r"\s+".join(re.escape(word) for word in words))

    def apply(self, text):
        return self.pattern().sub(lambda _: "\n".join(self.new), text, count=1)

    def shown(self):
        return ""

    def wrong(self):
        """Why this entry cannot be planted, or None."""
        if not self.path or not self.old:
            return "has no file or no line that begins with -"
        file = ROOT / self.path
        if not file.is_file():
            return f"stale: there is no {self.path}"
        found = len(self.pattern().findall(file.read_text()))
        if found != 1:
            return f"stale: its text stands {found} times in {self.path}, it must stand once"
        return None


def read_list(path):
    mutants, kernels = [], [path.stem]
    for number, line in enumerate(path.read_text().splitlines(), 1):
        where = f"{path.relative_to(ROOT)}:{number}"
        if heading := re.fullmatch(r"\[(\w+)\]", line.strip()):
            mutants.append(Mutant(path.stem, heading.group(1), where))
        elif line.startswith("#") or not line.strip():
            continue
        elif line.startswith("kernels ") and not mutants:
            kernels += line.split()[1:]
        elif not mutants:
            sys.exit(f"{where}: a mutant begins with [its_name]")
        elif line.startswith(("-", "+")):
            (mutants[-1].old if line[0] == "-" else mutants[-1].new).append(line[1:].strip())
        elif line.startswith("test "):
            test = line.split()[1]
            mutants[-1].tests = (test,)
            if test.startswith("simd_"):  # a program of instructions that some machines lack
                mutants[-1].level = test.removeprefix("simd_")
        elif line.startswith("level "):
            mutants[-1].level = line.split()[1]
        elif mutants[-1].path is None:
            mutants[-1].path = line.strip()
        else:
            sys.exit(f"{where}: neither a file, test, level, - nor +: {line}")
    names = [mutant.name for mutant in mutants]
    for name in names:
        if names.count(name) > 1:
            sys.exit(f"{path.relative_to(ROOT)}: two mutants are called {name}")
    return mutants, kernels


def machine_levels():
    """The ISA levels by the kernel's account, for programs that do not show them as levels.<isa>."""
    info = Path("/proc/cpuinfo")
    flags = set(re.findall(r"\w+", info.read_text())) if info.exists() else set()
    needs = {"scalar": set(), "avx2": {"avx2", "fma", "f16c"},
             "avx512": {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}, "avx512_vnni": {"avx512_vnni"},
             "avx512_bf16": {"avx512_vnni", "avx512_bf16"}}
    return {level for level, needed in needs.items() if needed <= flags}


class Worker:
    def __init__(self, number):
        self.source, self.build = WORK / str(number) / "source", WORK / str(number) / "build"
        self.log = WORK / str(number) / "log.txt"

    def prepare(self):
        """The copy is brought up to date; files that did not change keep their time, and their objects."""
        files = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=True, text=True,
                               stdout=subprocess.PIPE).stdout.splitlines()
        wanted = {self.source / file for file in files if (ROOT / file).is_file()}
        for file in [found for found in self.source.rglob("*") if found.is_file()]:
            if file not in wanted:
                file.unlink()
        for file in wanted:
            original = ROOT / file.relative_to(self.source)
            if not file.exists() or file.read_bytes() != original.read_bytes():
                file.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(original, file)
        shared = self.source.parent / "shared"
        if not shared.exists() and (ROOT.parent / "shared").exists():
            shared.symlink_to(ROOT.parent / "shared")

    def quiet(self, *command, **options):
        with self.log.open("w") as log:
            return subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, check=False, **options).returncode == 0

    def configure(self, kernels):
        return self.quiet("cmake", "-G", "Ninja", "-S", self.source, "-B", self.build, "-DCMAKE_BUILD_TYPE=Release",
                          "-DINLAY_BENCH=OFF", "-DINLAY_TOOLS=" + ("ON" if "cl_tuner" in kernels else "OFF"),
                          "-DINLAY_KERNELS=" + ";".join(kernels))

    def make(self, test):
        return self.quiet("cmake", "--build", self.build, "-j1", "--target", "test_" + test)

    def run_one(self, test, limit):
        """(passed, seconds, the first test that failed)"""
        begin, environment = time.monotonic(), dict(os.environ, OMP_WAIT_POLICY="passive")
        try:
            passed = self.quiet(self.build / "tests" / ("test_" + test), "--gtest_brief=1", "--gtest_fail_fast",
                                timeout=limit, env=environment)
        except subprocess.TimeoutExpired:
            return False, limit, "it does not end"
        failed = re.findall(r"\[  FAILED  \] ([\w/]+\.[\w/]+)", self.log.read_text(errors="replace"))
        return passed, time.monotonic() - begin, failed[0] if failed else "it crashed"

    def run(self, tests, limit):
        """The same of several, until one fails. Each is built when its turn comes: it may be the first that fails."""
        all_seconds = 0
        for test in tests:
            if not self.make(test):
                return None, all_seconds, first_error(self.log)
            passed, seconds, failed = self.run_one(test, limit)
            all_seconds += seconds
            if not passed:
                return False, all_seconds, f"test_{test}: {failed}"
        return True, all_seconds, ""

    def plant(self, mutant, limit):
        """('caught' or what is wrong, detail)"""
        file = self.source / mutant.path
        original = file.read_text()
        file.write_text(mutant.apply(original))
        try:
            passed, seconds, failed = self.run(mutant.tests, limit)
            if passed is None:
                return "DOES NOT COMPILE", failed
            return ("SURVIVED", "") if passed else ("caught", f"by {failed} ({seconds:.1f} s)")
        finally:
            file.write_text(original)


def first_error(log):
    lines = [line for line in log.read_text(errors="replace").splitlines() if "error" in line.lower()]
    return lines[0].strip() if lines else f"see {log}"


def bare(text):
    return re.sub(r"[\s();]", "", text)


@functools.cache
def drawable(operator, path):
    """What the file may become by --draw, brackets and semicolons aside."""
    paths = [path for paths in drawn_mutants.sources(operator).values() for path in paths]
    all_drawn = drawn_mutants.all_of(operator, path) if path in paths else ()
    return {hash(bare(drawn.apply(drawn.text))) for drawn in all_drawn}


def kernels_of_room(name):
    """The tests of some rooms call any operator, and a tool."""
    return [".*", "cl_tuner"] if name in ("core", "cl", "npu", "exec") else [name]


def drawable_at_all(name):
    return any(drawn_mutants.sources(name).values())


def is_routine(mutant):
    return hash(bare(mutant.apply((ROOT / mutant.path).read_text()))) in drawable(mutant.list, mutant.path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*",
                        help="a list, or list/mutant; with --draw an operator, a room, or a test of one")
    parser.add_argument("--check", action="store_true", help="only that each text still stands where its mutant says")
    parser.add_argument("--routine", action="store_true", help="only name the mutants that --draw could have drawn")
    parser.add_argument("--draw", type=int, metavar="N", help="N routine mutants of each name instead of its list")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", action="store_true", help="with --draw: only print them")
    options = parser.parse_args()
    arguments = options.names
    wanted = {argument.split("/")[0] for argument in arguments}
    lists = {path.stem: read_list(path) for path in sorted(LISTS.glob("*.txt")) if not wanted or path.stem in wanted}
    if unknown := {name for name in wanted - set(lists) if not options.draw or not drawable_at_all(name)}:
        sys.exit(f"there is no tests/mutants/{sorted(unknown)[0]}.txt")
    chosen = [mutant for mutants, _ in lists.values() for mutant in mutants
              if not wanted or mutant.list in arguments or str(mutant) in arguments]
    if options.routine:
        routine = [mutant for mutant in chosen if not mutant.wrong() and is_routine(mutant)]
        print(*routine, f"{len(routine)} of {len(chosen)} mutants are routine", sep="\n")
        return
    if options.draw:
        chosen = [mutant for name in arguments for mutant in drawn_mutants.draw(name, options.draw, options.seed)]
        for mutant in chosen:  # a file that is another test's by the list
            for listed in lists.get(mutant.list, ((), ()))[0]:
                if listed.path == mutant.path:
                    mutant.tests, mutant.level = listed.tests, listed.level or mutant.level
    if options.show:
        print(*(f"{mutant}{mutant.shown()}" for mutant in chosen), sep="\n")
        return
    stale = [(mutant, reason) for mutant in chosen if (reason := mutant.wrong())]
    for mutant, reason in stale:
        print(f"{mutant.where}: {mutant}: {reason}")
    if stale or options.check:
        print(f"{len(chosen)} mutants, {len(stale)} that cannot be planted")
        sys.exit(1 if stale or not chosen else 0)

    # A worker takes mutants of a list that the same tests must catch: those must pass first without a change.
    groups = queue.Queue()
    for name in sorted({mutant.list for mutant in chosen}):
        kernels = lists[name][1] if name in lists else kernels_of_room(name)
        for tests in sorted({mutant.tests for mutant in chosen if mutant.list == name}):
            mine = [mutant for mutant in chosen if mutant.list == name and mutant.tests == tests]
            for begin in range(0, len(mine), 8):
                groups.put((kernels, tests, mine[begin:begin + 8]))
    results, printing = [], threading.Lock()

    def report(mutant, verdict, detail):
        with printing:
            results.append(verdict)
            print(f"{len(results):4}/{len(chosen)} {verdict:9} {mutant} {detail}{mutant.shown()}", flush=True)

    def work(number):
        worker = Worker(number)
        worker.prepare()
        while True:
            try:
                kernels, tests, mutants = groups.get_nowait()
            except queue.Empty:
                return
            levels = machine_levels()
            detail, seconds, test = None, 0, tests[0]
            if test.startswith("simd_") and test.removeprefix("simd_") not in levels:
                pass  # each of them is skipped below
            elif not worker.configure(kernels):
                detail = "the unchanged sources do not build: " + first_error(worker.log)
            else:
                passed, seconds, failed = worker.run(tests, 3600)
                if not passed:
                    detail = f"the unchanged sources {'do not build' if passed is None else 'fail'}: {failed}"
            if detail is None and len(tests) == 1 and (worker.build / "tests" / ("test_" + test)).exists():
                listing = subprocess.run([worker.build / "tests" / ("test_" + test), "--gtest_filter=levels.*"],
                                         stdout=subprocess.PIPE, text=True, check=False).stdout
                levels |= set(re.findall(r"\[       OK \] levels\.(\w+)", listing))
            for mutant in mutants:
                if detail:
                    report(mutant, "NOT TRIED", detail)
                elif mutant.level and mutant.level not in levels:
                    report(mutant, "skipped", f"this machine has no {mutant.level}")
                else:
                    report(mutant, *worker.plant(mutant, 60 + 10 * seconds))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(os.cpu_count() or 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    count = {verdict: results.count(verdict) for verdict in sorted(set(results))}
    print(", ".join(f"{number} {verdict}" for verdict, number in count.items()))
    fine = {"caught", "skipped"} | ({"DOES NOT COMPILE"} if options.draw else set())  # then it was no mistake
    sys.exit(0 if set(results) <= fine and len(results) == len(chosen) else 1)


if __name__ == "__main__":
    main()
