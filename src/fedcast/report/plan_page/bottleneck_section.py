"""The section about bottlenecks: who sets the time of sharing and of a round, and what would relieve them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fedcast.formatting import percent, quantity
from fedcast.plan import Bottleneck, TaskDelays, saved
from fedcast.report.figures.training import PART_COLOURS, PARTS, delay_figure
from fedcast.report.html import Markup, colour_key, figure, scrolled, section, table, tag, with_code
from fedcast.report.plan_page.plan_content import PlanContent
from fedcast.report.svg import picture

_LEAST_SHOWN = 5e-4
_NAMED = 3
_SETS = {
    "sharing": "sharing",
    "download": "download of a round",
    "round": "end of a round",
    "compute": "longest compute",
    "upload": "longest upload",
}


def bottleneck_section(content: PlanContent) -> Markup:
    """Return who sets the time, how much faster it would be without each of them, and what would relieve them."""
    found = content.bottlenecks
    rows = [_row(content, part) for part in found.parts]
    titles = ("user", "sets", "takes", "without this user", "what would relieve it")
    measure = "the task" if found.planned.task_s is not None else "sharing and a round"
    rest = (
        "for the same clusters, with volumes and local epochs chosen anew" if found.adapted else "all else as planned"
    )
    below = f"Per cent are of the time of {measure}: {rest}. Without a user there are fewer samples, too. "
    below += "`fedcast plan --without NAME` makes a new plan."
    return section(
        "bottleneck",
        "The bottleneck",
        *(tag("p", line, class_="said") for line in _said(content)),
        tag("div", *_figures(content), class_="two"),
        tag("h3", "User by user"),
        scrolled(table(titles, rows, "words relief"), "Users that set the time"),
        tag("p", with_code(below), class_="note"),
        *_together(content),
    )


def _said(content: PlanContent) -> Iterator[str]:
    """Yield who costs most, and what ends sharing and a round, in words."""
    found = content.bottlenecks
    worst, what = found.worst, "the task" if found.planned.task_s is not None else "sharing and a round"
    if worst is None or worst.without is None:
        yield f"No single user makes {what} longer: others would take its place."
    else:
        name, without = content.name(worst.user), _change(found.planned, worst.without)
        line = f"{name} costs most: without it {what} would take {without}"
        if best := next(iter(worst.reliefs.items()), None):
            line += f", with {best[0]} {_change(found.planned, best[1])}"
        yield f"{line}."
    if len(found.heads):
        head, member = content.name(int(found.heads[0])), content.name(int(found.slowest_members[0]))
        rate = content.table["rate_bps"][int(found.slowest_members[0])]
        at = "" if rate is None else f" at {quantity(rate, 'bit/s')}"
        follows = (
            f"; next {content.name(int(found.heads[1]))} with {quantity(found.multicast_s[1], 's')}"
            if len(found.heads) > 1
            else ""
        )
        yield f"Sharing ends with {head}, which sends to {member}{at}: {quantity(found.multicast_s[0], 's')}{follows}."
    seconds = found.phases_s.sum(axis=1)
    phases = zip(("download", "compute", "upload"), found.phases_s[0], strict=True)
    parts = ", ".join(f"{name} {quantity(time, 's')}" for name, time in phases)
    line = f"A round waits for {content.name(int(found.slowest[0]))}: {quantity(seconds[0], 's')} ({parts})"
    if len(seconds) > 1:
        gap = quantity(seconds[0] - seconds[1], "s")
        line += f". {content.name(int(found.slowest[1]))} finishes {gap} before it"
    yield f"{line}."


def _figures(content: PlanContent) -> Iterator[Markup]:
    found = content.bottlenecks
    key = colour_key((f"s{place}", part) for place, part in zip(PART_COLOURS[1:], PARTS[1:], strict=True))
    rounds = np.column_stack([np.zeros(len(found.slowest)), found.phases_s])
    names = [content.name(user) for user in found.slowest.tolist()]
    drawn = delay_figure(names, rounds, x_label="seconds of a round")
    below = "Download, compute and upload of the users that finish last."
    yield figure("Who finishes a round last", key, picture(drawn, "slowest"), below=below)
    if not len(found.heads):
        return
    pairs = zip(found.heads.tolist(), found.slowest_members.tolist(), strict=True)
    names = [f"{content.name(head)} → {content.name(member)}" for head, member in pairs]
    seconds = np.column_stack([found.multicast_s, np.zeros((len(found.heads), 3))])
    drawn = delay_figure(names, seconds, x_label="seconds of sharing")
    below = "Heads send at the same time, each as fast as its slowest member receives, which is named."
    yield figure("Who shares longest", picture(drawn, "multicasts"), below=below)


def _row(content: PlanContent, part: Bottleneck) -> tuple[object, ...]:
    planned, peer = content.bottlenecks.planned, part.peer
    sets: object = _SETS[part.part]
    if peer is not None:
        leads = int(content.plan.head_of[part.user]) < 0
        other = f"its slowest member: {content.name(peer)}" if leads else f"the slowest member of {content.name(peer)}"
        sets = tag("span", _SETS[part.part], tag("small", other))
    reliefs: object = "nothing alone: others would take its place"
    if part.reliefs:
        entries = [tag("li", f"{name}: ", change(planned, outcome)) for name, outcome in part.reliefs.items()]
        reliefs = tag("ul", *entries)
    without = "nobody else trains" if part.without is None else change(planned, part.without)
    return content.name(part.user), sets, quantity(part.seconds, "s"), without, reliefs


def change(planned: TaskDelays, changed: TaskDelays) -> Markup:
    """Return the delay with a change, and by how much it is shorter or longer."""
    share = saved(planned, changed)
    look = "same" if abs(share) < _LEAST_SHOWN else "better" if share > 0 else "worse"
    return tag("span", _change(planned, changed), class_=look)


def _change(planned: TaskDelays, changed: TaskDelays) -> str:
    if planned.task_s is not None and changed.task_s is None:
        return "target not reachable"
    share = saved(planned, changed)
    if abs(share) < _LEAST_SHOWN:
        return "no change"
    shown = changed.sharing_s + changed.round_s if changed.task_s is None else changed.task_s
    return f"{quantity(shown, 's')} ({'−' if share > 0 else '+'}{percent(abs(share))})"


def _together(content: PlanContent) -> list[Markup]:
    found = content.bottlenecks
    if not found.together:
        return []
    names = list(next(iter(found.together.values())))
    rows = []
    for count, outcomes in found.together.items():
        few = ", ".join(content.name(user) for user in found.slowest[: min(count, _NAMED)].tolist())
        more = f" and {count - _NAMED} more" if count > _NAMED else ""
        who = tag("span", f"the slowest {count}", tag("small", few + more))
        cells = [change(found.planned, outcomes[name]) if name in outcomes else "nobody else trains" for name in names]
        rows.append((who, *cells))
    box = scrolled(table(("users", *names), rows, "words together"), "The slowest users relieved together")
    return [tag("h3", "The slowest users of a round together"), box]
