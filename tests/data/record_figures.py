#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads what `siattn conform --json` prints and writes its figures, one a line, rounded up to three digits. Those
of the reference are left out: it is what the others are compared with."""
import json
import math
import sys

report = json.load(sys.stdin)
if report["failed"]:
    sys.exit("the suite failed: nothing to record")
figures = {check["id"]: math.ceil(check["figure"] * 1e3) / 1e3 for check in report["checks"]
           if not check["id"].startswith("reference/")}
json.dump(figures, sys.stdout, indent=0, sort_keys=True)
print()
