"""The comparison table: means with intervals, tests against FedAvg, speed-up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fedcast.formatting import SPACE, mean_and_interval, number, p_value
from fedcast.report.content import Content
from fedcast.report.markup import Markup, join, tag
from fedcast.report.old_svg import series_class
from fedcast.report.sections.parts import scrolled
from fedcast.runs.comparison import Row


@dataclass(frozen=True)
class _Column:
    """One column of the table.

    Attributes:
        measure: its name in a row.
        title: of the column.
        unit: SI unit, % for shares, nothing for plain numbers.
        better: which way is better; None: neither.
        to_target: whether it counts up to the target.
    """

    measure: str
    title: str
    unit: str
    better: Literal["low", "high"] | None
    to_target: bool = False


_COLUMNS = (
    _Column("rounds", "rounds", "", "low", to_target=True),
    _Column("total_s", "time", "s", "low", to_target=True),
    _Column("accuracy", "final accuracy", "%", "high"),
    _Column("worst_accuracy", "worst tenth", "%", "high"),
    _Column("energy_j", "energy", "J", "low", to_target=True),
    _Column("sent_bytes", "sent", "B", "low", to_target=True),
    _Column("emd_after", "EMD after", "", "low"),
    _Column("average_sharing_ratio", "sharing ratio", "%", None),
)


def comparison_section(content: Content) -> Markup:
    """The table and how to read it."""
    several = len(content.seeds) > 1
    notes = [
        f"Rounds, time, energy and bytes are those up to the target; ≥{SPACE}where some seeds end without meeting it.",
        "± is the 95 % interval of the mean over seeds; p is that of a paired t test against FedAvg."
        if several
        else "",
        "Worst tenth: final accuracy of the worst tenth of users, on their own mix of classes.",
        "Sharing ratio: the share of its head's data that a user receives, averaged over users.",
    ]
    return tag(
        "section",
        tag("h2", "Comparison"),
        scrolled(_table(content), "Comparison of strategies"),
        tag("p", " ".join(note for note in notes if note), class_="note"),
        id="comparison",
    )


def _table(content: Content) -> Markup:
    titles = ["strategy", "reached", _COLUMNS[0].title, _COLUMNS[1].title, "speed-up"]
    titles += [column.title for column in _COLUMNS[2:]]
    head = tag("tr", *(tag("th", title, scope="col") for title in titles))
    body = [_row(content, row) for row in content.rows]
    return tag("table", tag("thead", head), tag("tbody", *body), class_="numbers")


def _row(content: Content, row: Row) -> Markup:
    swatch = tag("span", class_=f"swatch {series_class(content.series[row.strategy])}")
    name = tag("th", swatch, row.strategy.name, scope="row")
    one = "yes" if row.reached else "no"
    reached = tag("td", f"{row.reached} of {len(row.seeds)}" if len(content.seeds) > 1 else one)
    cells = [_cell(content, row, column) for column in _COLUMNS]
    return tag("tr", name, reached, *cells[:2], _speed_up(content, row), *cells[2:])


def _cell(content: Content, row: Row, column: _Column) -> Markup:
    bound = f"≥{SPACE}" if column.to_target and row.reached < len(row.seeds) else ""
    mean, half = _mean(row, column)
    parts: list[object] = [bound + mean, *_small(half)]
    test = row.tests.get(column.measure)
    if test is not None and test.p_value is not None:
        parts += _small(p_value(test.p_value))
    return tag("td", join(parts), class_="best" if _is_best(content, row, column) else None)


def _speed_up(content: Content, row: Row) -> Markup:
    if row.speed_up is None or row is content.baseline:
        return tag("td", "–")
    half = row.speed_up.half_width
    aside = None if half is None else f"±{SPACE}{number(half, 2)}"
    return tag("td", f"{number(row.speed_up.mean, 2)}{SPACE}×", *_small(aside))


def _small(text: str | None) -> list[Markup]:
    return [] if text is None else [tag("small", text)]


def _is_best(content: Content, row: Row, column: _Column) -> bool:
    """Whether no strategy is better, as far as is shown; none where all are equal, or where the target was missed."""
    rows = [one for one in content.rows if not column.to_target or one.reached == len(one.seeds)]
    if column.better is None or row not in rows:
        return False
    choose = min if column.better == "low" else max
    best = choose(rows, key=lambda one: one.measures[column.measure].mean)
    texts = [_mean(one, column)[0] for one in (row, best, *rows)]
    return texts[0] == texts[1] and len(set(texts)) > 1


def _mean(row: Row, column: _Column) -> tuple[str, str | None]:
    found = row.measures[column.measure]
    return mean_and_interval(found.mean, found.half_width, column.unit)
