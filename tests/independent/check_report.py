# SPDX-License-Identifier: Apache-2.0
"""What `siattn verify --report` writes, read by other programs' parsers: every file is well-formed, the page is
complete in itself, and each line, bar and cell of a picture, and each number at its axes, stands where report.json
says. Each picture is also held against a report with one number moved, which has to be noticed. Exit status 1 on any failure.

    check_report.py --tool build/release/siattn
"""
import argparse
import copy
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET

SVG = "{http://www.w3.org/2000/svg}"
ALLOWED = set("html head meta title style body h1 h2 p code a div table caption thead tbody tr th td details summary dl "
              "dt dd figure figcaption svg desc rect text g path".split())
LEVELS = 12
SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻−", "0123456789--")


class Mismatch(Exception):
    pass


def demand(condition, message):
    if not condition:
        raise Mismatch(message)


def finite(x, log):
    return not isinstance(x, str) and math.isfinite(x) and (not log or x > 0)


def place(x, log):
    return math.log10(x) if log else x


def numbers(d):
    return [float(n) for n in re.findall(r"-?\d+\.?\d*", d)]


def polyline(d):
    """Points of a path of M, L and the h0 that makes a point alone visible."""
    return [tuple(numbers(part)[:2]) for part in re.findall(r"[ML][^MLhz]*", d)]


class Fit:
    """Places of known values along one axis, from pixel `begin` to `end`: they have to lie on a straight line. Of a
    value beyond the axis only that it is drawn beyond it counts."""

    def __init__(self, log, begin, end):
        self.log, self.begin, self.end, self.pairs, self.outside = log, begin, end, [], []

    def inside(self, pixel):
        return self.begin - 1 <= pixel <= self.end + 1

    def add(self, value, pixel):
        (self.pairs if self.inside(pixel) else self.outside).append((place(value, self.log), pixel))

    def line(self):
        n = len(self.pairs)
        mu = sum(u for u, _ in self.pairs) / n
        mp = sum(p for _, p in self.pairs) / n
        spread = sum((u - mu) ** 2 for u, _ in self.pairs)
        slope = sum((u - mu) * (p - mp) for u, p in self.pairs) / spread if spread > 0 else 0
        return mp - slope * mu, slope

    def check(self, where):
        if len(self.pairs) < 2:
            return
        start, slope = self.line()
        worst = max(abs(start + slope * u - p) for u, p in self.pairs)
        demand(worst < 0.11, f"{where}: {worst:.2f} pixels from where the number belongs")
        wrong = any(self.inside(start + slope * u) for u, _ in self.outside)
        demand(not wrong, f"{where}: a number is drawn beyond the axis")

    def at(self, value):
        start, slope = self.line()
        return start + slope * place(value, self.log)


def value_of(label):
    """The number that an axis label means; None for words."""
    text = re.sub(r"10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)", lambda m: "1e" + m.group(1), label).translate(SUPERSCRIPTS)
    factor, _, power = text.rpartition("×")
    try:
        return (float(factor) if factor else 1.0) * float(power)
    except ValueError:
        return None


def shown(series, panel):
    logs = panel["x"]["log"], panel["y"]["log"]
    return [(x, y) for x, y in zip(series["x"], series["y"]) if finite(x, logs[0]) and finite(y, logs[1])]


def check_series(series, panel, group, fits):
    wanted = shown(series, panel)
    lines = [p for p in group.iter(SVG + "path") if p.get("class") == "l" or (group.get("class") == "p")]
    bars = [p for p in group.iter(SVG + "path") if p.get("class") == "r"]
    if bars:
        tops = [float(v) for v in re.findall(r"M[^V]*V(-?\d+\.?\d*)h", bars[0].get("d"))]
        demand(len(tops) == len(wanted), f"{len(tops)} bars for {len(wanted)} numbers")
        for (_, y), top in zip(wanted, tops):
            fits[1].add(y, top)
        return len(tops)
    for path in lines:
        points = polyline(path.get("d"))
        demand(len(points) == len(wanted), f"{series['name']}: {len(points)} points drawn for {len(wanted)} numbers")
        for (x, y), (px, py) in zip(wanted, points):
            fits[0].add(x, px)
            fits[1].add(y, py)
    return len(wanted) if lines else 0


def check_heat(heat, panel, group, area):
    """Each cell's middle lies in exactly one rectangle, of the strength that its value asks for."""
    x0, y0, wide, high = area
    edges = heat["x_edges"], heat["y_edges"]
    logs = panel["x"]["log"], panel["y"]["log"]

    def pixel(axis, value):
        low, top = place(edges[axis][0], logs[axis]), place(edges[axis][-1], logs[axis])
        share = (value - low) / (top - low)
        return x0 + share * wide if axis == 0 else y0 + (1 - share) * high

    rectangles = []
    for path in group.iter(SVG + "path"):
        level = round(float(path.get("fill-opacity")) * LEVELS) - 1
        for left, top, right, bottom, _ in re.findall(r"M(\S+) (\S+?)H([\d.-]+)V([\d.-]+)H([\d.-]+)z", path.get("d")):
            rectangles.append((float(left), float(top), float(right), float(bottom), level))
    count = 0
    columns = len(edges[0]) - 1
    for k, value in enumerate(heat["values"]):
        row, column = divmod(k, columns)
        x = pixel(0, (place(edges[0][column], logs[0]) + place(edges[0][column + 1], logs[0])) / 2)
        y = pixel(1, (place(edges[1][row], logs[1]) + place(edges[1][row + 1], logs[1])) / 2)
        levels = [r[4] for r in rectangles if r[0] <= x < r[2] and r[1] <= y < r[3]]
        if isinstance(value, str):
            demand(not levels, f"cell {k} is drawn without a value")
            continue
        share = (value - heat["low"]) / (heat["high"] - heat["low"]) * LEVELS
        wanted = {min(max(int(s), 0), LEVELS - 1) for s in (share - 1e-9, share + 1e-9)}
        right = len(levels) == 1 and levels[0] in wanted
        demand(right, f"cell {k} with {value}: strengths {levels}, expected {wanted}")
        count += 1
    return count


def check_labels(panel, fits, area, texts):
    x0, y0, wide, high = area
    count = 0
    for x, y, anchor, label in texts:
        axis = None
        if anchor == "middle" and abs(y - (y0 + high + 20)) < 0.6 and x0 - 1 <= x <= x0 + wide + 1:
            axis, pixel = 0, x
        elif anchor == "end" and abs(x - (x0 - 8)) < 0.6 and y0 - 1 <= y - 5.5 <= y0 + high + 1:
            axis, pixel = 1, y - 5.5
        if axis is None or "categories" in panel["xy"[axis]] or len(fits[axis].pairs) < 2:
            continue
        value = value_of(label)
        demand(value is not None, f"'{label}' at an axis is no number")
        off = fits[axis].at(value) - pixel
        demand(abs(off) < 0.3, f"the label {label} is {off:.2f} pixels off")
        count += 1
    return count


def check_picture(picture, root):
    """How many numbers were found in their places."""
    areas = root.findall(SVG + "svg")
    demand(len(areas) == len(picture["panels"]), f"{len(areas)} panels drawn, {len(picture['panels'])} in report.json")
    texts = [(float(t.get("x")), float(t.get("y")), t.get("text-anchor"), t.text) for t in root.findall(SVG + "text")]
    words = {t[3] for t in texts}
    count = 0
    for panel, nested in zip(picture["panels"], areas):
        where = f"{picture['id']}, {panel['title']}"
        area = tuple(float(nested.get(k)) for k in ("x", "y", "width", "height"))
        fits = (Fit(panel["x"]["log"], area[0], area[0] + area[2]), Fit(panel["y"]["log"], area[1], area[1] + area[3]))
        groups = nested.findall(SVG + "g")
        if "heat" in panel:
            count += check_heat(panel["heat"], panel, groups.pop(0), area)
        drawn = [s for s in panel["series"] if any(shown(s, panel))]
        demand(len(groups) == len(drawn), f"{where}: {len(groups)} series drawn, {len(drawn)} in report.json")
        for series, group in zip(drawn, groups):
            count += check_series(series, panel, group, fits)
            demand(not series["name"] or series["name"] in words, f"{where}: no legend for {series['name']}")
        for fit in fits:
            fit.check(where)
        labels = check_labels(panel, fits, area, texts)
        demand("heat" in panel or labels >= 4, f"{where}: {labels} numbers at the axes")
        for said in (picture["title"], panel["title"], panel["x"]["label"], panel["y"]["label"]):
            demand(not said or said in words, f"{where}: '{said}' is not in the picture")
    return count


def check_page(path):
    for element in ET.parse(path).iter():
        tag = element.tag.rpartition("}")[2]
        demand(tag in ALLOWED, f"<{tag}> in the page")
        for name, value in element.attrib.items():
            demand(not name.startswith("on"), f"{name} in <{tag}>")
            demand(name not in ("href", "src") or value.startswith("#"), f"{name}={value}")
        if tag == "style":
            demand("url(" not in element.text and "@import" not in element.text, "a style that loads something")


def perturbed(picture):
    """The same with one number moved by about a hundredth of its panel."""
    other = copy.deepcopy(picture)
    panel = other["panels"][0]
    if "heat" in panel:
        heat = panel["heat"]
        size = heat["high"] - heat["low"]
        low, high = heat["low"] + 0.2 * size, heat["low"] + 0.8 * size
        k = next(k for k, v in enumerate(heat["values"]) if not isinstance(v, str) and low < v < high)
        heat["values"][k] += size / 6
        return other
    log = panel["y"]["log"]

    def spread(series):
        values = [place(y, log) for y in series["y"] if finite(y, log)]
        return max(values) - min(values) if values else 0

    series = sorted(panel["series"], key=spread)[len(panel["series"]) // 2]
    k = next(k for k, y in enumerate(series["y"]) if finite(y, log) and k >= len(series["y"]) // 2)
    moved = place(series["y"][k], log) + spread(series) / 50
    series["y"][k] = 10 ** moved if log else moved
    return other


def check(tool, folder):
    claim = "not-gaussian"
    command = [tool, "verify", "--quick", "--claim", claim, "--report", folder]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    with open(os.path.join(folder, "report.json"), encoding="utf-8") as file:
        report = json.load(file)
    pictures = report["pictures"]
    expected = {"report.txt", "report.json", "report.html", "junit.xml"} | {p["id"] + ".svg" for p in pictures}
    demand(set(os.listdir(folder)) == expected, f"files: {sorted(os.listdir(folder))}")
    check_page(os.path.join(folder, "report.html"))
    with open(os.path.join(folder, "report.html"), encoding="utf-8") as file:
        page = file.read()
    suite = ET.parse(os.path.join(folder, "junit.xml")).getroot().find("testsuite")
    demand(suite.get("tests") == "1" and suite.find("testcase").get("name") == claim, "junit.xml")
    numbers_checked = 0
    for picture in pictures:
        path = os.path.join(folder, picture["id"] + ".svg")
        with open(path, encoding="utf-8") as file:
            demand(file.read() in page, f"{picture['id']} in the page differs from its file")
        root = ET.parse(path).getroot()
        demand(root.find(SVG + "title").text == picture["title"], f"title of {picture['id']}")
        demand(root.find(SVG + "desc").text == picture["description"], f"description of {picture['id']}")
        found = check_picture(picture, root)
        demand(found >= 10, f"{picture['id']}: only {found} numbers found")
        numbers_checked += found
        try:
            check_picture(perturbed(picture), root)
        except Mismatch:
            continue
        raise Mismatch(f"{picture['id']}: a number moved by a hundredth was not noticed")
    print(f"{len(pictures)} pictures, {numbers_checked} numbers in their places")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tool", required=True)
    with tempfile.TemporaryDirectory() as folder:
        try:
            check(parser.parse_args().tool, os.path.join(folder, "report"))
        except Mismatch as mismatch:
            sys.exit(f"check_report: {mismatch}")


if __name__ == "__main__":
    main()
