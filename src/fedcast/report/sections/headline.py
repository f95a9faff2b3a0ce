"""The result in one sentence, how sure it is, and the few numbers behind it."""

from __future__ import annotations

from fedcast.formatting import number, p_value, percent, pluralize, quantity
from fedcast.report.content import Content
from fedcast.report.markup import Markup, join, tag
from fedcast.runs.comparison import Row


def headline_section(content: Content) -> Markup:
    """The top of the page."""
    return tag(
        "header",
        tag("p", _what_was_run(content), class_="eyebrow"),
        tag("h1", headline(content)),
        tag("p", evidence(content), class_="note"),
        tag("dl", *_cards(content), class_="cards"),
        id="top",
    )


def headline(content: Content) -> str:
    """Which strategy meets the target first, and how much sooner than FedAvg."""
    best, base = content.best, content.baseline
    target, name = percent(content.target), best.strategy.name
    rounds = pluralize(content.scenario.training.rounds, "round")
    if not best.reached:
        accuracy = percent(best.measures["accuracy"].mean)
        if len(content.rows) == 1:
            return f"{name} does not reach {target} within {rounds}; it ends at {accuracy}"
        return f"No strategy reaches {target} within {rounds}; {name} comes nearest with {accuracy}"
    result = f"{name} reaches {target} {_when(best)}"
    if base is best:
        return result + ("; no other strategy is sooner" if len(content.rows) > 1 else "")
    if base is None:
        return result
    return result + _against(base, best, rounds)


def _when(row: Row) -> str:
    if row.reached < len(row.seeds):
        return f"in {row.reached} of {pluralize(len(row.seeds), 'seed')}"
    return f"in {quantity(row.measures['total_s'].mean, 's')}"


def _against(base: Row, best: Row, rounds: str) -> str:
    if not base.reached:
        return f"; FedAvg does not within {rounds}"
    if base.reached < len(base.seeds):
        return f"; FedAvg does in {base.reached} of {pluralize(len(base.seeds), 'seed')}"
    if best.speed_up is None or best.speed_up.mean <= 1:
        return ""
    return f", {best.speed_up.mean:.2f} times sooner than FedAvg"


def evidence(content: Content) -> str:
    """How much the sentence can be trusted."""
    best = content.best
    seeds = len(best.seeds)
    if seeds == 1:
        return "One seed: how much this varies from seed to seed is not known."
    said = f"Mean over {seeds} seeds."
    name, word = ("total_s", "time") if best.reached else ("accuracy", "accuracy")
    test = best.tests.get(name)
    if test is not None and test.p_value is not None:
        over = f" over the {test.difference.count} seeds in which both reach it" if name == "total_s" else ""
        said += f" Paired t test of {word} against FedAvg{over}: {p_value(test.p_value)}."
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
    base = content.baseline if content.baseline is not best else None
    reached = best.reached > 0
    suffix = f"to {percent(content.target)}" if reached else "of training"
    cards = [
        _card(f"simulated time {suffix}", best, base, "total_s", "s"),
        _card(f"rounds {suffix}", best, base, "rounds", ""),
        _card("final accuracy", best, base, "accuracy", "%"),
        _card(f"energy {suffix}", best, base, "energy_j", "J"),
        _card("average EMD after sharing", best, base, "emd_after", ""),
    ]
    if best.measures["average_sharing_ratio"].mean > 0:
        cards.append(_card("average sharing ratio", best, base, "average_sharing_ratio", "%"))
    return cards


def _card(name: str, best: Row, base: Row | None, measure: str, unit: str) -> Markup:
    aside = [tag("span", f"FedAvg {_value(base, measure, unit)}", class_="aside")] if base is not None else []
    value = tag("dd", tag("strong", _value(best, measure, unit)), *aside)
    return tag("div", join([tag("dt", name), value]))


def _value(row: Row, measure: str, unit: str) -> str:
    value = row.measures[measure].mean
    if unit == "%":
        return percent(value)
    return quantity(value, unit) if unit else number(round(value, 3))
