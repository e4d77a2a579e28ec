#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Can the checks fail? Plants each mistake of tools/mutants/*.toml in a copy of the sources and sees it rejected.

    mutate.py                       every mutant
    mutate.py --quick-set           those marked quick
    mutate.py --only 'prefill/*'    those whose names match
    mutate.py --list                what there is

For each mutant: one text in one file is replaced, the tool is built, and `siattn conform --quick` runs for every
available backend and type by itself, then the whole set where the quick one passed. A mutant is killed where the
command fails. Exit status: 0 every mutant is killed, or survives exactly where its entry says so and why; 1 not so;
2 a mutant that no longer fits the sources or does not build, or unmutated sources that fail.

An entry of tools/mutants/*.toml:

    [[mutant]]
    name = "prefill/maximum-starts-at-0"
    file = "cpu/prefill.cpp"
    old = '''the text to replace, which occurs once'''
    new = '''what to put there'''
    # and where it is called for:
    times = 2                # old occurs so often; all are replaced
    by = "verify"            # what must kill it, in place of conform: verify, independent, kernels (the tests of the
                             # CUDA kernels in the emulator, then the conformance suite on them) or kernels-sm90
    on = ["cpu-sse2/f16"]    # backends and types that have this code [cpu-*]
    survives = ["*/bf16"]    # those of them that cannot see it, and the reason
    because = "..."
    quick = true             # part of --quick-set
"""
import argparse
import concurrent.futures
import dataclasses
import fnmatch
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from pathlib import Path
from typing import Dict, List, Optional, Tuple

ROOT = Path(__file__).resolve().parent.parent
LISTS = Path(__file__).resolve().parent / "mutants"
COMMANDS = ("conform", "verify", "independent", "kernels", "kernels-sm90")
# Those that have a quick set and a whole one.
IN_TWO_PARTS = ("conform", "kernels")
# A mutant may loop for ever: this many times what the unmutated command took, and so many seconds more.
PATIENCE = (10, 60)


class Failure(Exception):
    """What makes a run meaningless: exit status 2."""


@dataclasses.dataclass
class Mutant:
    name: str
    file: str
    old: str
    new: str
    times: int = 1
    by: str = "conform"
    on: Tuple[str, ...] = ("cpu-*",)
    survives: Tuple[str, ...] = ()
    because: str = ""
    quick: bool = False

    def applied_to(self, text: str) -> str:
        count = text.count(self.old)
        if count != self.times:
            raise Failure(f"mutant {self.name} is stale: its text occurs {count} times in {self.file}, expected "
                          f"{self.times}")
        return text.replace(self.old, self.new)


@dataclasses.dataclass
class Outcome:
    mutant: Mutant
    killed: Dict[str, str]  # target -> the check that failed
    survived: List[str]     # targets
    build_seconds: float
    check_seconds: float

    def expected_survivors(self) -> List[str]:
        return [t for t in self.killed.keys() | set(self.survived) if matches(t, self.mutant.survives)]

    def applies(self) -> bool:
        return bool(self.killed or self.survived)

    def good(self) -> bool:
        return sorted(self.survived) == sorted(self.expected_survivors())

    def verdict(self) -> str:
        if not self.applies():
            return "not here"
        if self.good():
            return "explained" if self.survived else "killed"
        return "KILLED" if set(self.survived) < set(self.expected_survivors()) else "SURVIVED"


def matches(name: str, patterns) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def load_mutants() -> List[Mutant]:
    mutants: Dict[str, Mutant] = {}
    for path in sorted(LISTS.glob("*.toml")):
        for entry in tomllib.loads(path.read_text())["mutant"]:
            try:
                mutant = Mutant(**{k: tuple(v) if isinstance(v, list) else v for k, v in entry.items()})
            except TypeError as error:
                raise Failure(f"{path.name}: {entry.get('name', '?')}: {error}") from None
            if mutant.name in mutants:
                raise Failure(f"{path.name}: two mutants are named {mutant.name}")
            if mutant.by not in COMMANDS or bool(mutant.survives) != bool(mutant.because):
                raise Failure(f"{path.name}: {mutant.name}: 'by' is one of {', '.join(COMMANDS)}; 'survives' and "
                              f"'because' go together")
            if mutant.by != "conform":
                mutant.on = (mutant.by,)
            mutants[mutant.name] = mutant
    # Neighbours share what they rebuild.
    return sorted(mutants.values(), key=lambda m: (m.by != "conform", m.file))


class Processes:
    """Children in sessions of their own, which end when this program does."""

    def __init__(self):
        self._lock = threading.RLock()  # stop() may interrupt its holder
        self._live = set()
        self._ended = False

    def run(self, command, timeout: Optional[float] = None, **options) -> Tuple[Optional[int], str]:
        """Exit status (None: it ran past the timeout; negative: a signal) and what it printed."""
        with self._lock:
            if self._ended:
                raise KeyboardInterrupt
            child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                     errors="replace", start_new_session=True, **options)
            self._live.add(child)
        try:
            output, _ = child.communicate(timeout=timeout)
            return child.returncode, output
        except subprocess.TimeoutExpired:
            return None, ""
        finally:
            self._end(child)
            with self._lock:
                self._live.discard(child)

    def end_all(self):
        with self._lock:
            self._ended = True
            for child in self._live:
                self._end(child)

    @staticmethod
    def _end(child):
        """Asks first: ninja's jobs are not in its group, and only ninja knows them."""
        for request in (signal.SIGTERM, signal.SIGKILL):
            if child.poll() is not None:
                return
            os.killpg(child.pid, request)
            try:
                child.wait(timeout=5)
            except subprocess.TimeoutExpired:
                pass


class Workshop:
    """A copy of the sources and a release build of the tool."""

    def __init__(self, folder: Path, jobs: int, processes: Processes, tests: bool):
        self.tests = tests
        self.source = folder / "source"
        self.build_folder = folder / "build"
        self.tool = self.build_folder / "siattn"
        self.jobs = jobs
        self.processes = processes

    def copy_sources(self):
        """What differs only, so that a folder kept from another run builds little."""
        listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z", "-co", "--exclude-standard"], capture_output=True)
        if listed.returncode == 0:
            names = [n for n in os.fsdecode(listed.stdout).split("\0") if n and (ROOT / n).is_file()]
        else:  # not a git checkout
            builds = [p.parent for p in ROOT.rglob("CMakeCache.txt")]
            names = [str(p.relative_to(ROOT)) for p in ROOT.rglob("*")
                     if p.is_file() and not any(p.is_relative_to(b) for b in builds)]
        for path in [p for p in self.source.rglob("*") if p.is_file()]:
            if str(path.relative_to(self.source)) not in names:
                path.unlink()
        for name in names:
            target = self.source / name
            content = (ROOT / name).read_bytes()
            if target.exists() and target.read_bytes() == content:
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            shutil.copymode(ROOT / name, target)

    def configure(self):
        self._must(["cmake", "-S", self.source, "-B", self.build_folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                    "-DSIATTN_BUILD_TOOLS=ON", f"-DSIATTN_BUILD_TESTS={'ON' if self.tests else 'OFF'}",
                    "-DSIATTN_CUDA=OFF"], "configuring")

    def build(self, what: str):
        targets = ["siattn_tool"] + (["gpu_kernels_test", "gpu_sm90_test", "siattn_emulated"] if self.tests else [])
        self._must(["cmake", "--build", self.build_folder, "-j", str(self.jobs), "--target"] + targets, what)

    def _must(self, command, what: str):
        status, output = self.processes.run(command)
        if status != 0:
            raise Failure(f"{what} failed:\n{output[-4000:]}")

    def read(self, name: str) -> str:
        return (self.source / name).read_bytes().decode()

    def write(self, name: str, text: str):
        (self.source / name).write_bytes(text.encode())


class Checks:
    """Runs the commands that must kill. A target is a backend and type ("cpu-avx2/bf16"), or a command."""

    def __init__(self, shop: Workshop):
        self._shop = shop
        self._limits: Dict[Tuple[str, ...], float] = {}
        self.targets: List[str] = []

    def _command(self, target: str, whole: bool) -> List[str]:
        tool = str(self._shop.tool)
        if target == "verify":
            return [tool, "verify", "--json"]
        if target == "independent":
            # Debian's interpreter first: it is the one whose packages tools/setup.sh installs.
            python = shutil.which("python3", path="/usr/bin") or sys.executable
            return [python, str(self._shop.source / "tests/independent/check_run.py"), "--tool", tool]
        if target == "kernels":
            tests = str(self._shop.build_folder / "tests/gpu_kernels_test")
            emulated = str(self._shop.build_folder / "tests/siattn_emulated")
            quick = [tests, "--gtest_fail_fast", "--gtest_brief=1"]
            return [emulated, "conform", "--json", "--fail-fast", "--backend", "cuda-in-place", "--quick"] if whole else quick
        if target == "kernels-sm90":
            return [str(self._shop.build_folder / "tests/gpu_sm90_test"), "--gtest_fail_fast", "--gtest_brief=1"]
        backend, dtype = target.split("/")
        part = [] if whole else ["--quick"]
        return [tool, "conform", "--json", "--fail-fast", "--backend", backend, "--dtype", dtype] + part

    def _run(self, target: str, whole: bool) -> Optional[str]:
        """What failed, or None."""
        command = self._command(target, whole)
        environment = {k: v for k, v in os.environ.items() if not k.startswith("SIATTN_")}
        # The same work on every machine, and threads that wait without turning.
        environment |= {"SIATTN_NUM_THREADS": "2", "OMP_WAIT_POLICY": "passive"}
        start = time.monotonic()
        status, output = self._shop.processes.run(command, self._limits.get(tuple(command)), env=environment)
        if tuple(command) not in self._limits:
            self._limits[tuple(command)] = PATIENCE[0] * (time.monotonic() - start) + PATIENCE[1]
        if status == 0:
            return None
        if status is None:
            return "no end"
        if status < 0:
            return signal.Signals(-status).name
        if status != 1:
            raise Failure(f"{' '.join(command)}: exit status {status}, which says nothing:\n{output[-1000:]}")
        return first_failure(output)

    def check_unmutated(self, needed: List[Mutant]):
        self._shop.build("building the unmutated sources")
        conforming = [m for m in needed if m.by == "conform"]
        if conforming:
            status, output = self._shop.processes.run([self._shop.tool, "conform", "--json", "--quick"])
            if status != 0:
                raise Failure(f"the unmutated sources do not conform: {first_failure(output)}")
            ids = (check["id"].rsplit("/", 1)[0] for check in json.loads(output)["checks"])
            available = list(dict.fromkeys(ids))
            self.targets = [t for t in available if any(matches(t, m.on) for m in conforming)]
        self.targets += sorted({m.by for m in needed} - {"conform"})
        # One after the other: these times set the patience for the mutants.
        for target in self.targets:
            for whole in (False, True) if "/" in target or target in IN_TWO_PARTS else (False,):
                failure = self._run(target, whole)
                if failure:
                    raise Failure(f"the unmutated sources fail, {target}: {failure}")

    def verdicts(self, mutant: Mutant) -> Tuple[Dict[str, str], List[str]]:
        """Target -> what killed it there; and the targets where it survived."""
        left = [t for t in self.targets if matches(t, mutant.on)]
        killed: Dict[str, str] = {}
        for whole in (False, True) if mutant.by in IN_TWO_PARTS else (False,):
            with concurrent.futures.ThreadPoolExecutor(self._shop.jobs) as pool:
                for target, failure in zip(left, pool.map(lambda t: self._run(t, whole), left)):
                    if failure:
                        killed[target] = failure + (" (whole set)" if whole else "")
            left = [t for t in left if t not in killed]
        return killed, left


def first_failure(output: str) -> str:
    try:
        checks = json.loads(output)["checks"]
    except (json.JSONDecodeError, KeyError):
        lines = [line for line in output.splitlines() if re.search("fail|error", line, re.I)]
        return lines[0].strip() if lines else "exit status 1"
    for check in checks:
        if check["verdict"] in ("fail", "error"):
            case = re.search(r"--case (\S+): ", check["message"])
            return case.group(1) if case else check["id"]
    return "exit status 1"


def run_mutant(shop: Workshop, checks: Checks, mutant: Mutant) -> Outcome:
    original = shop.read(mutant.file)
    start = time.monotonic()
    shop.write(mutant.file, mutant.applied_to(original))
    try:
        shop.build(f"building mutant {mutant.name}")
        built = time.monotonic()
        killed, survived = checks.verdicts(mutant)
    finally:
        shop.write(mutant.file, original)
    return Outcome(mutant, killed, survived, built - start, time.monotonic() - built)


def where_text(outcome: Outcome) -> str:
    """How many targets killed it, and which did not."""
    count = len(outcome.killed) + len(outcome.survived)
    text = f"{len(outcome.killed)} of {count}"
    return text + (f", not {' '.join(outcome.survived)}" if outcome.survived and outcome.killed else "")


def by_text(outcome: Outcome) -> str:
    """The checks that killed it, the commonest first; at most two of them."""
    counts: Dict[str, int] = {}
    for check in outcome.killed.values():
        counts[check] = counts.get(check, 0) + 1
    names = sorted(counts, key=lambda c: -counts[c])
    more = f" and {len(names) - 2} more" if len(names) > 2 else ""
    return ", ".join(names[:2]) + more if names else "-"


def summary(outcomes: List[Outcome]) -> str:
    killed = sum(o.verdict() == "killed" for o in outcomes)
    explained = sum(o.verdict() == "explained" for o in outcomes)
    absent = sum(o.verdict() == "not here" for o in outcomes)
    wrong = len(outcomes) - killed - explained - absent
    return (f"{killed} killed, {wrong} survived, {explained} explained" +
            (f", {absent} for backends that are not here" if absent else ""))


def markdown(outcomes: List[Outcome], footer: str) -> str:
    lines = ["| mutant | verdict | where | by which check |", "| --- | --- | --- | --- |"]
    for o in outcomes:
        lines.append(f"| {o.mutant.name} | {o.verdict()} | {where_text(o)} | {by_text(o)} |")
    reasons = [f"- {o.mutant.name}: {o.mutant.because}" for o in outcomes if o.mutant.because]
    return "\n".join(lines + [""] + (reasons + [""] if reasons else []) + [footer, ""])


def as_json(outcomes: List[Outcome]) -> str:
    return json.dumps([{"name": o.mutant.name, "file": o.mutant.file, "verdict": o.verdict(), "killed": o.killed,
                        "survived": o.survived, "because": o.mutant.because, "good": o.good(),
                        "build_seconds": round(o.build_seconds, 2), "check_seconds": round(o.check_seconds, 2)}
                       for o in outcomes], indent=2) + "\n"


def print_outcome(o: Outcome):
    print(f"{o.mutant.name:<51} {o.verdict():<9} {where_text(o):<8} {by_text(o)}", flush=True)
    if o.mutant.because:
        print(f"    survives because: {o.mutant.because}", flush=True)
    if o.verdict() == "KILLED":
        killed = [t for t in o.expected_survivors() if t in o.killed]
        print(f"    killed although its entry says that it survives: {' '.join(killed)}", flush=True)


def arguments(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="names and files, then stop")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these; * stands for anything")
    parser.add_argument("--quick-set", action="store_true", help="those marked quick")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="at a time [as many as processors]")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="work in this folder and leave it, for the next run")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--markdown", type=Path, metavar="FILE")
    return parser.parse_args(argv)


def selected(mutants: List[Mutant], args) -> List[Mutant]:
    result = [m for m in mutants if (not args.quick_set or m.quick) and (not args.only or matches(m.name, args.only))]
    for name in args.only or []:
        if not any(matches(m.name, [name]) for m in mutants):
            raise Failure(f"--only {name}: no such mutant; see --list")
    return result


def run(args, processes: Processes, folder: Path) -> int:
    start = time.monotonic()
    mutants = load_mutants()
    # Every entry, chosen or not: a stale one is found by the first run of anybody.
    for mutant in mutants:
        if not (ROOT / mutant.file).is_file():
            raise Failure(f"mutant {mutant.name} is stale: there is no {mutant.file}")
        mutant.applied_to((ROOT / mutant.file).read_bytes().decode())
    mutants = selected(mutants, args)
    if args.list:
        for mutant in mutants:
            print(f"{mutant.name:<51} {mutant.file:<28} {mutant.by}{' quick' if mutant.quick else ''}"
                  f"{' explained' if mutant.because else ''}")
        return 0
    shop = Workshop(folder, args.jobs, processes, any(m.by.startswith("kernels") for m in mutants))
    shop.copy_sources()
    shop.configure()
    checks = Checks(shop)
    checks.check_unmutated(mutants)
    print(f"unmutated: passes on {', '.join(checks.targets)} ({time.monotonic() - start:.0f} s)", flush=True)
    outcomes = []
    for mutant in mutants:
        outcomes.append(run_mutant(shop, checks, mutant))
        print_outcome(outcomes[-1])
    footer = f"{summary(outcomes)} ({time.monotonic() - start:.0f} s)"
    print("\n" + footer)
    if args.markdown:
        args.markdown.write_text(markdown(outcomes, footer))
    if args.json:
        args.json.write_text(as_json(outcomes))
    return 0 if all(o.good() for o in outcomes) else 1


def main() -> int:
    args = arguments(sys.argv[1:])
    processes = Processes()

    def stop(_signal, _frame):
        processes.end_all()  # first: threads wait for them
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    temporary = None
    try:
        if args.keep:
            args.keep.mkdir(parents=True, exist_ok=True)
            folder = args.keep.resolve()
        else:
            temporary = tempfile.mkdtemp(prefix="siattn-mutate-")
            folder = Path(temporary)
        return run(args, processes, folder)
    except Failure as failure:
        print(f"mutate.py: {failure}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("mutate.py: stopped", file=sys.stderr)
        return 130
    finally:
        processes.end_all()
        if temporary:
            shutil.rmtree(temporary, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
