"""The section that compares strategies: the table, targets, attendance, gains over controls, and runs that failed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple

from fedcast.formatting import SPACE, mean_and_interval, number, p_value, percent, quantity, setting_text
from fedcast.report.content import Content, failures
from fedcast.report.html import Markup, cell_table, figure, note, scrolled, section, swatch, table, tag
from fedcast.runs import COUNTS, Gain, Row, Strategy, epochs_notes, shown_counts


def by_facet(contents: Sequence[Content], parts_of: Callable[[Content], Iterable[Markup]]) -> Iterator[Markup]:
    """Yield the parts of a section for each facet, under its name if there are several."""
    for content in contents:
        if len(contents) > 1:
            yield tag("h3", content.name)
        yield from parts_of(content)


class _Column(NamedTuple):
    """One column of the table; `unit` is % for shares, `better` is min or max."""

    measure: str
    title: str
    unit: str
    better: Callable[..., tuple[float, str]] | None


_COLUMNS = (
    _Column("rounds", "rounds", "", min),
    _Column("total_s", "time", "s", min),
    _Column("accuracy", "final accuracy", "%", max),
    _Column("user_accuracy", "own labels", "%", max),
    _Column("worst_accuracy", "worst tenth", "%", max),
    _Column("fine_tuned_own_accuracy", "fine-tuned", "%", max),
    _Column("fine_tuned_worst_accuracy", "fine-tuned worst", "%", max),
    _Column("local_epochs", "local epochs", "", None),
    _Column("energy_j", "energy", "J", min),
    _Column("sent_bytes", "sent", "B", min),
    _Column("emd_after", "EMD after", "", min),
    _Column("average_sharing_ratio", "sharing ratio", "%", None),
)


def comparison_section(contents: Sequence[Content]) -> Markup:
    """Return the comparison table of each facet, and how to read it."""
    rows = [row for content in contents for row in content.rows]
    notes = [
        f"Rounds, time, energy and bytes are those up to the target; >{SPACE}where some seeds end without reaching it, "
        "so that the mean is a lower bound.",
        "± is the 95 % confidence interval of the mean over seeds; p is the p-value of a paired t-test against FedAvg.",
        "Own labels: final accuracy of users on their own label distribution, mean over users; worst tenth: over the "
        "worst tenth of them. Fine-tuned: the same after each user fine-tuned the model.",
        "Sharing ratio: the share of its head's data that a user receives, averaged over users.",
    ]
    if any(test.is_degenerate for row in rows for test in row.tests.values()):
        notes[1] += f" p{SPACE}–: no test, since the differences to FedAvg are equal up to rounding in all seeds."
    if all(len(content.seeds) == 1 for content in contents):
        del notes[1]
    if contents[0].on_devices:
        notes.append("Time, energy and bytes are planned ones.")
    if contents[0].tuned:
        notes.append(
            f"Below a strategy: its best {', '.join(contents[0].tuned)}, chosen on seeds that are not reported."
        )
    tables = by_facet(contents, lambda content: [scrolled(_table(content), "Comparison of strategies")])
    who = by_facet([content for content in contents if content.attendance], _attendance)
    targets = by_facet([content for content in contents if content.to_targets], _targets)
    below = note(" ".join(notes))
    gains = by_facet([content for content in contents if content.gains], _gains)
    overview = [_overview(contents)] if len(contents) > 1 else []
    return section("comparison", "Comparison", *overview, *tables, below, *targets, *who, *_failures(contents), *gains)


def _overview(contents: Sequence[Content]) -> Markup:
    """Return a table of facets and strategies: time to the target and speed-up; without it the final accuracy."""
    strategies = contents[0].all_strategies

    def text(row: Row | None, content: Content) -> Markup:
        if row is None:
            return tag("td", "–")
        look = "best" if row in content.best_rows and len(content.rows) > 1 else None
        if row.reached < len(row.seeds):
            missed = f"{row.reached} of {len(row.seeds)} reach it" if row.reached else "not reached"
            return tag("td", percent(row.measures["accuracy"].mean), tag("small", missed), class_=look)
        gain = None if row is content.baseline or row.speed_up is None else f"{row.speed_up.mean:.2f}{SPACE}×"
        return tag("td", quantity(row.measures["total_s"].mean, "s"), *small(gain), class_=look)

    body = []
    for content in contents:
        rows = {row.strategy: row for row in content.rows}
        values = [tag("th", setting_text(value), scope="row") for value in content.facet.values()]
        body.append([*values, *(text(rows.get(one), content) for one in strategies)])
    title, titles = "Best strategy of each setting", (*contents[0].facet, *(one.name for one in strategies))
    below = "Time to the target and speed-up over FedAvg; final accuracy where some seeds do not reach it."
    return figure(title, scrolled(cell_table(titles, body), title), below=below)


def _failures(contents: Sequence[Content]) -> Iterator[Markup]:
    """Yield the table of runs that failed, if there are any."""
    if found := failures(contents):
        title, below = "Runs that failed", "They are part of no other number on this page."
        several = [*contents[0].facet, *contents[0].tuned] != []
        rows = [
            (name, *([facet] if several else []), ", ".join(map(str, seeds)), reason)
            for facet, name, seeds, reason in found
        ]
        titles = ("strategy", *(["setting"] if several else []), "seeds", "reason")
        yield figure(title, scrolled(table(titles, rows, "words"), title), below=below)


_PARTS = {"work": "more work", "skew": "less skew", "total": "whole gain"}
_GAIN_MEASURES = {"rounds": ("rounds", ""), "total_s": ("time", "s"), "accuracy": ("final accuracy", "%")}


def _attendance(content: Content) -> Iterator[Markup]:
    """Yield the table of who took part."""
    names = shown_counts(content.attendance)
    rows = []
    for row in content.attendance:
        found = [row.counts.get(name) for name in names]
        texts = [("–", None) if each is None else mean_and_interval(each.mean, each.half_width) for each in found]
        rows.append([strategy_cell(content, row.strategy), *(tag("td", text, *small(half)) for text, half in texts)])
    title, titles = "Who took part", ("strategy", *(COUNTS[name] for name in names))
    below = "Updates of all rounds of a run, means over seeds."
    if "staleness" in names:
        below += " Staleness: steps of the server between the start of an update and its use."
    if "missed" in names or "surplus" in names:
        below += " Energy and bytes of users that missed the deadline or were not needed are spent."
    yield figure(title, scrolled(cell_table(titles, rows), title), below=below)


def _gains(content: Content) -> Iterator[Markup]:
    """Yield the table of the parts of gains, and how to read it."""
    titles = ("strategy and control", "measure", "without sharing", *_PARTS.values(), "with sharing", "seeds")
    below = (
        "A control shares nothing, and its users repeat samples of their own, so that a round has as many samples as "
        "that of its strategy: as many for each user, with the same weights (work); or the same multiple for all, with "
        "the weights of no sharing (epochs). More work: the control minus no sharing. Less skew: the strategy minus "
        "the control. Differences are paired by seed; rounds and time over the seeds in which all reach the target."
    )
    below = " ".join([below, *epochs_notes(content.gains)])
    title = "Where the gain comes from"
    yield figure(title, scrolled(table(titles, map(_gain_row, content.gains)), title), below=below)


def _gain_row(gain: Gain) -> tuple[object, ...]:
    title, unit = _GAIN_MEASURES[gain.measure]
    parts = [SPACE.join(filter(None, gain.text(part, unit))) for part in ("without", *_PARTS, "shared")]
    return gain.control.name, title, *parts, len(gain.seeds)


def _table(content: Content) -> Markup:
    names, reached, speed_ups = [], [], []
    for row in content.rows:
        settings = [tag("small", f"{key} = {setting_text(value)}") for key, value in row.settings.items()]
        names.append(strategy_cell(content, row.strategy, *settings))
        one = "yes" if row.reached else "no"
        failed = small(f"{row.failed} failed" if row.failed else None)
        reached.append(tag("td", f"{row.reached} of {len(row.seeds)}" if len(content.seeds) > 1 else one, *failed))
        gain = None if row is content.baseline else row.speed_up
        half = None if gain is None or gain.half_width is None else f"±{SPACE}{number(gain.half_width, 2)}"
        counted = None if gain is None else row.speed_up_seeds
        value = "–" if gain is None else f"{number(gain.mean, 2)}{SPACE}×"
        speed_ups.append(tag("td", value, *small(half), *small(counted)))
    columns = [one for one in _COLUMNS if all(one.measure in row.measures for row in content.rows)]
    cells = [_cells(content, column) for column in columns]
    titles = ["strategy", "reached", *(column.title for column in columns)]
    titles.insert(4, "speed-up")
    return cell_table(titles, zip(names, reached, *cells[:2], speed_ups, *cells[2:], strict=True))


def strategy_cell(content: Content, strategy: Strategy, *below: Markup) -> Markup:
    """Return the title of a row: the name of a strategy, with its colour."""
    return tag("th", swatch(content.series[strategy]), strategy.name, *below, scope="row")


def _cells(content: Content, column: _Column) -> list[Markup]:
    """Return a column; those are marked than which none is better as shown, unless all are equal."""
    found = [row.measures[column.measure] for row in content.rows]
    texts = [mean_and_interval(each.mean, each.half_width, column.unit) for each in found]
    # A strategy that missed the target in some seeds has only a lower bound, which is never the best.
    bounded = [row.is_bound(column.measure) for row in content.rows]
    known = [(each.mean, text) for each, (text, _), is_bound in zip(found, texts, bounded, strict=True) if not is_bound]
    all_equal = len({text for _, text in known}) < 2
    best = None if column.better is None or all_equal else column.better(known, key=itemgetter(0))[1]
    cells = []
    for row, (mean, half), is_bound in zip(content.rows, texts, bounded, strict=True):
        test = row.tests.get(column.measure)
        p = None if test is None or test.p_value is None else p_value(test.p_value)
        p = f"p{SPACE}–" if test is not None and test.is_degenerate else p
        look = "best" if mean == best and not is_bound else None
        shown = [f">{SPACE}{mean}"] if is_bound else [mean, *small(half)]
        cells.append(tag("td", *shown, *small(p), class_=look))
    return cells


def _targets(content: Content) -> Iterator[Markup]:
    """Yield the table of rounds and time to several targets."""
    titles = [
        "strategy",
        *(f"{word} to {percent(target)}" for target in content.to_targets for word in ("rounds", "time")),
    ]
    body = []
    for place, row in enumerate(content.rows):
        rows = [rows[place] for rows in content.to_targets.values()]
        cells = [to_target(one, name, unit) for one in rows for name, unit in (("rounds", ""), ("total_s", "s"))]
        body.append([tag("th", row.strategy.name, scope="row"), *cells])
    title = "To several targets"
    below = f"Means over seeds; >{SPACE}where some seeds end without reaching the target. ×: speed-up over FedAvg."
    yield figure(title, scrolled(cell_table(titles, body), title), below=below)


def to_target(row: Row, name: str, unit: str) -> Markup:
    """Return rounds or time to a target: with interval and speed-up, as a lower bound, or not reached."""
    if not row.reached:
        return tag("td", "not reached")
    mean, half = mean_and_interval(row.measures[name].mean, row.measures[name].half_width, unit)
    if row.is_censored:
        return tag("td", f">{SPACE}{mean}", *small(f"{row.reached} of {len(row.seeds)} seeds"))
    gain = None if row.strategy.is_baseline or name == "rounds" else row.speed_up
    return tag("td", mean, *small(half), *small(None if gain is None else f"{gain.mean:.2f}{SPACE}×"))


def small(text: str | None) -> list[Markup]:
    """Return small print, if there is any."""
    return [] if text is None else [tag("small", text)]
