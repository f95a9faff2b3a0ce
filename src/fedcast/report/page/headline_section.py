"""The headline of the report page, its evidence, and cards with the most important numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from fedcast.cost import model_size
from fedcast.formatting import SPACE, number, p_value, percent, pluralize, quantity
from fedcast.report.content import Content
from fedcast.report.html import Markup, cards, note, tag
from fedcast.runs import Row
from fedcast.scenario import model_name

# A p-value below this tells a strategy from FedAvg.
_CLEAR = 0.05


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
    one = len(contents) == 1
    parts = [note(evidence(first)), cards(_cards(first))] if one else [note(facets_evidence(contents))]
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


def _cards(content: Content) -> Iterator[tuple[str, str, str]]:
    """Yield name, value and a remark of each card."""
    best = content.best
    rows = [best] if content.baseline in (None, best) else [best, content.baseline]
    suffix = f"to {percent(content.target)}" if best.reached > 0 else "of training"
    energy = "planned energy" if content.on_devices else "energy"
    if content.on_devices:
        yield from _measured_cards(content, best, suffix)
    shown = {
        **({} if content.on_devices else {f"simulated time {suffix}": ("total_s", "s")}),
        f"rounds {suffix}": ("rounds", ""),
        "final accuracy": ("accuracy", "%"),
        f"{energy} {suffix}": ("energy_j", "J"),
        "average EMD after sharing": ("emd_after", ""),
    }
    if best.measures["average_sharing_ratio"].mean > 0:
        shown["average sharing ratio"] = ("average_sharing_ratio", "%")
    for name, (measure, unit) in shown.items():
        own, *others = (_card_value(row, measure, unit, to_target=best.reached > 0) for row in rows)
        yield name, own, f"FedAvg {others[0]}" if others else ""


def _card_value(row: Row, measure: str, unit: str, *, to_target: bool) -> str:
    """Return a mean; > marks a lower bound of what a target takes, as in the table."""
    mean = row.measures[measure].mean
    text = percent(mean) if unit == "%" else quantity(mean, unit) if unit else number(round(mean, 3))
    return f">{SPACE}{text}" if to_target and row.is_bound(measure) else text


def _measured_cards(content: Content, best: Row, suffix: str) -> Iterator[tuple[str, str, str]]:
    """Yield measured beside planned seconds."""
    runs = content.runs_of(best)
    rounds = [seconds for run in runs for name, seconds in run.measured_s.items() if name.startswith("round ")]
    share = float(np.mean([run.measured_s.get("share", 0.0) for run in runs]))
    planned = [float(np.mean([getattr(run.facts, name) for run in runs])) for name in ("sharing_s", "round_s")]
    for name, measured, expected in (
        (f"measured time {suffix}", content.measured_s(best), best.measures["total_s"].mean),
        ("measured time of sharing", share, planned[0]),
        ("measured time of a round (median)", float(np.median(rounds)), planned[1]),
    ):
        yield name, quantity(measured, "s"), f"planned {quantity(expected, 's')}"
