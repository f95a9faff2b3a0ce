"""The section about single runs: who shares with whom and why, what that changes, and what each user reveals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fedcast.formatting import SPACE, number, percent, pluralize, quantity
from fedcast.report.content import MAX_INSIDE, Content
from fedcast.report.figures.maps import cluster_figure
from fedcast.report.figures.users import ClassChange, UserValues, class_change_figure, emd_figure, energy_figure
from fedcast.report.html import Markup, cards, colour_key, figure, note, scrolled, section, table, tag
from fedcast.report.run_figures import class_change_of, cluster_map_of, emd_change_of, user_energy_of, user_names
from fedcast.report.svg import picture
from fedcast.runs import StoredRun, fine_tuned_measures
from fedcast.typing import Ints

_Namer = Callable[[int], str]
_USERS_ON_A_PHONE = 40
# Widths of the map and of the figure of classes, in units of their view boxes.
_MAP, _WIDE, _NARROW = 440.0, 920.0, 440.0
_MAX_HEADS = 30
_NOISE = {
    "seeded": "Samples are generated; their noise repeats with the seed, as a simulation needs it.",
    "secure": "Samples are generated; their noise is from the operating system's randomness.",
}


def run_section(contents: Sequence[Content]) -> Markup:
    """Return the section of single runs: the choice of a run, and everything about the chosen one."""
    runs = [(content, run) for content in contents for run in content.inside][:MAX_INSIDE]
    sharing = [pair for pair in runs if pair[1].facts.received_samples > 0] or runs
    best = (pair for pair in sharing if pair[0].scores[pair[1]].strategy == pair[0].best.strategy)
    first = next(best, sharing[0])
    choice, options, parts = note(first[0].name_of(first[1])), [], []
    for place, (content, run) in enumerate(runs):
        is_first = run is first[1] and content is first[0]
        options.append(tag("option", content.name_of(run), value=place, selected=is_first))
        figures = (
            tag("div", _map(content, run), _facts(run), class_="two"), _classes(content, run),
            tag("div", _emd(run), _energy(run), class_="two"), _ledger(run),
        )  # fmt: skip
        parts.append(tag("div", *figures, class_="run", data_run=place, hidden=not is_first))
    if len(runs) > 1:
        count = len({run.folder for content in contents for run in content.runs})
        some = [tag("span", f"{len(runs)} of {count} runs", class_="note")] if len(runs) < count else []
        choice = tag("label", "Run ", tag("select", *options, id="run"), *some, class_="choice")
    return section("inside", "Inside a run", choice, *parts)


def _map(content: Content, run: StoredRun) -> Markup:
    shown, count = cluster_map_of(content, run), len(run.tables["users"]["user"])
    part = f"The {len(shown.users):,} of {count:,} users nearest the centre. " if len(shown.users) < count else ""
    where = "Places are not known: the layout is schematic. " if shown.schematic else ""
    below = (
        f"{where}{part}Large dots: heads; grey: in no cluster. Point at a user, tap it, or use arrow keys for details."
    )
    heads = {head["head"]: head for head in _rows(run.tables["heads"])}
    users, name = _rows(run.tables["users"]), _namer(run)
    tips = [
        "\n".join(_head_tip(users[user], heads[user], count, name) if user in heads else _other_tip(users[user], name))
        for user in shown.users.tolist()
    ]
    drawn = picture(cluster_figure(shown, tips=tips, width=_MAP), "map", data_nearest=True)
    return figure("Who shares with whom", drawn, below=below)


def _facts(run: StoredRun) -> Markup:
    """Return numbers of the whole run."""
    facts, status = run.facts, run.tables["users"]["status"]
    roles = {role: status.count(role) for role in dict.fromkeys(status) if role not in ("head", "member", "served")}
    planned = ", planned" if run.measured_s else ""
    left_out = (
        ", ".join(f"{count:,} {role}" for role, count in roles.items()) if run.rule != "none" else "nothing is shared"
    )
    entries = {
        "heads": f"{facts.heads:,}",
        "users that receive": f"{facts.members:,}",
        "users left out": f"{sum(roles.values()):,} ({left_out})" if roles else "none",
        "average EMD": f"{number(facts.emd_before)} → {number(facts.emd_after)}",
        "mean JS divergence": f"{number(facts.js_before)} → {number(facts.js_after)} nats",
        "shift of the global label distribution": number(facts.shift),
        f"sharing{planned}": _cost(facts.sharing_s, facts.sharing_j, facts.sharing_bytes),
        f"a round{planned}": _cost(facts.round_s, facts.round_j, facts.round_bytes),
        **_measured(run),
        "expected by the plan": _expected(run),
        **_users(run),
    }
    rows = [tag("div", tag("dt", name), tag("dd", value)) for name, value in entries.items()]
    return figure("In numbers", tag("dl", *rows, class_="facts"))


def _users(run: StoredRun) -> dict[str, str]:
    """Return mean and worst tenth of users on their own labels, also after fine-tuning."""
    last, tuned = run.history.records[-1], fine_tuned_measures(run)
    found = {"accuracy on own labels, mean of users": last.user_accuracy, "… of the worst tenth": last.worst_accuracy}
    if tuned:
        own, worst, overall = tuned.values()
        found |= {"after fine-tuning, mean of users": own, "after fine-tuning, worst tenth": worst}
        found |= {"after fine-tuning, on all labels": overall}
    return {name: percent(value) for name, value in found.items()}


def _cost(seconds: float, joules: float, sent_bytes: float) -> str:
    return f"{quantity(seconds, 's')}, {quantity(joules, 'J')}, {quantity(sent_bytes, 'B')}"


def _measured(run: StoredRun) -> dict[str, str]:
    """Return how long sharing and a round took on devices, if the run was not simulated."""
    rounds = [seconds for name, seconds in run.measured_s.items() if name.startswith("round ")]
    found = {"sharing, measured on devices": run.measured_s.get("share")}
    found["a round, measured on devices (median)"] = float(np.median(rounds)) if rounds else None
    return {name: quantity(seconds, "s") for name, seconds in found.items() if seconds is not None}


def _expected(run: StoredRun) -> str:
    plan = run.plan
    if plan is None:
        return "nothing was planned"
    if plan.rounds is None or plan.delay is None:
        return "not predicted"
    expected = f"{pluralize(round(plan.rounds), 'round')}, {quantity(plan.delay.total_s, 's')}"
    return f"{expected} (fit {plan.fit}, form {plan.form})"


def _classes(content: Content, run: StoredRun) -> Markup:
    pictures, more = [], "repeated" if content.scores[run].strategy.control else "received"
    for max_users, width, look in ((None, _WIDE, "wide"), (_USERS_ON_A_PHONE, _NARROW, "narrow")):
        shown = class_change_of(run, max_users)
        below = _evenly(shown, "their numbers")
        if shown.num_classes > len(shown.classes):
            below += f"The {len(shown.classes)} most common of {shown.num_classes} classes. "
        tips = _class_tips(shown, more, _namer(run))
        drawn = picture(class_change_figure(shown, width=width, tips=tips), "classes", data_nearest="x")
        below += "The area of a dot is the number of samples."
        pictures.append(tag("div", drawn, note(below), class_=look))
    key = colour_key([("s1", "own samples"), ("s2", more)])
    return figure("Classes before and after sharing", key, *pictures)


def _class_tips(shown: ClassChange, more: str, name: _Namer) -> list[str]:
    def listed(counts: Ints) -> str:
        """Format counts, for example: 14 of class 3, 2 of class 7."""
        held = np.flatnonzero(counts).tolist()
        return ", ".join(f"{counts[place]} of class {shown.classes[place]}" for place in held) or "nothing"

    users = zip(shown.users.tolist(), shown.before, shown.after, strict=True)
    return [
        f"{name(user)}\nholds {listed(before)}\n{more} {listed(np.maximum(after - before, 0))}"
        for user, before, after in users
    ]


def _emd(run: StoredRun) -> Markup:
    shown, name = emd_change_of(run), _namer(run)
    roles = [_role(user, name) for user in _rows(run.tables["users"])]
    before, after = run.facts.emd_before, run.facts.emd_after
    says = f"before, {number(before)} on average", f"after sharing, {number(after)} on average"
    key = colour_key(zip(("ringed", "s1"), says, strict=True))
    below = "Dashed: averages. 0: the user's label distribution is the global one; 2: disjoint."
    tips = [
        f"{name(user)}, {roles[user]}\nEMD {_change_text(*emd)}"
        for user, *emd in zip(shown.users.tolist(), *shown.values.tolist(), strict=True)
    ]
    drawn = picture(emd_figure(shown, before, after, tips=tips), "emd", data_nearest="x")
    title = "Distance of each user from the global label distribution"
    return figure(title, key, drawn, below=_evenly(shown) + below)


def _change_text(before: float, after: float) -> str:
    if abs(before - after) <= 1e-9:
        return f"{number(before, 3)}, unchanged"
    return f"{number(before, 3)} → {number(after, 3)} ({number(after - before, 3)})"


def _energy(run: StoredRun) -> Markup:
    (shown, budget_j), name = user_energy_of(run), _namer(run)
    roles = [_role(user, name) for user in _rows(run.tables["users"])]
    tips = [
        f"{name(user)}, {roles[user]}\n{quantity(joules, 'J')} in a round" if joules else f"{name(user)} does not train"
        for user, joules in zip(shown.users.tolist(), shown.values[0].tolist(), strict=True)
    ]
    drawn = picture(energy_figure(shown, budget_j, tips=tips), "energy", data_nearest="x")
    return figure("Energy of each user", drawn, below=_evenly(shown) + "Computing and upload, without sharing.")


def _evenly(shown: UserValues | ClassChange, order: str = "this order") -> str:
    users = len(shown.users)
    return f"{users:,} of {shown.num_users:,} users, evenly over {order}. " if users < shown.num_users else ""


def _ledger(run: StoredRun) -> Markup:
    """Return what left its owner: numbers of the whole run, then one row per head."""
    facts, heads = run.facts, _rows(run.tables["heads"])
    if not facts.received_samples:
        return figure("Privacy ledger", below="No sample left its owner.")
    shown = {
        "samples that left their owner": f"{facts.distinct_samples:,}",
        "users that received some": f"{facts.members:,}",
        "copies received": f"{facts.received_samples:,}",
        "largest share of a user's data revealed": percent(facts.largest_revealed_share),
        "average sharing ratio": percent(facts.average_sharing_ratio),
    }
    if run.privacy is not None:
        kept = ("users that received some", "copies received")
        shown = {
            "largest privacy loss ε of a head": f"{run.privacy.epsilon:.3g}",
            "at δ": f"{run.privacy.delta:g}",
            "noise": run.privacy.noise,
            **{name: shown[name] for name in kept},
        }
    parts = [cards((name, value, "") for name, value in shown.items())]
    if not heads:
        below = "The server sent the same samples to every user."
        return figure("Privacy ledger", *parts, below=below, class_="ledger")
    titles = ("head", "members", "samples to each", "copies", "of its data", "members' EMD", "slowest link")
    revealed, name = run.tables["users"]["revealed_share"], _namer(run, f"user{SPACE}")
    rows = [
        (
            name(head["head"]),
            f"{head['members']:,}",
            f"{int(head['shared']):,}",
            f"{int(head['shared']) * head['members']:,}",
            percent(revealed[head["head"]]),
            f"{number(head['mean_emd_before'], 3)} → {number(head['mean_emd_after'], 3)}",
            "–" if head["worst_rate_bps"] is None else quantity(head["worst_rate_bps"], "bit/s"),
        )
        for head in heads[:_MAX_HEADS]
    ]
    below = "Heads in order of what they bring: by how much their members' gains lower the average EMD."
    if run.privacy is not None:
        below = f"{_NOISE.get(run.privacy.noise, '')} {below}"
    if len(heads) > _MAX_HEADS:
        below = f"The first {_MAX_HEADS} of {pluralize(len(heads), 'head')}. {below}"
    parts.append(scrolled(table(titles, rows), "Heads", tall=True))
    return figure("Privacy ledger", *parts, below=below, class_="ledger")


def _rows(table: dict[str, list[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(table, values, strict=True)) for values in zip(*table.values(), strict=True)]


def _namer(run: StoredRun, unnamed: str = "User ") -> _Namer:
    """Return what calls users by their names, or by their numbers if they have none."""
    names = user_names(run)
    return names.__getitem__ if names else lambda user: f"{unnamed}{user}"


def _role(user: dict[str, Any], name: _Namer) -> str:
    return str(user["status"]) if user["head"] is None else f"member of {name(user['head']).replace('User', 'head')}"


def _head_tip(user: dict[str, Any], head: dict[str, Any], num_users: int, name: _Namer) -> list[str]:
    """Return why a user is a head, and what it brings."""
    lines = [
        f"{name(user['user'])}, head of {pluralize(head['members'], 'member')}",
        f"why: {head['why']}",
        f"EMD {number(head['emd'], 3)}, rank {head['emd_rank']} of {num_users:,}; "
        f"linked to {pluralize(head['reaches'], 'user')}",
        f"sends {pluralize(int(head['shared']), 'sample')} to each, {percent(user['revealed_share'])} of its own",
        f"members' mean EMD {number(head['mean_emd_before'], 3)} → {number(head['mean_emd_after'], 3)}",
    ]
    if head["worst_rate_bps"] is not None:
        lines.append(f"slowest link {quantity(head['worst_rate_bps'], 'bit/s')}")
    return lines


def _other_tip(user: dict[str, Any], name: _Namer) -> list[str]:
    """Return what a user gained, or why it was left out."""
    samples, received, by_server = user["samples"], int(user["received"]), user["head"] is None
    if not received:
        return [
            f"{name(user['user'])}, {_role(user, name)}",
            user["reason"] if by_server else "gained nothing: its head shares no sample",
            f"holds {pluralize(samples, 'sample')}, EMD {number(user['emd_before'], 3)}",
        ]
    lines = [
        f"{name(user['user'])}, {_role(user, name)}{' by the server' if by_server else ''}",
        f"gained {pluralize(received, 'sample')}: {samples:,} → {samples + received:,}",
        f"EMD {_change_text(user['emd_before'], user['emd_after'])}",
    ]
    if user["rate_bps"] is not None:
        closeness = "" if user["closeness"] is None else f", closeness {number(user['closeness'], 2)}"
        lines.append(f"link {quantity(user['rate_bps'], 'bit/s')}{closeness}")
    return lines
