"""A run from inside: who shares with whom and why, what it did to the data, what it cost each user, who saw what."""

from __future__ import annotations

from fedcast.formatting import number, percent, pluralize, quantity
from fedcast.report.content import Content
from fedcast.report.figures.class_change import MAX_CLASSES
from fedcast.report.markup import Markup, join, tag
from fedcast.report.plots.classes import NARROW, WIDE, classes_plot
from fedcast.report.plots.clusters import map_plot
from fedcast.report.plots.users import emd_plot, energy_plot
from fedcast.report.sections.ledger import ledger_part
from fedcast.report.sections.parts import colour_key, figure
from fedcast.report.sections.tips import roles_of, tips_of
from fedcast.report.shown import class_change_of, cluster_map_of, emd_change_of, user_energy_of
from fedcast.runs.store import StoredRun

_USERS_ON_A_PHONE = 40


def inside_section(content: Content) -> Markup:
    """The choice of a run, and everything about the chosen one."""
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
            ledger_part(run),
        ]
    )


def _map(content: Content, run: StoredRun) -> Markup:
    shown = cluster_map_of(run, content.users_on_map)
    part = ""
    if len(shown.users) < shown.num_users:
        part = f"The {len(shown.users):,} of {shown.num_users:,} users nearest the middle. "
    note = f"{part}Large dots are heads, grey ones are alone. Point at a user, tap it, or use arrow keys for its story."
    return figure("Who shares with whom", map_plot(shown, tips_of(run, shown.users)), note=note)


def _facts(run: StoredRun) -> Markup:
    """Figures about the whole run, beside the map."""
    facts, users = run.facts, run.tables["users"]
    roles = {role: users["status"].count(role) for role in dict.fromkeys(users["status"])}
    left_out = {role: count for role, count in roles.items() if role not in ("head", "member", "served")}
    entries = {
        "heads": f"{facts.heads:,}",
        "users that receive": f"{facts.members:,}",
        "users left out": _left_out(left_out),
        "average EMD": f"{number(facts.emd_before)} → {number(facts.emd_after)}",
        "mean JS divergence": f"{number(facts.js_before)} → {number(facts.js_after)} nats",
        "shift of the overall mixture": number(facts.shift),
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
    expected = f"{pluralize(round(plan.rounds), 'round')}, {quantity(plan.delay.total_s, 's')}"
    return f"{expected} (fit {plan.fit}, form {plan.form})"


def _classes(run: StoredRun) -> Markup:
    wide, narrow = class_change_of(run), class_change_of(run, _USERS_ON_A_PHONE)
    classes = ""
    if wide.num_classes > len(wide.classes):
        classes = f"The {MAX_CLASSES} most common of {wide.num_classes} classes. "
    key = colour_key([("s1", "own samples"), ("s2", "received")])
    pictures = []
    for shown, width, look in ((wide, WIDE, "wide"), (narrow, NARROW, "narrow")):
        users = _evenly(len(shown.users), shown.num_users, "their numbers")
        note = f"{users}{classes}The area of a dot is the number of samples."
        pictures.append(tag("div", classes_plot(shown, width), tag("p", note, class_="note"), class_=look))
    return figure("Classes before and after sharing", key, *pictures)


def _emd(run: StoredRun) -> Markup:
    shown, facts = emd_change_of(run), run.facts
    means = f"before, {number(facts.emd_before)} on average", f"after sharing, {number(facts.emd_after)} on average"
    key = colour_key(zip(("ringed", "s1"), means, strict=True))
    note = "Dashed: averages. 0: the user's mix of classes is that of all data; 2: disjoint."
    note = _evenly(len(shown.users), shown.num_users) + note
    return figure(
        "Distance of each user from the whole",
        key,
        emd_plot(shown, roles_of(run), facts.emd_before, facts.emd_after),
        note=note,
    )


def _energy(run: StoredRun) -> Markup:
    shown = user_energy_of(run)
    note = _evenly(len(shown.users), shown.num_users) + "Computing and upload; sharing is not in it."
    return figure("Energy of each user", energy_plot(shown, roles_of(run)), note=note)


def _evenly(shown: int, count: int, order: str = "this order") -> str:
    return f"{shown:,} of {count:,} users, evenly over {order}. " if shown < count else ""
