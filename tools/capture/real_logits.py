#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run `siattn gaussian` on every layer of a captured file, before and after
RoPE, and print the tables of docs/claims.md, "Real logits".

    real_logits.py --siattn PROGRAM --file FILE.safetensors --reports DIR

DIR gets one JSON report for each layer and encoding; those that are there
already are not computed again. The file: capture.py --layers all."""

import argparse
import json
import subprocess
import sys
from pathlib import Path

ENCODINGS = {"before RoPE": "", "after RoPE": "_rope"}


def layers_of(path):
    """The layer numbers in the file's header."""
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
    return sorted({int(name.split(".")[1]) for name in header
                   if name.startswith("layer.")})


def report(options, layer, suffix):
    """What `siattn gaussian --json` says of one layer."""
    kept = options.reports / f"layer.{layer}.{suffix or '_pre'}.json"
    if not kept.exists():
        spec = f"{options.file}:layer.{layer}"
        done = subprocess.run(
            [options.siattn, "gaussian", "--query", f"{spec}.query{suffix}",
             "--key", f"{spec}.key{suffix}", "--json"],
            capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"layer {layer}: {done.stderr.strip()}")
        kept.write_text(done.stdout)
    return json.loads(kept.read_text())


def spread(values, digits=2):
    return f"{min(values):.{digits}f} .. {max(values):.{digits}f}"


def laws(reports):
    """A row for each layer: ranges over its heads."""
    print("| layer | mean | sd | skewness | excess kurtosis | D, N(0,1) | "
          "D, N(mean, sd) |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for layer, found in reports.items():
        heads = found["heads"]
        cells = [spread([h[name]["value"] for h in heads])
                 for name in ("mean", "standard_deviation", "skewness",
                              "excess_kurtosis")]
        cells += [spread([h[law]["kolmogorov"] for h in heads], 3)
                  for law in ("from_standard_normal", "from_fitted_normal")]
        print(f"| {layer} | " + " | ".join(cells) + " |")


def range_words(decade):
    first, last = decade["first"], decade["last"]
    return f"t = {first}" if first == last else f"t = {first} .. {last}"


def mean_and_spread(values, digits):
    mean = sum(values) / len(values)
    return f"{mean:.{digits}f} ({min(values):.{digits}f} .. " \
           f"{max(values):.{digits}f})"


def decades(reports):
    """Mean over layers, and the least and greatest layer."""
    tables = [found["transforms"] for found in reports.values()]
    names = [t["transform"] for t in tables[0]]
    ranges = [range_words(d) for d in tables[0][0]["decades"]]
    rule = "| --- " * (len(names) + 1) + "|"

    def rows(title, cell, digits, last_row, last):
        print(f"| {title} | " + " | ".join(names) + " |")
        print(rule)
        for k, words in enumerate(ranges):
            print(f"| {words} | " + " | ".join(
                mean_and_spread([cell(t[n]["decades"][k]) for t in tables],
                                digits) for n in range(len(names))) + " |")
        print(f"| {last_row} | " + " | ".join(
            mean_and_spread([last(t[n]) for t in tables], digits)
            for n in range(len(names))) + " |")

    rows("attention, %", lambda d: 100 * d["mass"], 1, "sink",
         lambda t: 100 * t["sink_mass"])
    print()
    rows("entropy, nats", lambda d: d["entropy"], 2, "all",
         lambda t: t["entropy"])


def by_distance(reports):
    """(S - mean) / sd of all heads of a layer: mean and sd by decade."""
    rows = [found["calibrated_by_distance"] for found in reports.values()]
    print("| (S - mean) / sd | mean, over layers | sd, over layers |")
    print("| --- | --- | --- |")
    for k, decade in enumerate(rows[0]):
        print(f"| {range_words(decade)} | " + " | ".join(
            mean_and_spread([row[k][name]["value"] for row in rows], 2)
            for name in ("mean", "standard_deviation")) + " |")


def run():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--siattn", default="siattn")
    parser.add_argument("--file", required=True)
    parser.add_argument("--reports", required=True, type=Path)
    options = parser.parse_args()
    options.reports.mkdir(parents=True, exist_ok=True)
    layers = layers_of(options.file)
    for title, suffix in ENCODINGS.items():
        reports = {k: report(options, k, suffix) for k in layers}
        first = next(iter(reports.values()))
        print(f"### {title[0].upper()}{title[1:]}: {len(first['heads'])} heads, "
              f"{first['queries']} queries, {first['heads'][0]['pairs']:.0f} "
              "pairs a head\n")
        laws(reports)
        print()
        by_distance(reports)
        print()
        decades(reports)
        print()


if __name__ == "__main__":
    run()
