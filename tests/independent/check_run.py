# SPDX-License-Identifier: Apache-2.0
"""Checks `siattn run` from outside: out, lse and weights of every available backend, element by element, against
attention in 40 digits, within the bound that attention_mp.py derives. Exit status 1 on any failure.

    check_run.py --tool build/release/tools/siattn [--seed S] [--cases N] [--plant NAME]

Needs the Debian packages python3-numpy and python3-mpmath.
"""
import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from typing import Dict, List, Optional

import numpy as np
from mpmath import mp, mpf

import attention_mp as exact
import planted
import tensor_files as files
from run_cases import Case, all_cases


@dataclass
class Expected:
    """One output: the exact values as unevaluated sums high + low of doubles, and the tolerances by arithmetic."""
    high: np.ndarray
    low: np.ndarray
    tolerance: Dict[str, np.ndarray]


def expected_array(shape) -> Expected:
    return Expected(np.zeros(shape), np.zeros(shape), {"double": np.zeros(shape), "float32": np.zeros(shape)})


def put(expected: Expected, index, value: mpf, tolerances: Dict[str, float]) -> None:
    expected.high[index] = float(value)
    expected.low[index] = float(value - expected.high[index]) if mp.isfinite(value) else 0.0
    for name, tolerance in tolerances.items():
        expected.tolerance[name][index] = tolerance


def computed_inputs(case: Case) -> List[np.ndarray]:
    """As the program computes with them: rounded to the file's type, then to that of the computation."""
    arrays = [case.query, case.key, case.value]
    if case.file_dtypes:
        arrays = [files.rounded(x, dtype) for x, dtype in zip(arrays, case.file_dtypes)]
    return [files.rounded(x, case.dtype) for x in arrays]


def evaluate(case: Case) -> Dict[str, Expected]:
    query, key, value = computed_inputs(case)
    batch, heads, query_len, head_dim = query.shape
    kv_heads, kv_len, value_dim = value.shape[1:]
    rows = (batch, heads, query_len)
    result = {"out": expected_array((*rows, value_dim)), "lse": expected_array(rows),
              "weights": expected_array((*rows, kv_len))}
    arithmetics = {"double": exact.DOUBLE}
    arithmetics["float32"] = exact.DOUBLE if case.dtype == "f64" else exact.float32_arithmetic(case.dtype)
    for b, h in np.ndindex(batch, heads):
        g = exact.kv_head(h, heads, kv_heads)
        for i, row in enumerate(exact.attention_head(case.problem, h, heads, query[b, h], key[b, g], value[b, g])):
            bounds = {name: exact.bound(row, head_dim, value[b, g], a, case.dtype) for name, a in arithmetics.items()}
            put(result["lse"], (b, h, i), row.lse, {name: x.lse for name, x in bounds.items()})
            for c in range(value_dim):
                put(result["out"], (b, h, i, c), row.out[c], {name: x.out[c] for name, x in bounds.items()})
            for n, j in enumerate(row.keys):
                put(result["weights"], (b, h, i, j), row.weights[n], {name: x.weights[n] for name, x in bounds.items()})
    return result


def disagreement_with_fractions(case: Case, expected: Dict[str, Expected]) -> str:
    """H-inputs: does the 40-digit program itself give the known fractions (here as sums of two doubles)?"""
    query_len, kv_len = case.query.shape[2], case.key.shape[2]
    for i in range(query_len):
        position = exact.query_position(case.problem, i, query_len, kv_len)
        keys = exact.visible_keys(case.problem, position, kv_len)
        if not keys:
            continue
        out, weight_sum = exact.h_inputs_row(position, keys)
        wanted = {"out": mpf(out.numerator) / out.denominator,
                  "lse": mp.log(mpf(weight_sum.numerator) / weight_sum.denominator)}
        for name, want in wanted.items():
            index = (0, 0, i, 0)[:expected[name].high.ndim]
            got = mpf(expected[name].high[index]) + mpf(expected[name].low[index])
            if abs(got - want) > mpf(10) ** -31 * (1 + abs(want)):
                return f"{name} row {i}: {mp.nstr(got, 20)}, expected {mp.nstr(want, 20)}"
    return ""


# ---- Running the program ------------------------------------------------------------------------------------------

def to_layout(array: np.ndarray, case: Case) -> np.ndarray:
    """From [batch, heads, len, dim] to the file's axes, and back."""
    array = array.swapaxes(1, 2) if case.layout == "bshd" else array
    return array.reshape(array.shape[4 - case.axes:]) if array.ndim == 4 else array


def write_inputs(case: Case, folder: str) -> Dict[str, str]:
    """Returns --query, --key and --value."""
    dtypes = case.file_dtypes or (case.dtype,) * 3
    tensors = {name: (np.ascontiguousarray(to_layout(array, case)), dtype) for name, array, dtype in
               zip(("query", "key", "value"), (case.query, case.key, case.value), dtypes)}
    if case.container == "safetensors":
        path = os.path.join(folder, "inputs.safetensors")
        files.write_safetensors(path, tensors)
        return {name: f"{path}:{name}" for name in tensors}
    paths = {name: os.path.join(folder, f"{name}.npy") for name in tensors}
    for name, (array, dtype) in tensors.items():
        files.write_npy(paths[name], array, dtype)
    return paths


def problem_options(case: Case, folder: str) -> List[str]:
    """Every option that differs from its default, and the transform."""
    p, default = case.problem, exact.Problem()
    words = ["--transform", case.transform_option or p.transform]
    if (p.mean, p.standard_deviation) != (default.mean, default.standard_deviation):
        path = os.path.join(folder, "calibration.json")
        with open(path, "w") as file:
            json.dump({"mean": p.mean, "standard_deviation": p.standard_deviation}, file)
        words += ["--calibration", path]
    for name in ("tau", "alpha", "beta", "logn_scale", "train_length", "sinks", "mask", "window", "query_offset",
                 "softmax_scale"):
        given = getattr(p, name)
        if given != getattr(default, name):
            text = ",".join(map(repr, given)) if isinstance(given, tuple) else str(given)
            words.append(f"--{name.replace('_', '-')}={text}")
    if case.file_dtypes:
        words += ["--dtype", case.dtype]
    if case.layout != "bhsd":
        words += ["--layout", case.layout]
    return words + ["--threads", str(case.threads)]


def launch(words: List[str]) -> Optional[str]:
    """Nothing, or what went wrong. The environment holds nothing that would steer the program."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SIATTN_", "OMP_"))}
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=120, env=environment)
    except subprocess.TimeoutExpired:
        return "not done after 120 s"
    return None if done.returncode == 0 else f"exit status {done.returncode}: {done.stderr.strip()}"


def output_paths(case: Case, folder: str, backend: str) -> Dict[str, str]:
    names = ["out", "lse"] + (["weights"] if backend == "reference" else [])
    if case.container == "safetensors":
        return {name: os.path.join(folder, f"{name}-{backend}.safetensors:{name}") for name in names}
    return {name: os.path.join(folder, f"{name}-{backend}.npy") for name in names}


# ---- Comparing ----------------------------------------------------------------------------------------------------

def expected_form(case: Case, name: str, shape) -> tuple:
    """Shape and type of the file. lse and weights are [batch, heads, len ..] whatever the layout of the input."""
    if name == "out":
        return to_layout(np.empty(shape), case).shape, case.dtype
    return shape[4 - case.axes:], "f64" if (name, case.dtype) == ("lse", "f64") else "f32"


@dataclass
class Verdict:
    ratio: float = 0.0   # worst error / bound
    problem: str = ""


def compare(case: Case, name: str, path: str, expected: Expected, arithmetic: str) -> Verdict:
    try:
        got, dtype = files.read_tensor(path)
    except (OSError, ValueError, KeyError) as error:
        return Verdict(np.inf, f"{name}: no such output, or not as it should be: {error!r}")
    form = expected_form(case, name, expected.high.shape)
    if (got.shape, dtype) != form:
        return Verdict(np.inf, f"{name}: file holds {dtype} {got.shape}, expected {form[1]} {form[0]}")
    if name == "out" and case.layout == "bshd":
        got = got.reshape((1,) * (4 - got.ndim) + got.shape).swapaxes(1, 2)
    got = got.reshape(expected.high.shape)
    tolerance = expected.tolerance[arithmetic]
    if np.isnan(expected.high).any() or not np.isfinite(tolerance).all():
        return Verdict(np.inf, f"{name}: the case is no good: its exact result or its bound is not finite")
    same = got == expected.high   # infinities; a masked weight, whose tolerance is 0
    with np.errstate(invalid="ignore", divide="ignore"):
        error = np.where(same, np.abs(expected.low), np.abs((got - expected.high) - expected.low))
        ratio = np.where(error == 0, 0.0, error / tolerance)
    ratio = np.where(np.isnan(ratio), np.inf, ratio)
    if not (ratio > 1).any():
        return Verdict(float(ratio.max(initial=0.0)))
    at = np.unravel_index(int(np.argmax(ratio)), ratio.shape)
    return Verdict(float(ratio[at]), f"{name}[{', '.join(map(str, at))}] = {got[at]!r}, expected {expected.high[at]!r} "
                   f"+- {tolerance[at]:.3g}; {int((ratio > 1).sum())} of {ratio.size} elements are beyond the bound")


class Checker:
    def __init__(self, tool: str):
        self.tool = tool
        info = json.loads(subprocess.run([tool, "info", "--json"], capture_output=True, text=True, check=True).stdout)
        self.backends = {b["name"]: b["dtypes"] for b in info["backends"] if b["available"]}
        if "reference" not in self.backends:
            sys.exit(f"{tool} info --json: no backend 'reference' among {self.backends}")
        self.folder = tempfile.mkdtemp(prefix="siattn-check-run-")
        self.passed = self.failed = self.launches = 0
        self.worst: Dict[str, Dict[str, float]] = {}   # error / bound, by backend and type

    def note(self, backend: str, column: str, ratio: float) -> None:
        column = "16-bit" if column in ("bf16", "f16") else column
        row = self.worst.setdefault(backend, {})
        row[column] = max(row.get(column, 0.0), ratio)

    def worst_ratios(self) -> str:
        return "; ".join(name + "".join(f" {column} {ratio:.3f}" for column, ratio in sorted(row.items()))
                         for name, row in self.worst.items())

    def record(self, label: str, problem: str, words: List[str]) -> None:
        if not problem:
            self.passed += 1
            return
        self.failed += 1
        print(f"FAIL {label}: {problem}\n     {shlex.join(words)}")

    def check(self, number: int, case: Case) -> None:
        folder = os.path.join(self.folder, f"{number:03d}")
        os.mkdir(folder)
        expected, inputs, failed_before = evaluate(case), write_inputs(case, folder), self.failed
        label = f"{case.group}, {case.name}, {case.dtype}"
        if case.h_inputs:
            self.record(label, disagreement_with_fractions(case, expected), ["attention_mp.py itself"])
        for backend in self.backends:
            if case.dtype not in self.backends[backend]:
                continue
            outputs = output_paths(case, folder, backend)
            paths = [word for name, path in {**inputs, **outputs}.items() for word in (f"--{name}", path)]
            words = [self.tool, "run", *paths, "--backend", backend, *problem_options(case, folder)]
            self.launches += 1
            problem = launch(words)
            if problem:
                self.record(f"{label}, {backend}", problem, words)
                continue
            for name, path in outputs.items():
                arithmetic = "double" if backend == "reference" else "float32"
                verdict = compare(case, name, path, expected[name], arithmetic)
                self.note(backend, "weights" if name == "weights" else case.dtype, verdict.ratio)
                self.record(f"{label}, {backend}", verdict.problem, words)
        if self.failed == failed_before:
            shutil.rmtree(folder)


def main() -> int:
    parser = argparse.ArgumentParser(description="Checks `siattn run` against attention in 40 digits.")
    parser.add_argument("--tool", required=True, help="path of the program siattn")
    parser.add_argument("--seed", type=int, default=20250517)
    parser.add_argument("--cases", type=int, default=16, help="number of random cases, besides the directed ones")
    parser.add_argument("--plant", choices=sorted(planted.PLANTS), help="put a wrong equation in place: must fail")
    arguments = parser.parse_args()
    if arguments.plant:
        planted.plant(arguments.plant)
    started = time.monotonic()
    checker = Checker(os.path.abspath(arguments.tool))
    print(f"check_run: seed {arguments.seed}, backends {', '.join(checker.backends)}")
    cases = all_cases(arguments.seed, arguments.cases)
    for group in dict.fromkeys(case.group for case in cases):
        before, checker.worst = (checker.passed, checker.failed), {}
        for number, case in enumerate(cases):
            if case.group == group:
                checker.check(number, case)
        print(f"{group:<11} {checker.passed - before[0]:>5} passed, {checker.failed - before[1]} failed; "
              f"worst error / bound: {checker.worst_ratios()}", flush=True)
    if checker.failed and not arguments.plant:
        print(f"The files of the failures are in {checker.folder}")
    else:
        shutil.rmtree(checker.folder)
    print(f"{checker.passed} passed, {checker.failed} failed ({len(cases)} cases, {checker.launches} launches, "
          f"{time.monotonic() - started:.0f} s)")
    return 1 if checker.failed else 0


if __name__ == "__main__":
    sys.exit(main())
