"""The tables of a plan's page: users, rules, who is left out, what is assumed, and how to reproduce it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import Any

from fedcast.clustering import from_server
from fedcast.formatting import number, percent, pluralize, quantity, relative_change, sentence
from fedcast.report.html import Markup, empty_tag, note, scrolled, section, table, tag, with_code
from fedcast.report.plan_page.plan_content import MAX_LEFT_OUT, PlanContent
from fedcast.report.scenario_table import differences, differences_table, whole_scenario
from fedcast.runs import versions
from fedcast.scenario import named_files

_ROLES = ("head", "member", "alone", "not trained")
_DIGEST_SHOWN = 16
_COLUMNS = (
    "user", "role", "head", "own samples", "received", "EMD before", "EMD after", "link from head", "a round",
    "energy of a round", "frequency", "local epochs",
)  # fmt: skip


def users_section(content: PlanContent) -> Markup:
    """Return the table of users, which the page's script sorts and filters."""
    shown, count = content.users_shown, content.plan.num_users
    heads = [tag("th", tag("button", title, type="button"), scope="col") for title in _COLUMNS]
    body = [_user_row(content, user) for user in shown.tolist()]
    users = tag("table", tag("thead", tag("tr", *heads)), tag("tbody", *body), class_="numbers", data_sortable=True)
    options = [
        tag("option", text, value=value) for value, text in (("", "all roles"), *((role, role) for role in _ROLES))
    ]
    filters = tag(
        "div",
        tag("label", "Find ", empty_tag("input", type="search", placeholder="name or head", data_find=True)),
        tag("label", "Role ", tag("select", *options, data_role=True)),
        tag("span", pluralize(len(shown), "user"), class_="note", data_count=True, aria_live="polite"),
        class_="filters",
    )
    below = (
        "Received: samples from its head. EMD: distance from the global label distribution, 0 to 2. A round: from the "
        "download to the end of its upload. Click a title to sort."
    )
    if len(shown) < count:
        below = (
            f"{len(shown):,} of {count:,} users: those of the bottleneck, heads with most members, and users with the "
            f"longest rounds. `fedcast plan … --table users.csv` writes all of them. {below}"
        )
    box = scrolled(users, "Users", tall=True)
    return section("users", "Users", filters, box, tag("p", with_code(below), class_="note"))


def _user_row(content: PlanContent, user: int) -> Markup:
    plan, columns = content.plan, {name: values[user] for name, values in content.table.items()}
    head, trains = int(plan.head_of[user]), bool(plan.trained[user])
    rate, seconds = columns["rate_bps"], columns["round_s"]
    cells: tuple[tuple[Any, str], ...] = (
        (columns["role"], str(columns["role"])),
        ("" if head < 0 else content.name(head), "–" if head < 0 else content.name(head)),
        (columns["samples"], f"{columns['samples']:,}"),
        (columns["received_samples"], f"{columns['received_samples']:,}"),
        (columns["emd_before"], number(columns["emd_before"], 3)),
        (columns["emd_after"], number(columns["emd_after"], 3)),
        (rate, "–" if rate is None else quantity(rate, "bit/s")),
        (seconds, "–" if seconds is None else quantity(seconds, "s")),
        (columns["energy_j"] if trains else None, quantity(columns["energy_j"], "J") if trains else "–"),
        (columns["frequency_hz"] if trains else None, quantity(columns["frequency_hz"], "Hz") if trains else "–"),
        (plan.local_epochs if trains else 0, str(plan.local_epochs if trains else 0)),
    )
    tds = [tag("td", text, data_value=_sort_key(value)) for value, text in cells]
    roles = f"{columns['role']}{'' if trains else ' not trained'}"
    # Users without names are sorted by their ids.
    name = tag("th", content.name(user), scope="row", data_value=user if plan.names is None else None)
    return tag("tr", name, *tds, data_roles=roles)


def _sort_key(value: Any) -> object:
    """Return the number that a cell is sorted by; None: its text."""
    if value is None:
        return ""
    return None if isinstance(value, str) else f"{float(value):.9g}"


def rules_section(content: PlanContent) -> Markup:
    """Return what each rule would give, or that one rule was planned alone."""
    plan, title = content.plan, "Rules compared"
    if not plan.rules:
        alone = f"Planned with rule {plan.rule} alone. With clustering.rule = best every rule is planned and compared."
        return section("rules", title, note(alone))
    fastest, rows = plan.delay_s, []
    for one in sorted(plan.rules, key=lambda one: inf if one.delay_s is None else one.delay_s):
        chosen = one.rule == plan.rule
        name = tag("span", one.rule, *([tag("small", "chosen")] if chosen else []))
        if one.delay_s is None or one.rounds is None or fastest is None:
            rows.append((name, "target not reachable", *["–"] * 4))
            continue
        more = "–" if chosen else relative_change(fastest, one.delay_s)
        ratio = "–" if one.average_sharing_ratio is None else percent(one.average_sharing_ratio)
        rows.append((name, quantity(one.delay_s, "s"), more, number(one.rounds), str(one.local_epochs), ratio))
    titles = ("rule", "task", "against the plan", "rounds", "local epochs", "average sharing ratio")
    rate = content.plan.scenario.training.learning_rate
    below = f"The best plan of every rule at learning rate {rate:g}, each with its own volumes and local epochs."
    for rule in filter(from_server, (one.rule for one in plan.rules)):
        below += f" {rule}: the server sends samples that it must first have; a plan does not choose this by itself."
    return section("rules", title, scrolled(table(titles, rows), title), note(below))


def left_out_section(content: PlanContent) -> Markup:
    """Return whom the plan leaves out of sharing or training, and why."""
    title = "Left out"
    total = sum(content.left_out_for.values())
    if not total:
        said = (
            "Everyone sends or receives samples, and trains." if content.shares else "Nobody shares; everyone trains."
        )
        return section("left-out", title, note(said))
    reasons = [tag("li", f"{pluralize(count, 'user')}: {reason}") for reason, count in content.left_out_for.items()]
    titles = (
        "user",
        "in a cluster",
        "trains",
        "linked to",
        "refused: trust",
        "refused: rate",
        "consent",
        "energy",
        "why",
    )
    rows = [
        (
            content.name(one.user),
            _yes(one.in_cluster),
            _yes(one.trains),
            f"{one.linked:,}",
            "–" if one.untrusted is None else f"{one.untrusted:,}",
            "–" if one.too_slow is None else f"{one.too_slow:,}",
            percent(one.consent),
            "enough" if one.energy_missing_j <= 0 else f"{quantity(one.energy_missing_j, 'J')} missing",
            "; ".join(one.why),
        )
        for one in content.left_out
    ]
    below = (
        "Links: users that meet the thresholds of rate and trust. Refused: users that a threshold rules out. "
        "Consent: the largest share of its samples that a user agrees to share."
    )
    if total > len(rows):
        below = f"The first {MAX_LEFT_OUT:,} of {total:,}. {below}"
    summary = [tag("ul", *reasons, class_="reasons")] if len(reasons) > 1 else []
    box = scrolled(table(titles, rows, "words left"), "Users left out", tall=True)
    return section("left-out", title, *summary, box, note(below))


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def assumed_section(content: PlanContent) -> Markup:
    """Return what no table and no parameter gives, and notes on the prediction."""
    plan, parts = content.plan, []
    if plan.assumptions:
        parts.append(tag("ul", *(tag("li", with_code(text)) for text in plan.assumptions), class_="reasons"))
        parts.append(note("In brackets: what would give it."))
    else:
        parts.append(note("Nothing: tables and parameters give everything."))
    remarks = dict.fromkeys(sentence(text) for text in plan.notes)
    if lines := [tag("li", with_code(text)) for text in remarks if text not in plan.assumptions]:
        parts += [tag("h3", "Notes on the prediction"), tag("ul", *lines, class_="reasons")]
    return section("assumed", "What is assumed", *parts)


def reproduce_section(content: PlanContent) -> Markup:
    """Return scenario, command, tables and versions."""
    scenario = content.plan.scenario
    used = {name: text for name, text in versions().items() if name != "torch"}
    boxes = [scrolled(table(("package", "version"), used.items(), "words"), "Versions")]
    if tables := list(_tables(content)):
        boxes.insert(0, scrolled(table(("table", "SHA-256"), tables, "words"), "Tables"))
    return section(
        "reproduce",
        "How to reproduce",
        tag("p", "Save all parameters below as ", tag("code", "scenario.toml"), ", then:"),
        tag("pre", tag("code", "fedcast plan scenario.toml --report plan.html --json plan.json --table users.csv")),
        note("The same parameters, tables and versions give the same plan. Different from the defaults:"),
        differences_table(differences(scenario)),
        whole_scenario(scenario),
        tag("div", *boxes, class_="two boxes"),
    )


def _tables(content: PlanContent) -> Iterator[tuple[object, object]]:
    """Yield the names of the scenario's files, and the start of their digests."""
    for path in dict.fromkeys(map(Path, named_files(content.plan.scenario))):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        yield tag("code", path.name), tag("code", f"{digest[:_DIGEST_SHOWN]}…", title=digest)
