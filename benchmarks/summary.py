"""Writes benchmarks/README.md from the JSON files of the last runs, which are its arguments."""

from __future__ import annotations

import json
import sys
from pathlib import Path

HEAD = """# Benchmarks

Each script prints a table, takes `--quick` (about a minute) and `--json FILE`; `make bench` runs all quickly. Ratios
are measured side by side in one run, times are medians on one pinned core unless the figure says otherwise. This page
is made by `benchmarks/summary.py` from the JSON files of the last runs; those of training are of one run with
pfl-research and Flower (`benchmarks/training.py --pfl PYTHON --flower PYTHON`). Figures of an H200 are in
`benchmarks/elsewhere.md`.

A round of W3 takes us 7 ms, of which two fifths are matrix products and most of the rest is calls of Python: such times
vary by a tenth from run to run. Six runs found 41 to 45 times the loop (aim 40), 44 to 48 times pfl-research (aim 45)
and 90 to 109 times Flower (aim 100, which it met while Flower had one core; with all cores it is a little short).

| figure | value | unit | how |
|---|---|---|---|
"""


def main(paths: list[Path]) -> None:
    rows, origins = [], []
    for path in paths:
        content = json.loads(path.read_text(encoding="utf-8"))
        origins.append(f"- {path.stem}: commit {content['commit']}, {content['machine']}")
        for name, figure in content["figures"].items():
            how = figure["how"].replace("|", "\\|")
            rows.append(f"| {name} | {figure['value']:.4g} | {figure['unit']} | {how} |")
    text = HEAD + "\n".join(rows) + "\n\n## Where and when\n\n" + "\n".join(origins) + "\n"
    (Path(__file__).parent / "README.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main([Path(argument) for argument in sys.argv[1:]])
