"""Sections about results: the headline with its evidence, the comparison, learning curves, time and leakage."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from fedcast.cost import model_size
from fedcast.formatting import (
    SPACE,
    difference,
    mean_and_interval,
    number,
    p_value,
    percent,
    pluralize,
    quantity,
    setting_text,
)
from fedcast.report.colours import series_class
from fedcast.report.content import (
    MEASURES,
    Content,
    failures,
    leakage_curves,
    learning_figure,
    split_figure,
    user_figures,
)
from fedcast.report.drawing import Dots, Line
from fedcast.report.figures.training import PART_COLOURS, PARTS, leakage_figure
from fedcast.report.html import Markup, colour_key, empty_tag, figure, note, scrolled, section, table, tag
from fedcast.report.layout import lay_out
from fedcast.report.svg import picture
from fedcast.runs import COUNTS, Gain, Interval, Row, shown_counts
from fedcast.scenario import model_name

# What the accuracy of a user on its own labels is, by training.user_test.
_OWN_ACCURACY = {
    "labels": "Own labels: the accuracy on each class of the test set, weighted by the class's share in the user's "
    "samples before sharing.",
    "own": "Own labels: the accuracy on the user's own test samples.",
}
# A p-value below this tells a strategy from FedAvg.
_CLEAR = 0.05
# Significant digits of the values of learning curves.
_DIGITS = 5


def headline_section(contents: Sequence[Content]) -> Markup:
    """Return the top of the page."""
    first = contents[0]
    scenario, seeds = first.scenario, sorted({seed for content in contents for seed in content.seeds})
    runs = len({run.folder for content in contents for run in content.runs})
    failed = len({run.folder for content in contents for run in content.failed})
    weights = model_size(scenario).weights
    samples = pluralize(sum(first.runs[0].tables["users"]["samples"]), "sample")
    users = pluralize(scenario.data.num_users, "real device" if first.on_devices else "user")
    above = (
        *([f"Measured on {users}, not simulated"] if first.on_devices else []),
        f"{scenario.data.dataset}, {samples}",
        model_name(scenario) + (f", {pluralize(weights, 'weight')}" if weights else ""),
        *([] if first.on_devices else [users]),
        pluralize(len(first.all_strategies or first.rows), "strategy", "strategies"),
        *([f"{len(contents)} settings"] if len(contents) > 1 else []),
        f"seed {seeds[0]}" if len(seeds) == 1 else f"{len(seeds)} seeds",
        f"target accuracy {percent(first.target)}",
        *([f"{failed} of {pluralize(runs + failed, 'run')} failed"] if failed else []),
    )
    parts = (
        [note(evidence(first)), tag("dl", *_cards(first), class_="cards")]
        if len(contents) == 1
        else [note(facets_evidence(contents))]
    )
    return tag(
        "header", tag("p", " · ".join(above), class_="eyebrow"), tag("h1", page_headline(contents)), *parts, id="top"
    )


def page_headline(contents: Sequence[Content]) -> str:
    """Return the headline of one comparison; of several, which strategy is the best in most of them."""
    if len(contents) == 1:
        return headline(contents[0])
    counts = Counter(row.strategy.name for content in contents for row in content.best_rows)
    # Of equal counts that of the first facet, as `most_common` keeps the order.
    name, most = counts.most_common(1)[0]
    shared = sum(name in (row.strategy.name for row in one.best_rows) and len(one.best_rows) > 1 for one in contents)
    also = f" (in {shared} as good as another)" if shared else ""
    gains = [
        row.speed_up.mean
        for content in contents
        for row in content.best_rows
        if row.strategy.name == name and row.speed_up is not None
    ]
    faster = (
        f", up to {max(gains):.2f} times faster than FedAvg" if gains and name != "FedAvg" and max(gains) > 1 else ""
    )
    return f"{name} is the best strategy in {most} of {len(contents)} settings{also}{faster}"


def facets_evidence(contents: Sequence[Content]) -> str:
    """Return what varies, and in how many facets a test tells the best strategy from FedAvg."""
    said = f"By {', '.join(contents[0].facet)}. The table below has the best strategy of each setting."
    if all(len(content.best.seeds) == 1 for content in contents):
        return f"{said} One seed: the variation between seeds is unknown."
    if not any(content.baseline for content in contents):
        return said
    clear = sum(_is_clear(content.best) for content in contents)
    return f"{said} A paired t-test tells it from FedAvg (p < {_CLEAR}) in {clear} of {len(contents)}."


def _is_clear(row: Row) -> bool:
    """Return whether time to the target, or accuracy where there is none to compare, differs from FedAvg's."""
    test = (row.tests.get("total_s") if row.reached else None) or row.tests.get("accuracy")
    return test is not None and test.p_value is not None and test.p_value < _CLEAR


def _by_facet(contents: Sequence[Content], parts_of: Callable[[Content], Iterable[Markup]]) -> Iterator[Markup]:
    """Yield the parts of a section for each facet, under its name if there are several."""
    for content in contents:
        if len(contents) > 1:
            yield tag("h3", content.name)
        yield from parts_of(content)


def headline(content: Content) -> str:
    """Return which strategy reaches the target first, and how much faster than FedAvg."""
    best, base = content.best, content.baseline
    target, name = percent(content.target), best.strategy.name
    rounds = pluralize(content.scenario.training.rounds, "round")
    on = f" on {pluralize(content.scenario.data.num_users, 'real device')}" if content.on_devices else ""
    if not best.reached:
        accuracy = percent(best.measures["accuracy"].mean)
        if len(content.rows) == 1:
            return f"{name}{on} does not reach {target} within {rounds}; it ends at {accuracy}"
        return f"No strategy reaches {target} within {rounds}; {name} comes closest with {accuracy}"
    seconds = quantity(best.measures["total_s"].mean, "s")
    if content.on_devices:
        seconds = f"{quantity(content.measured_s(best), 's')}{on}; planned were {seconds}"
    result = f"{name} reaches {target} {_in_seeds(best) if best.reached < len(best.seeds) else f'in {seconds}'}"
    if base is best:
        return result + ("; no other strategy is faster" if len(content.rows) > 1 else "")
    if base is not None and not base.reached:
        return f"{result}; FedAvg does not within {rounds}"
    if base is not None and base.reached < len(base.seeds):
        return f"{result}; FedAvg does {_in_seeds(base)}"
    if best.speed_up is not None and best.speed_up.mean > 1:
        result += f", {best.speed_up.mean:.2f} times faster than FedAvg"
    return result


def _in_seeds(row: Row) -> str:
    return f"in {row.reached} of {pluralize(len(row.seeds), 'seed')}"


def evidence(content: Content) -> str:
    """Return what the headline is based on: seeds, and the test against FedAvg."""
    best = content.best
    if content.on_devices:
        return (
            "Measured seconds are those of sharing and of rounds on the devices that took part: hosts, or processes of "
            "a trial. Planned ones, as in figures below, are of the devices and links that the scenario describes."
        )
    if len(best.seeds) == 1:
        return "One seed: the variation between seeds is unknown."
    said = f"Mean over {len(best.seeds)} seeds."
    name, word = ("total_s", "time") if best.reached else ("accuracy", "accuracy")
    test = best.tests.get(name)
    if test is not None and test.p_value is not None:
        over = f" over the {test.difference.count} seeds in which both reach it" if name == "total_s" else ""
        said += f" Paired t-test of {word} against FedAvg{over}: {p_value(test.p_value)}."
    elif test is not None and test.is_degenerate:
        said += f" No test of {word} against FedAvg: its differences are equal up to rounding in all seeds."
    return said


def _cards(content: Content) -> Iterator[Markup]:
    best = content.best
    rows = [best] if content.baseline in (None, best) else [best, content.baseline]
    suffix = f"to {percent(content.target)}" if best.reached > 0 else "of training"
    energy = "planned energy" if content.on_devices else "energy"
    if content.on_devices:
        yield from _measured_cards(content, best, suffix)
    cards = {
        **({} if content.on_devices else {f"simulated time {suffix}": ("total_s", "s")}),
        f"rounds {suffix}": ("rounds", ""),
        "final accuracy": ("accuracy", "%"),
        f"{energy} {suffix}": ("energy_j", "J"),
        "average EMD after sharing": ("emd_after", ""),
    }
    if best.measures["average_sharing_ratio"].mean > 0:
        cards["average sharing ratio"] = ("average_sharing_ratio", "%")
    for name, (measure, unit) in cards.items():
        own, *others = (_card_value(row, measure, unit, to_target=best.reached > 0) for row in rows)
        asides = [tag("span", f"FedAvg {value}", class_="aside") for value in others]
        yield tag("div", tag("dt", name), tag("dd", tag("strong", own), *asides))


def _card_value(row: Row, measure: str, unit: str, *, to_target: bool) -> str:
    """Return a mean; > marks a lower bound of what a target takes, as in the table."""
    mean = row.measures[measure].mean
    text = percent(mean) if unit == "%" else quantity(mean, unit) if unit else number(round(mean, 3))
    return f">{SPACE}{text}" if to_target and row.is_bound(measure) else text


def _measured_cards(content: Content, best: Row, suffix: str) -> Iterator[Markup]:
    """Yield measured beside planned seconds."""
    runs = content.runs_of(best)
    rounds = [seconds for run in runs for name, seconds in run.measured_s.items() if name.startswith("round ")]
    share = float(np.mean([run.measured_s.get("share", 0.0) for run in runs]))
    planned = [float(np.mean([getattr(run.facts, name) for run in runs])) for name in ("sharing_s", "round_s")]
    cards = {
        f"measured time {suffix}": (content.measured_s(best), best.measures["total_s"].mean),
        "measured time of sharing": (share, planned[0]),
        "measured time of a round (median)": (float(np.median(rounds)), planned[1]),
    }
    for name, (measured, expected) in cards.items():
        aside = tag("span", f"planned {quantity(expected, 's')}", class_="aside")
        yield tag("div", tag("dt", name), tag("dd", tag("strong", quantity(measured, "s")), aside))


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
    tables = _by_facet(contents, lambda content: [scrolled(_table(content), "Comparison of strategies")])
    who = _by_facet([content for content in contents if content.attendance], _attendance)
    targets = _by_facet([content for content in contents if content.to_targets], _targets)
    below = note(" ".join(notes))
    gains = _by_facet([content for content in contents if content.gains], _gains)
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
        return tag("td", quantity(row.measures["total_s"].mean, "s"), *_small(gain), class_=look)

    head = tag(
        "tr", *(tag("th", name, scope="col") for name in (*contents[0].facet, *(one.name for one in strategies)))
    )
    body = []
    for content in contents:
        rows = {row.strategy: row for row in content.rows}
        values = [tag("th", setting_text(value), scope="row") for value in content.facet.values()]
        body.append(tag("tr", *values, *(text(rows.get(one), content) for one in strategies)))
    title = "Best strategy of each setting"
    below = "Time to the target and speed-up over FedAvg; final accuracy where some seeds do not reach it."
    found = tag("table", tag("thead", head), tag("tbody", *body), class_="numbers")
    return figure(title, scrolled(found, title), below=below)


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


_GAIN_MEASURES = {"rounds": ("rounds", ""), "total_s": ("time", "s"), "accuracy": ("final accuracy", "%")}


def _attendance(content: Content) -> Iterator[Markup]:
    """Yield the table of who took part."""
    names = shown_counts(content.attendance)
    rows = []
    for row in content.attendance:
        found = [row.counts.get(name) for name in names]
        texts = [("–", None) if each is None else mean_and_interval(each.mean, each.half_width) for each in found]
        swatch = tag("span", class_=f"swatch {series_class(content.series[row.strategy])}")
        cells = (tag("td", text, *_small(half)) for text, half in texts)
        rows.append(tag("tr", tag("th", swatch, row.strategy.name, scope="row"), *cells))
    head = tag("tr", *(tag("th", title, scope="col") for title in ("strategy", *(COUNTS[name] for name in names))))
    title, found_table = "Who took part", tag("table", tag("thead", head), tag("tbody", *rows), class_="numbers")
    below = "Updates of all rounds of a run, means over seeds."
    if "staleness" in names:
        below += " Staleness: steps of the server between the start of an update and its use."
    if "missed" in names or "surplus" in names:
        below += " Energy and bytes of users that missed the deadline or were not needed are spent."
    yield figure(title, scrolled(found_table, title), below=below)


def _gains(content: Content) -> Iterator[Markup]:
    """Yield the table of the parts of gains, if there are controls, and how to read it."""
    if not content.gains:
        return
    titles = ("strategy and control", "measure", "without sharing", "more work", "less skew", "with sharing", "seeds")
    below = (
        "A control shares nothing, and its users repeat samples of their own, so that a round has as many samples as "
        "that of its strategy: as many for each user, with the same weights (work); or the same multiple for all, with "
        "the weights of no sharing (epochs). More work: the control minus no sharing. Less skew: the strategy minus "
        "the control. Differences are paired by seed; rounds and time over the seeds in which all reach the target."
    )
    title = "Where the gain comes from"
    yield figure(title, scrolled(table(titles, map(_gain_row, content.gains)), title), below=below)


def _gain_row(gain: Gain) -> tuple[object, ...]:
    title, unit = _GAIN_MEASURES[gain.measure]
    start, end = (mean_and_interval(each.mean, None, unit)[0] for each in (gain.without, gain.shared))
    parts = [_difference(test.difference, unit) for test in (gain.work, gain.skew)]
    return gain.control.name, title, start, *parts, end, len(gain.seeds)


def _difference(found: Interval, unit: str) -> str:
    return SPACE.join(text for text in difference(found.mean, found.half_width, unit) if text)


def _table(content: Content) -> Markup:
    names, reached, speed_ups = [], [], []
    for row in content.rows:
        swatch = tag("span", class_=f"swatch {series_class(content.series[row.strategy])}")
        settings = [tag("small", f"{key} = {setting_text(value)}") for key, value in row.settings.items()]
        names.append(tag("th", swatch, row.strategy.name, *settings, scope="row"))
        one = "yes" if row.reached else "no"
        failed = _small(f"{row.failed} failed" if row.failed else None)
        reached.append(tag("td", f"{row.reached} of {len(row.seeds)}" if len(content.seeds) > 1 else one, *failed))
        gain = None if row is content.baseline else row.speed_up
        half = None if gain is None or gain.half_width is None else f"±{SPACE}{number(gain.half_width, 2)}"
        speed_ups.append(tag("td", "–" if gain is None else f"{number(gain.mean, 2)}{SPACE}×", *_small(half)))
    columns = [one for one in _COLUMNS if all(one.measure in row.measures for row in content.rows)]
    cells = [_cells(content, column) for column in columns]
    titles = ["strategy", "reached", *(column.title for column in columns)]
    titles.insert(4, "speed-up")
    head = tag("tr", *(tag("th", title, scope="col") for title in titles))
    body = [tag("tr", *row) for row in zip(names, reached, *cells[:2], speed_ups, *cells[2:], strict=True)]
    return tag("table", tag("thead", head), tag("tbody", *body), class_="numbers")


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
        shown = [f">{SPACE}{mean}"] if is_bound else [mean, *_small(half)]
        cells.append(tag("td", *shown, *_small(p), class_=look))
    return cells


def _targets(content: Content) -> Iterator[Markup]:
    """Yield the table of rounds and time to several targets, if there are several."""
    if not content.to_targets:
        return
    titles = [
        "strategy",
        *(f"{word} to {percent(target)}" for target in content.to_targets for word in ("rounds", "time")),
    ]
    body = []
    for place, row in enumerate(content.rows):
        rows = [rows[place] for rows in content.to_targets.values()]
        cells = [_to_target(one, name, unit) for one in rows for name, unit in (("rounds", ""), ("total_s", "s"))]
        body.append(tag("tr", tag("th", row.strategy.name, scope="row"), *cells))
    title, head = "To several targets", tag("tr", *(tag("th", name, scope="col") for name in titles))
    found = tag("table", tag("thead", head), tag("tbody", *body), class_="numbers")
    below = f"Means over seeds; >{SPACE}where some seeds end without reaching the target. ×: speed-up over FedAvg."
    yield figure(title, scrolled(found, title), below=below)


def _expected(content: Content) -> Iterator[Markup]:
    """Yield the table of what plans expected and what was measured, of strategies with a prediction."""
    rows = []
    for row in content.rows:
        plans = [run.plan for run in content.runs_of(row) if run.plan is not None]
        known = [(plan.rounds, plan.delay_s) for plan in plans if plan.rounds is not None and plan.delay_s is not None]
        if not known:
            continue
        rounds, seconds = (float(np.mean(values)) for values in zip(*known, strict=True))
        ends = [plan.rounds_interval for plan in plans if plan.rounds_interval is not None]
        between = " to ".join(number(end) for end in np.mean(ends, axis=0).tolist()) if ends else None
        measured = [_to_target(row, *column) for column in (("rounds", ""), ("total_s", "s"))]
        if content.on_devices and row.reached:
            measured[1] = tag("td", quantity(content.measured_s(row), "s"))
        expected = tag("td", number(rounds), *_small(between)), tag("td", quantity(seconds, "s"))
        swatch = tag("span", class_=f"swatch {series_class(content.series[row.strategy])}")
        name = tag("th", swatch, row.strategy.name, scope="row")
        rows.append(tag("tr", name, expected[0], measured[0], expected[1], measured[1]))
    if not rows:
        return
    titles = ("strategy", "rounds expected", "rounds measured", "time expected", "time measured")
    head = tag("tr", *(tag("th", title, scope="col") for title in titles))
    title, found = "Expected and measured", tag("table", tag("thead", head), tag("tbody", *rows), class_="numbers")
    below = "Expected by the plans before training, means over seeds; below: 90 % prediction interval of one run."
    yield figure(title, scrolled(found, title), below=below)


def _to_target(row: Row, name: str, unit: str) -> Markup:
    """Return rounds or time to a target: with interval and speed-up, as a lower bound, or not reached."""
    if not row.reached:
        return tag("td", "not reached")
    mean, half = mean_and_interval(row.measures[name].mean, row.measures[name].half_width, unit)
    if row.is_censored:
        return tag("td", f">{SPACE}{mean}", *_small(f"{row.reached} of {len(row.seeds)} seeds"))
    gain = None if row.strategy.is_baseline or name == "rounds" else row.speed_up
    return tag("td", mean, *_small(half), *_small(None if gain is None else f"{gain.mean:.2f}{SPACE}×"))


def _small(text: str | None) -> list[Markup]:
    return [] if text is None else [tag("small", text)]


def curves_section(contents: Sequence[Content]) -> Markup:
    """Return the section of learning curves, with a legend that hides strategies and a choice of the axis."""
    choices = []
    for axis, title in contents[0].axes.items():
        choice = empty_tag("input", type="radio", name="axis", value=axis, checked=axis == "round")
        choices.append(tag("label", choice, tag("span", title + ("s" if axis == "round" else ""))))
    switch = tag("fieldset", tag("legend", "against"), *choices, class_="switch")

    def plots(content: Content) -> list[Markup]:
        found = [
            figure(title, *(_plot(content, measure, axis) for axis in content.axes))
            for measure, title in MEASURES.items()
        ]
        drawn = user_figures(content).items()
        found += [figure(one.title, picture(one, f"users-{column}")) for column, one in drawn]
        return [tag("div", *found, class_="two")]

    several = any(len(content.seeds) > 1 for content in contents)
    meant = {
        "interval": "bands their 95 % confidence interval",
        "range": "bands reach from the lowest to the highest seed",
    }
    band = f"Lines are means over seeds, {meant[contents[0].bands]}. " if several else ""
    return section(
        "training",
        "Training",
        tag("div", _strategy_legend(contents[0], contents[0].series.values()), switch, class_="controls"),
        *_by_facet(contents, plots),
        note(
            f"{band}{contents[0].clock.capitalize()} time includes sharing, which comes before the first round. "
            f"{_OWN_ACCURACY[contents[0].scenario.training.user_test]}"
        ),
    )


def _plot(content: Content, measure: str, axis: str) -> Markup:
    """Return a plot, and the values that the page's script shows under the pointer."""
    found = learning_figure(content, measure, axis)
    drawing, series = lay_out(found, html=True), []
    for line in (mark for mark in found.rows[0][0].marks if isinstance(mark, Line)):
        columns = {name: getattr(line, name) for name in ("x", "y", "low", "high")}
        known = {name: values.tolist() for name, values in columns.items() if values is not None}
        rounded = {name: [float(f"{value:.{_DIGITS}g}") for value in values] for name, values in known.items()}
        series.append({"name": line.label, "number": line.series, **rounded})
    scales = {name: [x.low, x.high, x.start, x.end] for name, x in zip("xy", drawing.scales[0], strict=True)}
    values = {**scales, "axis": axis, "share": measure == "accuracy", "series": series}
    # A script element ends at the first "</", even inside a string.
    text = json.dumps(values, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    parts = (
        picture(drawing, f"{measure}-{axis}", data_curves=True),
        tag("script", Markup(text), type="application/json"),
    )
    return tag("div", *parts, data_axis=axis, hidden=axis != "round")


def _strategy_legend(content: Content, drawn: Collection[int]) -> Markup:
    """Return one button per strategy that is drawn, which hides and shows it in the figures of its section."""
    keys = []
    for strategy, series in content.series.items():
        if series not in drawn:
            continue
        swatch = tag("span", class_=f"swatch {series_class(series)}")
        keys.append(tag("button", swatch, strategy.name, type="button", aria_pressed="true", data_toggles=series))
    return tag("div", *keys, class_="legend", role="group", aria_label="Strategies shown")


def delays_section(contents: Sequence[Content]) -> Markup:
    """Return the section of where time goes and what less leakage costs."""
    return section("time", "Time", *_by_facet(contents, lambda content: [*_expected(content), *_delays(content)]))


def _delays(content: Content) -> list[Markup]:
    missed = any(row.is_censored for row in content.rows)
    below = f"Up to the target{f'; >{SPACE}where some seeds end without reaching it' if missed else ''}."
    below += " Means over seeds." if len(content.seeds) > 1 else ""
    key = colour_key((f"s{place}", part) for place, part in zip(PART_COLOURS, PARTS, strict=True))
    split = figure("Where the time goes", key, picture(split_figure(content), "time-split"), below=below)
    marks = leakage_curves(content)
    rings = " Rings: measured in training." if any(isinstance(mark, Dots) and mark.hollow for mark in marks) else ""
    means = " Means over seeds." if len(content.seeds) > 1 else ""
    below = f"Dots: what the plan expects if less may be shared, clusters as they are.{rings}{means}"
    shown = {mark.series for mark in marks if mark.series is not None}
    parts = (
        [_strategy_legend(content, shown), picture(leakage_figure(marks), "leakage", data_nearest=True)]
        if marks
        else []
    )
    if not marks:
        below = "None of these runs was planned with a curve of delay against leakage."
    leakage = figure("Delay against leakage", *parts, below=below)
    return [tag("div", split, leakage, class_="two")]
