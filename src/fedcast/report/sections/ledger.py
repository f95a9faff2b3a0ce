"""The privacy ledger in short: how much left its owner, who saw it, and which head revealed how much."""

from __future__ import annotations

from typing import Any

from fedcast.formatting import SPACE, number, percent, pluralize, quantity
from fedcast.report.markup import Markup, tag
from fedcast.report.sections.parts import scrolled, table
from fedcast.runs.store import StoredRun

_MAX_HEADS = 30
_TITLES = (
    "head", "members", "samples to each", "copies", "of its data", "members' EMD", "slowest link",
)  # fmt: skip


def ledger_part(run: StoredRun) -> Markup:
    """Numbers of the whole run, then one row per head."""
    facts = run.facts
    if not facts.received_samples:
        return tag("figure", tag("figcaption", "Privacy ledger"), tag("p", "No sample left its owner.", class_="note"))
    cards = {
        "samples that left their owner": f"{facts.distinct_samples:,}",
        "users that received some": f"{facts.members:,}",
        "copies received": f"{facts.received_samples:,}",
        "largest share of a user's data revealed": percent(facts.largest_revealed_share),
        "average sharing ratio": percent(facts.average_sharing_ratio),
    }
    entries = [tag("div", tag("dt", name), tag("dd", tag("strong", value))) for name, value in cards.items()]
    return tag(
        "figure",
        tag("figcaption", "Privacy ledger"),
        tag("dl", *entries, class_="cards"),
        *_heads(run),
        class_="ledger",
    )


def _heads(run: StoredRun) -> list[Markup]:
    heads = run.tables["heads"]
    count = len(heads["head"])
    if not count:
        return [tag("p", "The server sent the same samples to every user.", class_="note")]
    rows = [
        _row(run, {name: values[place] for name, values in heads.items()}) for place in range(min(count, _MAX_HEADS))
    ]
    note = "Heads in order of what they bring: by how much their members' gains lower the average EMD."
    if count > _MAX_HEADS:
        note = f"The first {_MAX_HEADS} of {pluralize(count, 'head')}. {note}"
    box = scrolled(table(_TITLES, rows), "Heads", tall=True)
    return [box, tag("p", note, class_="note")]


def _row(run: StoredRun, head: dict[str, Any]) -> list[object]:
    rate = head["worst_rate_bps"]
    return [
        f"user{SPACE}{head['head']}",
        f"{head['members']:,}",
        f"{int(head['shared']):,}",
        f"{int(head['shared']) * head['members']:,}",
        percent(run.tables["users"]["revealed_share"][head["head"]]),
        f"{number(head['mean_emd_before'], 3)} → {number(head['mean_emd_after'], 3)}",
        "–" if rate is None else quantity(rate, "bit/s"),
    ]
