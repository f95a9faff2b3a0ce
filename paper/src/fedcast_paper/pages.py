"""The pages docs/results.md and docs/claims.md, written from stored results."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedcast.io import atomic_write
from fedcast_paper.findings import findings
from fedcast_paper.reproduction_result import Columns, Result, Verdict, columns_of, load_result, result_path
from fedcast_paper.reproductions import REPRODUCTIONS, draw_result
from fedcast_paper.text_tables import markdown_table
from fedcast_paper.verdicts import FEW_SEEDS, LEVEL, MARGIN


@dataclass(frozen=True)
class Claim:
    """A claim of the paper about its results.

    Attributes:
        text: the claim in a sentence.
        evidence: ids of figures, each with a regular expression that selects verdicts by their claim.
    """

    text: str
    evidence: tuple[tuple[str, str], ...]


CLAIMS = (
    Claim(
        "A lower average EMD converges faster and ends at a higher accuracy.",
        (("fig1a", "lower average EMD"), ("fig6", "accuracy falls")),
    ),
    Claim(
        "Raising the sharing ratio from 0 to 0.05 gains more than from 0.05 to 0.1.",
        (("fig1b", "0 to 0.05 gains more"),),
    ),
    Claim("10 clusters beat 25.", (("fig1c", "clusters beat"),)),
    Claim("After sharing, labels closely approximate an IID distribution.", (("fig5", "approximate an IID"),)),
    Claim(
        "Gains on CIFAR-10 exceed those on MNIST.",
        tuple((name, "CIFAR-10 exceed") for name in ("fig4", "table2")),
    ),
    Claim(
        "DACA beats FedAvg.",
        (
            ("fig4", "DACA ends above FedAvg"),
            ("table2", "DACA ends above FedAvg"),
            ("beyond-rounds", "DACA needs fewer rounds than FedAvg"),
        ),
    ),
    Claim(
        "DACA beats SCC and CEC.",
        (
            ("fig4", "DACA ends above (SCC|CEC)"),
            ("table2", "DACA ends above (SCC|CEC)"),
            ("beyond-rounds", "DACA needs fewer rounds than (SCC|CEC)"),
        ),
    ),
    Claim(
        "DACA is at least as good as central sharing on CIFAR-10.",
        tuple((name, "at least as good as central on CIFAR-10") for name in ("fig4", "table2")),
    ),
    Claim(
        "DACA is at least as good as central sharing on noise-skewed data.",
        (("fig4", "at least as good as central on MNIST, noisy users"),),
    ),
    Claim("On Shakespeare DACA improves the accuracy by 6 %.", (("fig4", "points on Shakespeare"),)),
    Claim("A cluster's sharing ratio falls as its SINR falls.", (("fig9a", "sharing ratio falls"),)),
    Claim("JFVO converges within 6 iterations.", (("fig7a", "within 6 iterations"), ("fig7b", "within 6 iterations"))),
    Claim("JFVO converges faster than SMM and SAA.", (("fig7a", "converges faster"),)),
    Claim("JFVO shares more than SMM and SAA.", (("fig9a", "shares more"),)),
    Claim("JFVO ends lower than SMM and SAA.", (("fig7a", "ends lower"), ("fig9b", "ends lower"))),
    Claim("The sharing delay grows with the number of users.", (("fig9b", "sharing delay grows"),)),
    Claim("Interference is why the sharing delay grows.", (("fig9b", "interference alone"),)),
    Claim("JFVO's running time is flat in the number of users.", (("fig8", "nearly constant"),)),
    Claim(
        "The running times of SMM and SAA grow with the number of users, unlike JFVO's.",
        (("fig8", "times of SMM and SAA grow"),),
    ),
    Claim("More is shared at a higher SNR.", (("fig7b", "higher SNR"),)),
    Claim(
        "The average EMD predicts the rounds.",
        (("fig6", "predicts the rounds"), ("beyond-measures", "best predictor of the rounds")),
    ),
)
ANSWERS = {"yes": "holds", "partly": "partly holds", "no": "does not hold", "open": "inconclusive"}
# More tests of a claim than these are folded.
_SHOWN_TESTS = 4
NOT_RUN = "not run yet"
IMAGES = Path("images/results")
_SHOWN_NOTES = 3
_DPI = 100

_RESULTS_HEAD = """\
# Results

All figures and tables of the paper, reproduced with fedcast, and some additional results (ids that begin with
`beyond`). `fedcast reproduce --pages docs` writes this page from the files in `results/full`; no number is typed by
hand. Intervals are 95 % confidence intervals (Student's t over seeds), not corrected for their number. See also [the
claims of the paper](claims.md).
"""
_FINDINGS_HEAD = """\
## Findings

Before training, heads send some of their samples to the members of their cluster: a tenth of them, all, or what JFVO
chooses, the paper's allocation method as [corrected by fedcast](explanation/allocation.md#frequencies-are-eliminated).
The paper does not say how many it sent. See the [terms](#terms).
"""
_RESULTS_TERMS = """\
## Terms

- **Skew.** The [average EMD](explanation/skew.md#distances) measures how far the label distributions of users are from
  the global label distribution, with [weights](explanation/skew.md#averages-after-sharing) B unless A or C is named.
  The **shift** measures how far sharing moves the global label distribution. Dir is the parameter of a Dirichlet
  distribution: the smaller, the more skew. One-class users hold samples of one class only.
- **Strategies.** Under FedAvg nothing is shared. DACA (the paper's rule), SCC, CEC, gain and blend are [clustering
  rules](explanation/method.md#what-is-decided), which choose heads, and the members that each head sends to. DACA makes
  users heads whose labels are closest to the global label distribution; SCC goes by trust, CEC by data rate; gain and
  blend (fedcast's) by how much skew they remove. Under central the server sends the same samples to all users. A
  **plan** of fedcast chooses rule, volumes and local epochs for the shortest predicted time to a target accuracy.
- **Volumes**: 10 %, all: the part of its samples that every head sends; JFVO: what it chooses without a limit, with the
  paper's [rounds as a function of skew](explanation/allocation.md) fitted to MNIST, also on CIFAR-10. JFVO, SMM and SAA
  [allocate volumes](explanation/allocation.md) to a **clustering**, the result of a rule.
- **Leakage.** The **average sharing ratio** is the part of its head's samples that a user receives on average: less
  than 1 even if heads send all, since heads and users without a head receive nothing. Under central it is the part of
  all samples. Small averages can hide a head that reveals everything.
- **Simulated time** is that of sharing once and of all rounds: download, computation and upload of the slowest user.
- **Work control**: FedAvg in which every user trains on as many samples a round as under DACA, by repeating its own,
  and has DACA's weight in the average. In the **epochs control** all users repeat their samples equally often, with the
  weights of FedAvg ([what controls tell](explanation/allocation.md#what-part-of-a-gain-is-work)).
- **K** is the number of users, **E** the number of local epochs. **KL** and **JS** are other
  [distances](explanation/skew.md#distances) than the EMD. In tables, ≥ marks a lower bound.
- A **world** is everything that is drawn from one seed: positions, links, devices and data.
- **NMSE** is the squared error of a fit divided by that of the mean. **SINR** is the signal divided by interference and
  noise.
- **Explained** is the fraction of the variance of log rounds that a linear regression on skew measures explains (R²).
"""
_CLAIMS_HEAD = """\
# Claims

The claims of the paper about its results, and whether they were reproduced. A claim holds if it holds in every test,
does not hold if it fails in some and holds in none, is inconclusive if all tests are, and partly holds otherwise. A
test is inconclusive if the difference is not significant with these seeds, or if there are too few seeds for a test.
Tests ask only whether a difference is above 0. Whether it is as large as in the paper is seen by comparing the interval
with the paper's value beside it. "At least as good" means less than {margin:g} points of accuracy below; FedAvg's
difference from the same strategy stands beside it. JFVO is the paper's method as [corrected by
fedcast](explanation/allocation.md#frequencies-are-eliminated) unless "as printed" is said.
`fedcast reproduce --pages docs` writes this page; figures, settings and terms are explained under
[results](results.md).
"""


def verdicts_on(claim: Claim, results: Mapping[str, Result]) -> list[tuple[str, Verdict]]:
    """Return the verdicts of the available results on a claim, each with the id of its result."""
    return [
        (name, verdict)
        for name, pattern in claim.evidence
        if name in results
        for verdict in results[name].verdicts
        if re.search(pattern, verdict.claim)
    ]


def overall(verdicts: Iterable[Verdict]) -> str:
    """Summarise verdicts: a claim holds if it holds everywhere, and does not hold if it holds nowhere.

    Example:
        >>> overall([Verdict("a", "yes", ""), Verdict("a", "no", "")])
        'partly holds'
        >>> overall([Verdict("a", "open", ""), Verdict("a", "no", "")])
        'does not hold'
        >>> overall([])
        'not run yet'
    """
    found = {verdict.holds for verdict in verdicts}
    if not found:
        return NOT_RUN
    if found == {"open", "no"}:
        return ANSWERS["no"]
    return ANSWERS[found.pop()] if len(found) == 1 else ANSWERS["partly"]


def write_pages(results: Path, docs: Path, *, pictures: bool = True) -> list[Path]:
    """Write results.md, claims.md and their figures.

    Args:
        results: folder of stored results.
        docs: folder of the pages.
        pictures: whether to draw the figures.
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
    """Return all stored results at full scale."""
    known = [name for name in REPRODUCTIONS if result_path(name, "full", results).exists()]
    return {name: load_result(name, "full", results) for name in known}


def results_page(stored: Mapping[str, Result]) -> str:
    """Return the page on all figures and tables."""
    body = "\n".join(_section(name, stored.get(name)) for name in REPRODUCTIONS)
    return typeset("\n".join([_RESULTS_HEAD, *_found(stored), _RESULTS_TERMS, *_on_tests(body), body]))


def claims_page(stored: Mapping[str, Result]) -> str:
    """Return the page on the paper's claims."""
    rows = [(claim, verdicts_on(claim, stored)) for claim in CLAIMS]
    table = {
        "claim": [claim.text for claim, _ in rows],
        "verdict": [overall(verdict for _, verdict in found) for _, found in rows],
        "tests": [_counts([verdict for _, verdict in found]) for _, found in rows],
    }
    body = "\n".join([markdown_table(table), *(_claim(claim, stored) for claim in CLAIMS)])
    return typeset("\n".join([_CLAIMS_HEAD.format(margin=MARGIN), *_on_tests(body), body]))


def summaries(name: str, result: Result) -> dict[str, Columns]:
    """Return the tables of a result for the page by caption, without those that have no rows."""
    summary = REPRODUCTIONS[name].summary
    found = [] if summary is None else summary(result)
    tables = found if isinstance(found, dict) else {"": found}
    return {caption: columns_of(rows) for caption, rows in tables.items() if rows}


def _found(stored: Mapping[str, Result]) -> list[str]:
    """Return the findings, and how many of the paper's claims were reproduced."""
    if not stored:
        return []
    verdicts = [overall(verdict for _, verdict in verdicts_on(claim, stored)) for claim in CLAIMS]
    claims = f"**Of the paper's {len(CLAIMS)} claims** {_claim_counts(verdicts)} ([claims](claims.md))."
    return [_FINDINGS_HEAD, *(_bullet(_linked(text)) for text in (claims, *findings(stored))), ""]


def _claim_counts(verdicts: Sequence[str]) -> str:
    """Say how many claims have each verdict.

    Example:
        >>> _claim_counts(["holds", "holds", "inconclusive"])
        '2 hold, 1 is inconclusive'
    """
    plural = {
        "holds": "hold", "partly holds": "partly hold", "does not hold": "do not hold",
        "inconclusive": "are inconclusive", NOT_RUN: "were not run yet",
    }  # fmt: skip
    singular = {"inconclusive": "is inconclusive", NOT_RUN: "was not run yet"}
    counts = {verdict: verdicts.count(verdict) for verdict in plural}
    return ", ".join(
        f"{count} {singular.get(verdict, verdict) if count == 1 else plural[verdict]}"
        for verdict, count in counts.items()
        if count
    )


def _bullet(text: str) -> str:
    """Return text as an item of a list, with any paragraphs and tables that it has."""
    return f"- {textwrap.indent(text, '  ')[2:]}"


def _linked(text: str) -> str:
    """Link the ids of results to their sections."""
    names = "|".join(sorted(REPRODUCTIONS, key=len, reverse=True))
    return re.sub(rf"\b({names})\b", lambda found: f"[{found[0]}](#{_anchor(found[0])})", text)


def _anchor(name: str) -> str:
    """Return the anchor of a result's section."""
    return re.sub(r"[^\w -]", "", _heading(name).lower()).replace(" ", "-")


def _heading(name: str) -> str:
    return f"{name}: {REPRODUCTIONS[name].shows}"


def _on_tests(body: str) -> list[str]:
    """Explain multiple testing if there are tests on the page."""
    if "p = " not in body:
        return []
    return [
        f"A difference is called significant if p < {LEVEL:g}. The tests of one figure or table, also those of claims "
        "on fedcast's own strategies, are corrected together by Holm's method; verdicts use the corrected p-value, "
        "given after the raw one. Strategies are compared by intervals alone, without a test, if there are "
        f"{FEW_SEEDS} seeds or fewer ([how to read the tests](how-to/compare.md#read-the-tests)).\n"
    ]


def typeset(text: str) -> str:
    """Replace hyphens before numbers by minus signs and put a space before the percent sign.

    Example:
        >>> typeset("-0.06 points (p = 2e-06) at 10% in mnist-0.95")
        '−0.06 points (p = 2e-06) at 10 % in mnist-0.95'
    """
    return re.sub(r"(?<=\d)%", " %", re.sub(r"(?<![\w-])-(?=\d)", "−", text))


def _section(name: str, result: Result | None) -> str:
    reproduction = REPRODUCTIONS[name]
    parts = [f"## {_heading(name)}", f"**Paper.** {reproduction.paper}"]
    if result is None:
        return "\n\n".join([*parts, f"**Reproduction.** {NOT_RUN.capitalize()}.\n"])
    parts.append(f"![{name}: {reproduction.shows}]({IMAGES}/{name}.png)")
    for caption, table in summaries(name, result).items():
        parts += [caption] if caption else []
        parts.append(markdown_table(table).rstrip())
    details = {} if reproduction.details is None else reproduction.details(result)
    parts += [_folded(title, markdown_table(columns_of(rows)).rstrip()) for title, rows in details.items()]
    aside = "\n\n" if reproduction.why.startswith("- ") else " "
    parts += [f"**Discussion.**{aside}{reproduction.why}", *_notes(result.notes)]
    parts += _verdict_parts(name, result)
    return "\n\n".join([*parts, _folded("Setting", _setting(result)), ""])


def _notes(notes: Sequence[str]) -> list[str]:
    """Return few notes as paragraphs, and many folded."""
    return list(notes) if len(notes) <= _SHOWN_NOTES else [_folded(f"{len(notes)} notes", "\n\n".join(notes))]


def _folded(title: str, text: str) -> str:
    """Return text that a reader unfolds; blank lines around it keep it Markdown."""
    return f"<details><summary>{title}</summary>\n\n{text}\n\n</details>"


def _counts(verdicts: Sequence[Verdict]) -> str:
    """Count answers, and the inconclusive ones without a test, mostly since there are too few seeds."""
    text = _count_texts([ANSWERS[verdict.holds] for verdict in verdicts])
    untested = sum(verdict.holds == "open" and verdict.p_value is None for verdict in verdicts)
    return f"{text} ({untested} without a test)" if untested else text


def _count_texts(answers: Sequence[str]) -> str:
    return "; ".join(f"{text}: {answers.count(text)}" for text in (*ANSWERS.values(), NOT_RUN) if text in answers)


def _verdict_parts(name: str, result: Result) -> list[str]:
    """Count the verdicts on the paper's claims, which have a page of their own, and show the others."""
    claimed = [verdict for claim in CLAIMS for _, verdict in verdicts_on(claim, {name: result})]
    others = [verdict for verdict in result.verdicts if verdict not in claimed]
    parts = [f"**The paper's claims** here: {_counts(claimed)} ([evidence](claims.md))."] if claimed else []
    if others:
        table = {
            "claim": [verdict.claim for verdict in others],
            "verdict": [ANSWERS[verdict.holds] for verdict in others],
            "evidence": [verdict.evidence for verdict in others],
        }
        parts.append(_folded(f"Other claims: {_counts(others)}", markdown_table(table).rstrip()))
    return parts


def _setting(result: Result) -> str:
    lines = [f"- {name}: {value}" for name, value in result.assumptions.items()]
    made = f"- computed with: fedcast {result.made_by['fedcast']}, commit {result.made_by['commit']}"
    return "\n".join([*lines, made])


def _claim(claim: Claim, stored: Mapping[str, Result]) -> str:
    found = verdicts_on(claim, stored)
    missing = dict.fromkeys(name for name, _ in claim.evidence if name not in stored)
    verdict = overall(verdict for _, verdict in found)
    parts = [f"## {claim.text}", f"**{verdict.capitalize()}.**"]
    if found:
        table = {
            "result": [name for name, _ in found],
            "claim": [verdict.claim for _, verdict in found],
            "verdict": [ANSWERS[verdict.holds] for _, verdict in found],
            "evidence": [verdict.evidence for _, verdict in found],
        }
        text = markdown_table(table).rstrip()
        folds = len(found) > _SHOWN_TESTS
        parts.append(_folded(f"{len(found)} tests: {_counts([one for _, one in found])}", text) if folds else text)
    parts += [f"{name}: {NOT_RUN}." for name in missing]
    return "\n\n".join([*parts, ""])
