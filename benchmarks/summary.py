"""Write the JSON files given as arguments to benchmarks/README.md; figures of other subjects stay as they are."""

from __future__ import annotations

import json
import sys
from pathlib import Path

HEAD = """# Benchmarks

Each script prints a table and accepts `--quick` (about a minute) and `--json FILE`; `make bench` runs all of them with
`--quick`. Ratios are measured side by side in one run; times are medians on one pinned core unless noted. This page is
written by `benchmarks/summary.py` from the JSON files of the last runs. The training figures are from one run with
pfl-research and Flower (`benchmarks/training.py --pfl PYTHON --flower PYTHON`). Figures of an H200 are in
`benchmarks/elsewhere.md`.

A round of W3 takes fedcast 7 ms, of which two fifths are matrix products and most of the rest is overhead of Python
calls; such times vary by 10 % from run to run. Over six runs fedcast was 41 to 45 times as fast as the loop (target
40), 44 to 48 times as fast as pfl-research (target 45) and 90 to 109 times as fast as Flower (target 100: met when
Flower used one core; with all cores the ratio is slightly below it).

A federation (`benchmarks/federation.py --json federation.json`, all cores, loopback, TLS on) meets its targets: 8 MB
from a head to two members within 1 s, at most 1 s beyond training in a round, and 30 devices on one machine finish.
What limits more devices is memory, then the CPU time that FLARE and PyTorch take to start. The machine had other work
during the part with 30 devices.

| figure | value | unit | how |
|---|---|---|---|
"""


PAGE = Path(__file__).with_name("README.md")


def rows_of(path: Path) -> tuple[str, str]:
    """Return the rows of the table and the line of origin that a JSON file gives."""
    content = json.loads(path.read_text(encoding="utf-8"))
    rows = [
        f"| {name} | {figure['value']:.4g} | {figure['unit']} | {figure['how'].replace('|', chr(92) + '|')} |"
        for name, figure in content["figures"].items()
    ]
    return "\n".join(rows), f"- {path.stem}: commit {content['commit']}, {content['machine']}"


def stored() -> dict[str, tuple[str, str]]:
    """Return rows and origin of each subject on the page."""
    lines = PAGE.read_text(encoding="utf-8").splitlines() if PAGE.exists() else []
    origins = {line[2:].partition(":")[0]: line for line in lines if line.startswith("- ") and ": commit " in line}
    return {
        subject: ("\n".join(line for line in lines if line.startswith(f"| {subject}.")), origin)
        for subject, origin in origins.items()
    }


def main(paths: list[Path]) -> None:
    subjects = stored() | {path.stem: rows_of(path) for path in paths}
    rows, origins = zip(*subjects.values(), strict=True)
    PAGE.write_text(HEAD + "\n".join([*rows, "", "## Where and when", "", *origins]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main([Path(argument) for argument in sys.argv[1:]])
