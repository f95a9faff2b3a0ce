"""Pages on stored results, written from the result files alone: what the paper has, what came out here, and why."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from fedcast.io import atomic_write
from fedcast_paper.claims import CLAIMS, NOT_RUN, WORDS, Claim, overall, verdicts_on
from fedcast_paper.make import draw_result
from fedcast_paper.measures import LEVEL
from fedcast_paper.reasons import REASONS
from fedcast_paper.result import Columns, Result, load_result, result_path
from fedcast_paper.summaries import summary
from fedcast_paper.table import REPRODUCTIONS

IMAGES = Path("images/results")
_DPI = 100

_RESULTS_HEAD = """\
# Results

Every figure and table of the paper, made anew, and a few beyond it. This page is written by
`fedcast reproduce --pages docs` from the files in `results/full`; no number is typed by hand. Intervals are 95 %, by
Student's t over seeds. [What becomes of the paper's claims](claims.md) is listed apart.

- **Skew.** The [average EMD](explanation/skew.md#distances) says how far users' mixes of classes are from that of all
  data, with [weights](explanation/skew.md#averages-after-sharing) B unless A or C is named; the **shift** says how far
  sharing moves the mix of all. Dir is the parameter of a Dirichlet law: the smaller, the more skew.
- **Strategies.** FedAvg shares nothing; SCC, CEC, central and DACA are the paper's
  [rules](explanation/method.md#what-is-decided) of who shares with whom, gain and blend fedcast's. A **clustering** is
  what a rule comes to: heads and their members. JFVO, SMM and SAA then [choose volumes](explanation/allocation.md).
- A **world** is all that one seed draws: places, links, devices and data.
- **Explained** is the share of the variance of log rounds that a linear fit to measures of skew accounts for.
"""
_CLAIMS_HEAD = """\
# Claims

What the paper says of its results, and what was seen here. A claim holds only if it does so wherever it was tested, and
does not hold if it was seen nowhere; "not settled" is a difference that the seeds there are do not tell from none.
Written by `fedcast reproduce --pages docs`; figures, settings and words are on the page of [results](results.md).
"""


def write_pages(results: Path, docs: Path, *, pictures: bool = True) -> list[Path]:
    """Write results.md, claims.md and the pictures they show.

    Args:
        results: folder of stored results.
        docs: folder of the pages.
        pictures: whether to draw.
    """
    stored = stored_results(results)
    if pictures:
        for name, result in stored.items():
            draw_result(name, result, docs / IMAGES, dpi=_DPI)
    pages = {"results.md": results_page(stored), "claims.md": claims_page(stored)}
    for name, text in pages.items():
        with atomic_write(docs / name) as aside:
            aside.write_text(text, encoding="utf-8")
    return [docs / name for name in pages]


def stored_results(results: Path) -> dict[str, Result]:
    """All results at full scale that are there."""
    there = [name for name in REPRODUCTIONS if result_path(name, "full", results).exists()]
    return {name: load_result(name, "full", results) for name in there}


def results_page(stored: Mapping[str, Result]) -> str:
    """The page on all figures and tables."""
    body = "\n".join(_section(name, stored.get(name)) for name in REPRODUCTIONS)
    return typeset("\n".join([_RESULTS_HEAD, *_on_tests(body), body]))


def claims_page(stored: Mapping[str, Result]) -> str:
    """The page on the paper's claims."""
    rows = [(claim, verdicts_on(claim, stored)) for claim in CLAIMS]
    table = {
        "claim": [claim.text for claim, _ in rows],
        "verdict": [overall(verdict for _, verdict in found) for _, found in rows],
    }
    body = "\n".join([markdown_table(table), *(_claim(claim, stored) for claim in CLAIMS)])
    return typeset("\n".join([_CLAIMS_HEAD, *_on_tests(body), body]))


def _on_tests(body: str) -> list[str]:
    """What a reader of so many tests should know; nothing where there are none."""
    count = body.count("p = ")
    if not count:
        return []
    return [
        f"A difference is called one at p < {LEVEL:g}, test by test. {count} values of p stand on this page; were "
        f"there nothing to find, about {LEVEL * count:.0f} of them would be that small by chance. Those above "
        f"{LEVEL / count:.1g}, the level divided by their number, "
        f"[should not be leaned on one by one](how-to/compare.md#read-the-tests).\n"
    ]


def typeset(text: str) -> str:
    """Minus signs and per cent as they are printed.

    Example:
        >>> typeset("-0.06 points (p = 2e-06) at 10% in mnist-0.95")
        '−0.06 points (p = 2e-06) at 10 % in mnist-0.95'
    """
    return re.sub(r"(?<=\d)%", " %", re.sub(r"(?<![\w-])-(?=\d)", "−", text))


def _section(name: str, result: Result | None) -> str:
    reproduction = REPRODUCTIONS[name]
    parts = [f"## {name}: {reproduction.shows}", f"**The paper.** {reproduction.paper}"]
    if result is None:
        return "\n\n".join([*parts, f"**Ours.** {NOT_RUN.capitalize()}.\n"])
    parts += ["**Ours.**", f"![{name}: {reproduction.shows}]({IMAGES}/{name}.png)"]
    table = summary(name, result)
    if table is not None:
        parts.append(markdown_table(table).rstrip())
    if result.verdicts:
        parts.append(markdown_table(_verdict_table(result)).rstrip())
    if name in REASONS:
        parts.append(f"**Why.** {REASONS[name]}")
    return "\n\n".join([*parts, *result.notes, _setting(result)])


def _verdict_table(result: Result) -> Columns:
    return {
        "claim": [verdict.claim for verdict in result.verdicts],
        "here": [WORDS[verdict.holds] for verdict in result.verdicts],
        "evidence": [verdict.evidence for verdict in result.verdicts],
    }


def _setting(result: Result) -> str:
    lines = [f"- {name}: {value}" for name, value in result.assumptions.items()]
    made = f"- made by: fedcast {result.made_by['fedcast']}, commit {result.made_by['commit']}"
    return "\n".join(["Setting:", "", *lines, made, ""])


def _claim(claim: Claim, stored: Mapping[str, Result]) -> str:
    found = verdicts_on(claim, stored)
    lines = [f"- {name}, {verdict.claim}: {WORDS[verdict.holds]}; {verdict.evidence}." for name, verdict in found]
    missing = [name for name, _ in claim.evidence if name not in stored]
    lines += [f"- {name}: {NOT_RUN}." for name in dict.fromkeys(missing)]
    verdict = overall(verdict for _, verdict in found)
    return "\n".join([f"## {claim.text}", "", f"**{verdict.capitalize()}.**", "", *lines, ""])


def markdown_table(columns: Columns) -> str:
    r"""Columns as a table.

    Example:
        >>> print(markdown_table({"a": [1, 2], "b": ["x|y", "z"]}))
        | a | b |
        |---|---|
        | 1 | x\|y |
        | 2 | z |
        <BLANKLINE>
    """
    rows = [list(columns), *([str(column[row]) for column in columns.values()] for row in range(_length(columns)))]
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(columns), *lines[1:], ""])


def _length(columns: Columns) -> int:
    return max((len(column) for column in columns.values()), default=0)
