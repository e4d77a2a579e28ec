# SPDX-License-Identifier: Apache-2.0
"""Checks `siattn table` from outside: float64 entries to 1e-15 relative against 40 digits, float32 entries correctly
rounded. Exit status 1 on any failure.

    check_table.py --tool build/release/tools/siattn [--seed S]

Needs the Debian packages python3-numpy and python3-mpmath.
"""
import argparse
import os
import shlex
import subprocess
import sys
import tempfile
import time
from typing import List, Optional, Tuple

import numpy as np
from mpmath import mp, mpf

import attention_mp as exact
import tensor_files as files

LENGTH = 1000001
RELATIVE = mpf("1e-15")

# a_t and m_t of Eq. 16 for tau = 10, alpha = beta = e^(1/2): from an independent evaluation to 40 digits, neither by
# this program nor by the library.
GOLDEN = {
    1: ("1.091155515776119659939373", "-0.1906203596086497200879042"),
    100: ("2.407444816729293400258778", "-4.795790545596741088123887"),
    65536: ("4.309970387883275512272877", "-17.57584474443071237269689"),
    1000000: ("4.90161921510029759949759", "-23.02587092984045750684158"),
}

# tau, alpha, beta, length; None: e^(1/2). The last two: where a_0 = 0, and where m_t changes its sign.
PARAMETERS: Tuple[Tuple[float, Optional[float], Optional[float], int], ...] = (
    (10.0, None, None, LENGTH), (1.0, None, None, 70000), (0.1, None, None, 5000), (1234.5, None, None, 70000),
    (1e-6, None, None, 1000), (1e30, None, None, 1000), (10.0, 1.0, 1.0, 5000), (3.0, 2.0, 5.0, 5000),
    (50.0, 0.25, 0.125, 5000), (10.0, exact.SQRT_E_AS_DOUBLE, exact.SQRT_E_AS_DOUBLE, 5000),
    (10.0, 1.0, 2.0**-40, 5000), (7.0, 4.0, 6.0, 5000))


class Checker:
    def __init__(self, tool: str, folder: str, rng):
        self.tool, self.folder, self.rng = tool, folder, rng
        self.passed = self.failed = 0

    def record(self, label: str, problem: str, words: List[str]) -> None:
        if not problem:
            self.passed += 1
            return
        self.failed += 1
        print(f"FAIL {label}: {problem}\n     {shlex.join(words)}")

    def table(self, tau, alpha, beta, length: int, dtype: str) -> Tuple[Optional[np.ndarray], List[str]]:
        path = os.path.join(self.folder, f"table-{dtype}.npy")
        words = [self.tool, "table", "--tau", repr(tau), "--length", str(length), "--dtype", dtype, "--out", path]
        for name, given in (("--alpha", alpha), ("--beta", beta)):
            words += [] if given is None else [name, repr(given)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=120)
        if done.returncode != 0:
            self.record("run", f"exit status {done.returncode}: {done.stderr.strip()}", words)
            return None, words
        table, found = files.read_npy(path)
        if (table.shape, found) != ((2, length), dtype):
            self.record("form", f"{found} {table.shape}, expected {dtype} (2, {length})", words)
            return None, words
        return table, words

    def check_double(self, table: np.ndarray, words: List[str], parameters, distances) -> float:
        """Returns the worst relative error."""
        worst, problem = mpf(0), ""
        for t in map(int, distances):
            for row, want in enumerate(exact.scale_invariant(*parameters, t)):
                got = mpf(float(table[row, t]))
                error = abs(got - want) / abs(want) if want != 0 else (mpf(0) if got == 0 else mp.inf)
                if not error <= worst:  # a NaN too
                    worst = error
                    problem = (f"{'am'[row]}_{t} = {float(got)!r}, expected {mp.nstr(want, 20)}, "
                               f"relative error {mp.nstr(error, 3)}")
        self.record("float64", problem if not worst <= RELATIVE else "", words)
        return float(worst)

    def check_float(self, table: np.ndarray, words: List[str], parameters, distances) -> None:
        problems = []
        for t in map(int, distances):
            for row, want in enumerate(exact.scale_invariant(*parameters, t)):
                got, nearest = float(table[row, t]), float(nearest_float(want))
                if got != nearest:
                    problems.append(f"{'am'[row]}_{t} = {got!r}, expected {nearest!r}")
        problem = f"{problems[0]}, and {len(problems) - 1} more" if problems else ""
        self.record("float32 correctly rounded", problem, words)


def nearest_float(x: mpf) -> mpf:
    """One rounding, to nearest even, from 40 digits to 24 bits: all entries are normal float32 numbers, or 0."""
    with mp.workprec(24):
        return +x


def golden_disagreement() -> str:
    """The golden values against mpmath, to the digits that they have."""
    for t, texts in GOLDEN.items():
        for text, want in zip(texts, exact.scale_invariant(10.0, None, None, t)):
            if abs(mpf(text) - want) > mpf("1e-23") * abs(want):
                return f"t = {t}: {text} here, {mp.nstr(want, 25)} recomputed"
    return ""


def close_to_midpoint(table: np.ndarray) -> np.ndarray:
    """Distances whose float64 entry lies so near the middle of two float32 numbers that its error could matter: with
    these in the sample and float32 == rounded float64 elsewhere, *every* float32 entry is correctly rounded."""
    below = table.astype(np.float32).astype(np.float64)
    spacing = np.spacing(np.abs(below).astype(np.float32)).astype(np.float64)
    to_midpoint = np.abs(np.abs(table - below) - spacing / 2)
    return np.flatnonzero((to_midpoint < 1e-14 * np.abs(table)).any(axis=0))


def check_parameters(checker: Checker, parameters) -> None:
    *equation, length = parameters
    first = np.arange(min(length, 200))
    sample = np.unique(np.concatenate([first, checker.rng.integers(0, length, 1500), [length - 1]]))
    double, words = checker.table(*parameters, "f64")
    single, words_single = checker.table(*parameters, "f32")
    if double is None or single is None:
        return
    worst = checker.check_double(double, words, equation, sample)
    near = close_to_midpoint(double)
    checker.check_float(single, words_single, equation, np.union1d(sample, near[:1000]))
    others = np.setdiff1d(np.arange(length), near)
    differ = (double[:, others].astype(np.float32) != single[:, others]).any(axis=0)
    problem = f"differ first at t = {others[np.argmax(differ)]}" if differ.any() else ""
    checker.record("float32 = float64 rounded", problem, words_single)
    if equation == [10.0, None, None]:
        checker.check_double(double, words, equation, GOLDEN)
    text = [f"{name} = {'e^(1/2)' if x is None else x:}" for name, x in zip(("tau", "alpha", "beta"), equation)]
    print(f"{', '.join(text)}, length {length}: worst relative error of float64 {worst:.2e}; float32 checked at "
          f"{len(np.union1d(sample, near[:1000]))} distances, {len(near)} of them close to a midpoint", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="Checks `siattn table` against 40 digits.")
    parser.add_argument("--tool", required=True, help="path of the program siattn")
    parser.add_argument("--seed", type=int, default=20250517)
    arguments = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="siattn-check-table-") as folder:
        checker = Checker(os.path.abspath(arguments.tool), folder, np.random.default_rng(arguments.seed))
        print(f"check_table: seed {arguments.seed}")
        checker.record("golden values", golden_disagreement(), ["check_table.py itself"])
        for parameters in PARAMETERS:
            check_parameters(checker, parameters)
    print(f"{checker.passed} passed, {checker.failed} failed ({time.monotonic() - started:.0f} s)")
    return 1 if checker.failed else 0


if __name__ == "__main__":
    sys.exit(main())
