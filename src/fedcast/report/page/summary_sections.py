"""The top of the page: the result in one sentence with its evidence, and the comparison table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fedcast.formatting import SPACE, mean_and_interval, number, p_value, percent, pluralize, quantity
from fedcast.report.colours import series_class
from fedcast.report.content import Content
from fedcast.report.html import Markup, join, note, scrolled, section, tag
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


@dataclass(frozen=True)
class _Column:
    """One column of the table.

    Attributes:
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
    titles = ["strategy", "reached", *(column.title for column in _COLUMNS)]
    titles.insert(4, "speed-up")
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
    """Return whether no strategy is better as shown; none is best where all are equal or the target was missed."""
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
