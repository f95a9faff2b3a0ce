"""The first sections of a plan's page: the headline, the map, and where the time goes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from fedcast.formatting import SPACE, number, percent, pluralize, quantity, sentence
from fedcast.plan import Baseline, SharingPlan, changes_text
from fedcast.report.figures.crowds import crowd_figure
from fedcast.report.figures.maps import REFUSED, UNUSED, cluster_figure, is_crowd, plan_map
from fedcast.report.figures.training import (
    PART_COLOURS,
    PARTS,
    delay_figure,
    leakage_curve,
    leakage_figure,
    privacy_figure,
)
from fedcast.report.html import Markup, cards, colour_key, figure, note, scrolled, section, table, tag
from fedcast.report.plan_page.plan_content import PlanContent
from fedcast.report.svg import picture

# Widths of the map on a screen and on a phone, in units of its view box.
_SIZES = ((660.0, "wide"), (400.0, "narrow"))
_MAX_HEADS, _MAX_MEMBERS = 60, 12
_EPOCH = "local epoch"


def headline(content: PlanContent) -> str:
    """Return the plan in one sentence."""
    plan, target = content.plan, percent(content.plan.scenario.rounds.target_accuracy)
    if plan.delay_s is None:
        return f"{_who(content)}; how long it takes to {target} accuracy is not predicted"
    reached = f"{target} accuracy in {quantity(plan.delay_s, 's')}"
    if not content.shares:
        return f"Share nothing, train {pluralize(plan.local_epochs, _EPOCH)} a round: {reached}"
    if plan.speed_up is None or plan.best_without is None:
        return f"{reached}; without sharing it is not reached"
    # Only other local epochs or another learning rate make training alone faster: the plan chooses among its own.
    how = f" at {_training(plan.best_without)}" if plan.speed_up < 1 else ""
    return f"{reached}, {times(plan.speed_up)} than without sharing{how}"


def times(ratio: float) -> str:
    """Return how much faster or slower something is."""
    if abs(ratio - 1) < 0.005:
        return "no faster"
    return f"{ratio:.2f} times faster" if ratio > 1 else f"{1 / ratio:.2f} times slower"


def _training(one: Baseline) -> str:
    return f"{pluralize(one.local_epochs, _EPOCH)}, learning rate {one.learning_rate:.3g}"


def _who(content: PlanContent) -> str:
    """Return who sends how much to whom."""
    plan = content.plan
    users, heads = pluralize(plan.num_users, "user"), len(plan.heads)
    if plan.server_samples:
        return f"The server sends {pluralize(int(plan.server_samples), 'sample')} to each of {users}"
    if not heads:
        return f"None of {users} shares anything"
    sent = int(plan.shared[plan.heads].sum())
    receiving = int((plan.head_of >= 0).sum())
    sends, its = ("sends", "its") if heads == 1 else ("send", "their")
    return f"{pluralize(heads, 'head')} {sends} {sent:,} of {its} samples to {receiving:,} of {users}"


def headline_section(content: PlanContent) -> Markup:
    """Return the top of the page."""
    plan, scenario = content.plan, content.plan.scenario
    above = (
        "Plan",
        pluralize(plan.num_users, "user"),
        f"rule {plan.rule}",
        f"target accuracy {percent(scenario.rounds.target_accuracy)}",
        f"fit {plan.fit}, form {plan.form}",
        *([changes_text(scenario.changes)] if scenario.changes != type(scenario.changes)() else []),
    )
    parts = [tag("p", " · ".join(above), class_="eyebrow"), tag("h1", headline(content))]
    parts += [note(line) for line in _evidence(content)]
    return tag("header", *parts, cards(_cards(content)), id="top")


def _evidence(content: PlanContent) -> Iterator[str]:
    """Yield what the headline rests on."""
    plan = content.plan
    if plan.delay_s is None:
        yield f"Not predicted: {plan.not_predicted}."
    if not content.shares:
        yield "Sharing does not shorten this task, or nobody may share: the best plan is to train alone."
    else:
        ratio = percent(plan.average_sharing_ratio)
        yield f"{_who(content)}, by rule {plan.rule}: an average sharing ratio of {ratio}."
    if plan.rounds is not None:
        epochs, each = pluralize(plan.local_epochs, _EPOCH), quantity(plan.round_s, "s")
        yield f"{number(plan.rounds)} rounds of {epochs} are expected{_interval(plan)}, {each} each."
    for name, one in (("at its best", plan.best_without), ("as given", plan.without)):
        if one is None or (name == "as given" and one == plan.best_without):
            continue
        faster = "" if plan.delay_s is None else f"; the plan is {times(one.delay_s / plan.delay_s)}"
        yield f"Without sharing {name} ({_training(one)}): {quantity(one.delay_s, 's')}{faster}."
    if plan.delay_s is not None and plan.best_without is None:
        yield "Without sharing the target is not reachable."


def _interval(plan: SharingPlan) -> str:
    ends = plan.rounds_interval
    return "" if ends is None else f" ({ends[0]:,.0f} to {ends[1]:,.0f} in 90{SPACE}% of runs)"


def _cards(content: PlanContent) -> Iterator[tuple[str, str, str]]:
    """Yield name, value and a remark of each card."""
    plan, best = content.plan, content.plan.best_without
    if plan.rounds is not None and plan.delay_s is not None:
        instead = "" if best is None else f"{quantity(best.delay_s, 's')} without sharing"
        yield "expected time to the target", quantity(plan.delay_s, "s"), instead
        yield "expected rounds", number(plan.rounds), _interval(plan).strip(" ()")
    yield "a round", quantity(plan.round_s, "s"), pluralize(plan.local_epochs, _EPOCH)
    yield "energy of a round, all users", quantity(plan.round_j, "J"), f"{quantity(plan.round_bytes, 'B')} sent"
    yield "average EMD", number(plan.emd_after), f"{number(plan.emd_before)} without sharing"
    if content.shares:
        once = f"{quantity(plan.sharing_bytes, 'B')} and {quantity(plan.sharing_j, 'J')} once"
        yield "average sharing ratio", percent(plan.average_sharing_ratio), once


def map_section(content: PlanContent) -> Markup:
    """Return the map with names, and the clusters as a table."""
    world, plan = content.world, content.plan
    if content.refused is None or is_crowd(world):
        drawn = crowd_figure(world.layout, plan.head_of, schematic=not world.places_known)
        where = drawn.note or "A dot is a square of the map: its area is the number of users."
        pictures = [
            tag("div", picture(replace(drawn, width=width), "map", data_nearest=True), class_=look)
            for width, look in _SIZES
        ]
        shown = figure("", *pictures, below=sentence(where))
    else:
        shown = _named_map(content)
    parts = [shown, *_clusters(content)]
    return section("map", "Who shares with whom", tag("div", *parts, class_="mapped" if len(parts) > 1 else None))


def _named_map(content: PlanContent) -> Markup:
    assert content.refused is not None
    shown = plan_map(content.world, content.clustering, content.refused)
    tips = [_tip(content, user) for user in shown.users.tolist()]
    pictures = [
        tag("div", picture(cluster_figure(shown, tips=tips, width=width), "map", data_nearest=True), class_=look)
        for width, look in _SIZES
    ]
    links = {UNUSED: (len(shown.unused_km), "not used"), REFUSED: (len(shown.refused_km), "refused")}
    keys = [
        tag(
            "button", tag("span", class_=f"stroke l{number}"), f"{pluralize(count, 'link')} {what}", type="button",
            aria_pressed="true", data_toggles=number,
        )
        for number, (count, what) in links.items()
        if count
    ]  # fmt: skip
    legend = [tag("div", *keys, class_="legend", role="group", aria_label="Links shown")] if keys else []
    what = "a user or a refused link" if shown.refused_tips else "a user"
    below = f"Large dots: heads, joined to their members; grey: in no cluster. Point at {what} for details."
    many = content.clustering.problem.graph.num_links - len(shown.joins_km) - len(shown.unused_km)
    if many > 0:
        below += f" {pluralize(many, 'link')} that nobody uses not drawn."
    if len(content.refused.first) > len(shown.refused_km):
        below += f" {pluralize(len(content.refused.first), 'refused link')} not drawn."
    if content.world.layout.drawn:
        invented = "No table gives places: the layout is schematic, and distances on it mean nothing."
        below = f"{invented if shown.schematic else 'Places are drawn at random, as in the simulation.'} {below}"
    return figure("", *legend, *pictures, below=below)


def _tip(content: PlanContent, user: int) -> str:
    """Return what the map says about a user."""
    table, plan = content.table, content.plan
    role, head = table["role"][user], int(plan.head_of[user])
    members = int((plan.head_of == user).sum())
    names = {"head": f"head of {pluralize(members, 'member')}", "alone": "in no cluster"}
    samples = int(table["samples"][user])
    lines = [f"{content.name(user)}, {names.get(str(role)) or f'member of {content.name(head)}'}"]
    if role == "head":
        sent = int(plan.shared[user])
        lines.append(f"sends {pluralize(sent, 'sample')} to each, {percent(sent / samples)} of its own")
    if received := int(table["received_samples"][user]):
        lines.append(f"receives {pluralize(received, 'sample')}: {samples:,} → {samples + received:,}")
    elif role != "head":
        lines.append(f"holds {pluralize(samples, 'sample')}")
    lines.append(f"EMD {_change(table['emd_before'][user], table['emd_after'][user])}")
    if (rate := table["rate_bps"][user]) is not None:
        lines.append(f"link from its head {quantity(rate, 'bit/s')}")
    if (seconds := table["round_s"][user]) is not None:
        lines.append(f"a round takes it {quantity(seconds, 's')} and {quantity(table['energy_j'][user], 'J')}")
    else:
        lines.append("does not train")
    return "\n".join(lines)


def _change(before: float, after: float) -> str:
    same = abs(before - after) <= 1e-9
    return number(before, 3) if same else f"{number(before, 3)} → {number(after, 3)}"


def _clusters(content: PlanContent) -> Iterator[Markup]:
    """Yield the table of heads, those with most members first."""
    plan = content.plan
    if not len(plan.heads):
        return
    sizes = np.bincount(plan.head_of[plan.head_of >= 0], minlength=plan.num_users)
    heads = plan.heads[np.argsort(-sizes[plan.heads], kind="stable")]
    rows: list[tuple[Any, ...]] = []
    for head in heads[:_MAX_HEADS].tolist():
        members = np.flatnonzero(plan.head_of == head)
        few = ", ".join(content.name(user) for user in members[:_MAX_MEMBERS].tolist())
        more = f" and {len(members) - _MAX_MEMBERS:,} more" if len(members) > _MAX_MEMBERS else ""
        took = quantity(content.multicast_s[head], "s")
        share = percent(plan.shared[head] / content.table["samples"][head])
        kind = "" if plan.kinds is None else f" {plan.kinds[head]}"
        sent = tag("span", f"{plan.shared[head]:,}{kind}", tag("small", share))
        rows.append((content.name(head), sent, took, few + more))
    titles = ("head", "samples to each", "takes", "members")
    below = f"The {_MAX_HEADS} largest of {pluralize(len(heads), 'cluster')}." if len(heads) > _MAX_HEADS else ""
    box = scrolled(table(titles, rows, "words clusters"), "Clusters", tall=True)
    yield figure(pluralize(len(heads), "cluster"), box, below=below, class_="ledger")


def time_section(content: PlanContent) -> Markup:
    """Return where the time goes, and what less leakage costs."""
    plan, parts = content.plan, []
    rows = {"sharing, then one round": plan.delay_of(1.0)}
    title, below = "Sharing and one round", "Rounds are not predicted, and so neither is the time of the whole task."
    if plan.delay is not None:
        rows = {"this plan": plan.delay, **content.without}
        title = "Where the time goes"
        below = "Sharing happens once; the rest is that of all rounds, of the user that a round waits for."
    seconds = np.array([[getattr(delay, f"{part}_s") for part in PARTS] for delay in rows.values()])
    key = colour_key((f"s{place}", part) for place, part in zip(PART_COLOURS, PARTS, strict=True))
    drawn = picture(delay_figure(list(rows), seconds, x_label="expected seconds"), "time-split")
    parts.append(figure(title, key, drawn, below=below))
    if len(plan.leakage) > 1:
        ratios, delays = (
            [getattr(point, name) for point in plan.leakage] for name in ("average_sharing_ratio", "delay_s")
        )
        curve = picture(leakage_figure(leakage_curve("plan", 1, ratios, delays)), "leakage", data_nearest=True)
        rate = content.plan.scenario.training.learning_rate
        below = (
            f"What the plan would take at learning rate {rate:g} if heads send raw samples and less may be shared, "
            "each with its own best number of local epochs."
        )
        parts.append(figure("Delay against leakage", curve, below=below))
    if len(plan.privacy) > 1:
        epsilons, delays, kinds = (
            [getattr(point, name) for point in plan.privacy] for name in ("epsilon", "delay_s", "kind")
        )
        below = (
            "What the plan would take if its heads send generated samples with differential privacy instead, of the "
            "kind that is worth most at each ε."
        )
        drawn = picture(privacy_figure(epsilons, delays, kinds), "privacy", data_nearest=True)
        parts.append(figure("Delay against ε", drawn, below=below))
    # The two curves side by side, below where the time goes.
    lines = [parts[:1], parts[1:]] if len(parts) > 2 else [parts]
    return section("time", "Time", *(tag("div", *line, class_="two") for line in lines))
