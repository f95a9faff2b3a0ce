"""The section about single runs: who shares with whom and why, what that changes, and what each user reveals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from fedcast.formatting import SPACE, number, percent, pluralize, quantity
from fedcast.report.content import (
    Content,
    class_change_of,
    cluster_map_of,
    emd_change_of,
    energy_budget_of,
    user_energy_of,
)
from fedcast.report.figures.classes import MAX_CLASSES, ClassChange, class_change_figure
from fedcast.report.figures.maps import cluster_figure
from fedcast.report.figures.users import UserValues, emd_figure, energy_figure
from fedcast.report.html import Markup, colour_key, figure, join, scrolled, table, tag
from fedcast.report.svg import picture
from fedcast.runs import StoredRun
from fedcast.typing import Ints

_USERS_ON_A_PHONE = 40
# Widths of the figure of classes, in units of its view box.
_WIDE, _NARROW = 920.0, 440.0
_MAX_HEADS = 30
_EMD_DECIMALS = 3


def run_section(content: Content) -> Markup:
    """Return the section of single runs: the choice of a run, and everything about the chosen one."""
    runs, first = content.inside, content.first_inside
    parts = [
        tag("div", _run(content, run), class_="run", data_run=place, hidden=run is not first)
        for place, run in enumerate(runs)
    ]
    return tag("section", tag("h2", "Inside a run"), *_choice(content, first), *parts, id="inside")


def _choice(content: Content, first: StoredRun) -> list[Markup]:
    if len(content.inside) == 1:
        return [tag("p", content.name_of(first), class_="note")]
    options = [
        tag("option", content.name_of(run), value=place, selected=run is first)
        for place, run in enumerate(content.inside)
    ]
    hidden = len(content.runs) - len(content.inside)
    note = [tag("span", f"{len(content.inside)} of {len(content.runs)} runs", class_="note")] if hidden else []
    return [tag("label", "Run ", tag("select", *options, id="run"), *note, class_="choice")]


def _run(content: Content, run: StoredRun) -> Markup:
    return join(
        [
            tag("div", _map(content, run), _facts(run), class_="two"),
            _classes(run),
            tag("div", _emd(run), _energy(run), class_="two"),
            _ledger(run),
        ]
    )


def _map(content: Content, run: StoredRun) -> Markup:
    shown = cluster_map_of(run, content.users_on_map)
    part = ""
    if len(shown.users) < shown.num_users:
        part = f"The {len(shown.users):,} of {shown.num_users:,} users nearest the centre. "
    note = f"{part}Large dots: heads; grey: in no cluster. Point at a user, tap it, or use arrow keys for details."
    drawn = picture(cluster_figure(shown, tips=_map_tips(run, shown.users)), "map", data_nearest=True)
    return figure("Who shares with whom", drawn, note=note)


def _facts(run: StoredRun) -> Markup:
    """Return numbers of the whole run."""
    facts, users = run.facts, run.tables["users"]
    roles = {role: users["status"].count(role) for role in dict.fromkeys(users["status"])}
    left_out = {role: count for role, count in roles.items() if role not in ("head", "member", "served")}
    entries = {
        "heads": f"{facts.heads:,}",
        "users that receive": f"{facts.members:,}",
        "users left out": _left_out(left_out),
        "average EMD": f"{number(facts.emd_before)} → {number(facts.emd_after)}",
        "mean JS divergence": f"{number(facts.js_before)} → {number(facts.js_after)} nats",
        "shift of the global label distribution": number(facts.shift),
        "sharing": _cost(facts.sharing_s, facts.sharing_j, facts.sharing_bytes),
        "a round": _cost(facts.round_s, facts.round_j, facts.round_bytes),
        "expected by the plan": _expected(run),
        "accuracy of the worst tenth": percent(run.history.records[-1].worst_accuracy),
    }
    rows = [tag("div", tag("dt", name), tag("dd", value)) for name, value in entries.items()]
    return figure("In numbers", tag("dl", *rows, class_="facts"))


def _cost(seconds: float, joules: float, sent_bytes: float) -> str:
    return ", ".join([quantity(seconds, "s"), quantity(joules, "J"), quantity(sent_bytes, "B")])


def _left_out(counts: dict[str, int]) -> str:
    total = sum(counts.values())
    if not total:
        return "none"
    return f"{total:,} (" + ", ".join(f"{count:,} {role}" for role, count in counts.items()) + ")"


def _expected(run: StoredRun) -> str:
    if run.plan is None:
        return "nothing was planned"
    plan = run.plan
    if plan.rounds is None or plan.delay is None:
        return "not predicted"
    expected = f"{pluralize(round(plan.rounds), 'round')}, {quantity(plan.delay.total_s, 's')}"
    return f"{expected} (fit {plan.fit}, form {plan.form})"


def _classes(run: StoredRun) -> Markup:
    wide, narrow = class_change_of(run), class_change_of(run, _USERS_ON_A_PHONE)
    classes = ""
    if wide.num_classes > len(wide.classes):
        classes = f"The {MAX_CLASSES} most common of {wide.num_classes} classes. "
    key = colour_key([("s1", "own samples"), ("s2", "received")])
    pictures = []
    for shown, width, look in ((wide, _WIDE, "wide"), (narrow, _NARROW, "narrow")):
        users = _evenly(len(shown.users), shown.num_users, "their numbers")
        note = f"{users}{classes}The area of a dot is the number of samples."
        drawn = picture(class_change_figure(shown, width=width, tips=_class_tips(shown)), "classes", data_nearest="x")
        pictures.append(tag("div", drawn, tag("p", note, class_="note"), class_=look))
    return figure("Classes before and after sharing", key, *pictures)


def _class_tips(shown: ClassChange) -> list[str]:
    tips = []
    for user, before, after in zip(shown.users.tolist(), shown.before, shown.after, strict=True):
        gained = np.maximum(after - before, 0)
        received = f"received {_listed(gained, shown)}" if gained.any() else "received nothing"
        tips.append(f"User {user}\nholds {_listed(before, shown)}\n{received}")
    return tips


def _listed(counts: Ints, shown: ClassChange) -> str:
    """Format counts, for example: 14 of class 3, 2 of class 7."""
    held = np.flatnonzero(counts)
    return ", ".join(f"{counts[place]} of class {shown.classes[place]}" for place in held.tolist()) or "nothing"


def _emd(run: StoredRun) -> Markup:
    shown, facts = emd_change_of(run), run.facts
    means = f"before, {number(facts.emd_before)} on average", f"after sharing, {number(facts.emd_after)} on average"
    key = colour_key(zip(("ringed", "s1"), means, strict=True))
    note = "Dashed: averages. 0: the user's label distribution is the global one; 2: disjoint."
    drawn = emd_figure(shown, facts.emd_before, facts.emd_after, tips=_emd_tips(shown, _roles_of(run)))
    return figure(
        "Distance of each user from the global label distribution",
        key,
        picture(drawn, "emd", data_nearest="x"),
        note=_evenly(len(shown.users), shown.num_users) + note,
    )


def _emd_tips(shown: UserValues, roles: Sequence[str]) -> list[str]:
    tips = []
    for user, before, after in zip(shown.users.tolist(), *shown.values.tolist(), strict=True):
        change = f"{number(before, _EMD_DECIMALS)}, unchanged"
        if abs(before - after) > 1e-9:
            change = _change_text(before, after)
        tips.append(f"User {user}, {roles[user]}\nEMD {change}")
    return tips


def _change_text(before: float, after: float) -> str:
    first, second, change = (number(value, _EMD_DECIMALS) for value in (before, after, after - before))
    return f"{first} → {second} ({change})"


def _energy(run: StoredRun) -> Markup:
    shown = user_energy_of(run)
    note = _evenly(len(shown.users), shown.num_users) + "Computing and upload, without sharing."
    drawn = picture(
        energy_figure(shown, energy_budget_of(run), tips=_energy_tips(shown, _roles_of(run))),
        "energy",
        data_nearest="x",
    )
    return figure("Energy of each user", drawn, note=note)


def _energy_tips(shown: UserValues, roles: Sequence[str]) -> list[str]:
    return [
        f"User {user}, {roles[user]}\n{quantity(joules, 'J')} in a round" if joules else f"User {user} does not train"
        for user, joules in zip(shown.users.tolist(), shown.values[0].tolist(), strict=True)
    ]


def _evenly(shown: int, count: int, order: str = "this order") -> str:
    return f"{shown:,} of {count:,} users, evenly over {order}. " if shown < count else ""


_TITLES = (
    "head", "members", "samples to each", "copies", "of its data", "members' EMD", "slowest link",
)  # fmt: skip


def _ledger(run: StoredRun) -> Markup:
    """Return what left its owner: numbers of the whole run, then one row per head."""
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


def _roles_of(run: StoredRun) -> list[str]:
    """Return the role of each user."""
    users = run.tables["users"]
    return [
        f"member of head {head}" if head is not None else status
        for status, head in zip(users["status"], users["head"], strict=True)
    ]


def _map_tips(run: StoredRun, users: Ints) -> list[str]:
    """Return one text per user, its first line a title: why it is a head, what it gained, or why it was left out."""
    heads = {row["head"]: row for row in _rows(run.tables["heads"])}
    table = run.tables["users"]
    num_users = len(table["user"])
    tips = []
    for user in users.tolist():
        row = {name: values[user] for name, values in table.items()}
        lines = _head_tip(row, heads[user], num_users) if user in heads else _other_tip(row)
        tips.append("\n".join(lines))
    return tips


def _rows(table: dict[str, list[Any]]) -> Iterable[dict[str, Any]]:
    return (dict(zip(table, values, strict=True)) for values in zip(*table.values(), strict=True))


def _head_tip(user: dict[str, Any], head: dict[str, Any], num_users: int) -> list[str]:
    lines = [
        f"User {user['user']}, head of {pluralize(head['members'], 'member')}",
        f"why: {head['why']}",
        f"EMD {number(head['emd'], _EMD_DECIMALS)}, rank {head['emd_rank']} of {num_users:,}; "
        f"linked to {pluralize(head['reaches'], 'user')}",
        f"sends {pluralize(int(head['shared']), 'sample')} to each, {percent(user['revealed_share'])} of its own",
        f"members' mean EMD {number(head['mean_emd_before'], _EMD_DECIMALS)} → "
        f"{number(head['mean_emd_after'], _EMD_DECIMALS)}",
    ]
    if head["worst_rate_bps"] is not None:
        lines.append(f"slowest link {quantity(head['worst_rate_bps'], 'bit/s')}")
    return lines


def _other_tip(user: dict[str, Any]) -> list[str]:
    before, after, received = user["emd_before"], user["emd_after"], int(user["received"])
    role = f"member of head {user['head']}" if user["head"] is not None else user["status"]
    if not received:
        return [
            f"User {user['user']}, {role}",
            user["reason"] if user["head"] is None else "gained nothing: its head shares no sample",
            f"holds {pluralize(user['samples'], 'sample')}, EMD {number(before, _EMD_DECIMALS)}",
        ]
    lines = [
        f"User {user['user']}, {role}{' by the server' if user['head'] is None else ''}",
        f"gained {pluralize(received, 'sample')}: {user['samples']:,} → {user['samples'] + received:,}",
        f"EMD {_change_text(before, after)}",
    ]
    if user["rate_bps"] is not None:
        closeness = "" if user["closeness"] is None else f", closeness {number(user['closeness'], 2)}"
        lines.append(f"link {quantity(user['rate_bps'], 'bit/s')}{closeness}")
    return lines
