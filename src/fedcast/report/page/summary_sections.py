"""The top of the page: the result in one sentence with its evidence, and the comparison table."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import NamedTuple

from fedcast.formatting import SPACE, mean_and_interval, number, p_value, percent, pluralize, quantity
from fedcast.report.colours import series_class
from fedcast.report.content import Content
from fedcast.report.html import Markup, note, scrolled, section, tag
from fedcast.runs import Row


def headline_section(content: Content) -> Markup:
    """Return the top of the page."""
    above = tag("p", _what_was_run(content), class_="eyebrow")
    cards = tag("dl", *_cards(content), class_="cards")
    return tag("header", above, tag("h1", headline(content)), note(evidence(content)), cards, id="top")


def headline(content: Content) -> str:
    """Return which strategy reaches the target first, and how much faster than FedAvg."""
    best, base = content.best, content.baseline
    target, name = percent(content.target), best.strategy.name
    rounds = pluralize(content.scenario.training.rounds, "round")
    if not best.reached:
        accuracy = percent(best.measures["accuracy"].mean)
        if len(content.rows) == 1:
            return f"{name} does not reach {target} within {rounds}; it ends at {accuracy}"
        return f"No strategy reaches {target} within {rounds}; {name} comes closest with {accuracy}"
    when = f"in {quantity(best.measures['total_s'].mean, 's')}"
    if best.reached < len(best.seeds):
        when = _in_seeds(best)
    result = f"{name} reaches {target} {when}"
    if base is best:
        return result + ("; no other strategy is faster" if len(content.rows) > 1 else "")
    if base is None:
        return result
    if not base.reached:
        return f"{result}; FedAvg does not within {rounds}"
    if base.reached < len(base.seeds):
        return f"{result}; FedAvg does {_in_seeds(base)}"
    if best.speed_up is None or best.speed_up.mean <= 1:
        return result
    return f"{result}, {best.speed_up.mean:.2f} times faster than FedAvg"


def _in_seeds(row: Row) -> str:
    return f"in {row.reached} of {pluralize(len(row.seeds), 'seed')}"


def evidence(content: Content) -> str:
    """Return what the headline is based on: seeds, and the test against FedAvg."""
    best = content.best
    seeds = len(best.seeds)
    if seeds == 1:
        return "One seed: the variation between seeds is unknown."
    said = f"Mean over {seeds} seeds."
    name, word = ("total_s", "time") if best.reached else ("accuracy", "accuracy")
    test = best.tests.get(name)
    if test is not None and test.p_value is not None:
        over = f" over the {test.difference.count} seeds in which both reach it" if name == "total_s" else ""
        said += f" Paired t-test of {word} against FedAvg{over}: {p_value(test.p_value)}."
    return said


def _what_was_run(content: Content) -> str:
    scenario, seeds = content.scenario, content.seeds
    parts = [
        scenario.data.dataset,
        pluralize(scenario.data.num_users, "user"),
        pluralize(len(content.rows), "strategy", "strategies"),
        f"seed {seeds[0]}" if len(seeds) == 1 else f"{len(seeds)} seeds",
        f"target accuracy {percent(content.target)}",
    ]
    return " · ".join(parts)


def _cards(content: Content) -> list[Markup]:
    best = content.best
    suffix = f"to {percent(content.target)}" if best.reached > 0 else "of training"
    cards = {
        f"simulated time {suffix}": ("total_s", "s"),
        f"rounds {suffix}": ("rounds", ""),
        "final accuracy": ("accuracy", "%"),
        f"energy {suffix}": ("energy_j", "J"),
        "average EMD after sharing": ("emd_after", ""),
    }
    if best.measures["average_sharing_ratio"].mean > 0:
        cards["average sharing ratio"] = ("average_sharing_ratio", "%")
    base = content.baseline if content.baseline is not best else None
    return [_card(name, best, base, *measure) for name, measure in cards.items()]


def _card(name: str, best: Row, base: Row | None, measure: str, unit: str) -> Markup:
    def value(row: Row) -> str:
        mean = row.measures[measure].mean
        if unit == "%":
            return percent(mean)
        return quantity(mean, unit) if unit else number(round(mean, 3))

    aside = [tag("span", f"FedAvg {value(base)}", class_="aside")] if base is not None else []
    return tag("div", tag("dt", name), tag("dd", tag("strong", value(best)), *aside))


class _Column(NamedTuple):
    """One column of the table; `unit` is % for shares, `better` is min or max, `to_target`: it ends at the target."""

    measure: str
    title: str
    unit: str
    better: Callable[..., tuple[float, str]] | None
    to_target: bool = False


_COLUMNS = (
    _Column("rounds", "rounds", "", min, to_target=True),
    _Column("total_s", "time", "s", min, to_target=True),
    _Column("accuracy", "final accuracy", "%", max),
    _Column("worst_accuracy", "worst tenth", "%", max),
    _Column("energy_j", "energy", "J", min, to_target=True),
    _Column("sent_bytes", "sent", "B", min, to_target=True),
    _Column("emd_after", "EMD after", "", min),
    _Column("average_sharing_ratio", "sharing ratio", "%", None),
)


def comparison_section(content: Content) -> Markup:
    """Return the comparison table, and how to read it."""
    several = len(content.seeds) > 1
    notes = [
        f"Rounds, time, energy and bytes are those up to the target; ≥{SPACE}where some seeds end without reaching it.",
        "± is the 95 % confidence interval of the mean over seeds; p is the p-value of a paired t-test against FedAvg."
        if several
        else "",
        "Worst tenth: final accuracy of the worst tenth of users, on their own label distribution.",
        "Sharing ratio: the share of its head's data that a user receives, averaged over users.",
    ]
    box = scrolled(_table(content), "Comparison of strategies")
    return section("comparison", "Comparison", box, note(" ".join(filter(None, notes))))


def _table(content: Content) -> Markup:
    names, reached, speed_ups = [], [], []
    for row in content.rows:
        swatch = tag("span", class_=f"swatch {series_class(content.series[row.strategy])}")
        names.append(tag("th", swatch, row.strategy.name, scope="row"))
        one = "yes" if row.reached else "no"
        reached.append(tag("td", f"{row.reached} of {len(row.seeds)}" if len(content.seeds) > 1 else one))
        gain = None if row is content.baseline else row.speed_up
        half = None if gain is None or gain.half_width is None else f"±{SPACE}{number(gain.half_width, 2)}"
        speed_ups.append(tag("td", "–" if gain is None else f"{number(gain.mean, 2)}{SPACE}×", *_small(half)))
    cells = [_cells(content, column) for column in _COLUMNS]
    titles = ["strategy", "reached", *(column.title for column in _COLUMNS)]
    titles.insert(4, "speed-up")
    head = tag("tr", *(tag("th", title, scope="col") for title in titles))
    body = [tag("tr", *row) for row in zip(names, reached, *cells[:2], speed_ups, *cells[2:], strict=True)]
    return tag("table", tag("thead", head), tag("tbody", *body), class_="numbers")


def _cells(content: Content, column: _Column) -> list[Markup]:
    """Return a column; those are marked than which none is better as shown, unless all are equal."""
    found = [row.measures[column.measure] for row in content.rows]
    texts = [mean_and_interval(each.mean, each.half_width, column.unit) for each in found]
    # A strategy that missed the target in some seeds has only a lower bound, which is never the best.
    bounded = [column.to_target and row.reached < len(row.seeds) for row in content.rows]
    known = [(each.mean, text) for each, (text, _), is_bound in zip(found, texts, bounded, strict=True) if not is_bound]
    all_equal = len({text for _, text in known}) < 2
    best = None if column.better is None or all_equal else column.better(known, key=itemgetter(0))[1]
    cells = []
    for row, (mean, half), is_bound in zip(content.rows, texts, bounded, strict=True):
        test = row.tests.get(column.measure)
        p = None if test is None or test.p_value is None else p_value(test.p_value)
        look = "best" if mean == best and not is_bound else None
        cells.append(tag("td", f"≥{SPACE}{mean}" if is_bound else mean, *_small(half), *_small(p), class_=look))
    return cells


def _small(text: str | None) -> list[Markup]:
    return [] if text is None else [tag("small", text)]
