"""One mark per user: its distance from the whole before and after sharing, and its energy."""

from __future__ import annotations

from collections.abc import Sequence

from fedcast.formatting import number, quantity, unit_for
from fedcast.report.figures.emd_change import LARGEST_EMD, EmdChange
from fedcast.report.figures.user_energy import UserEnergy
from fedcast.report.markup import Markup, empty_tag, tag
from fedcast.report.old_svg import LOW_BOTTOM, Frame, bar, frame, level, plot, ticks, upper_end, x_axis, y_axis

_EMD_DECIMALS = 3


def emd_plot(shown: EmdChange, roles: Sequence[str], mean_before: float, mean_after: float) -> Markup:
    """A ring before and a dot after sharing, joined, one pair per user; averages as lines, without words in the way."""
    place = _one_column_each(len(shown.users), LARGEST_EMD)
    pairs = []
    middles = place.x([column + 0.5 for column in range(len(shown.users))]).tolist()
    for column, user in enumerate(shown.users.tolist()):
        before, after = float(shown.before[column]), float(shown.after[column])
        pairs.append(_pair(place, middles[column], before, after, _emd_tip(user, roles[user], before, after)))
    marks = [
        y_axis(place, ticks(0.0, LARGEST_EMD, 4), "EMD"),
        x_axis(place, [], "users, by EMD before sharing"),
        *pairs,
        level(place, mean_before),
    ]
    if abs(mean_before - mean_after) > 1e-9:
        marks.append(tag("g", level(place, mean_after), class_="after-level"))
    says = f"EMD of users before and after sharing; on average {mean_before:.3f} before and {mean_after:.3f} after"
    return plot(place, *marks, name="emd", says=says, data_nearest="x")


def _pair(place: Frame, x: float, before: float, after: float, tip: str) -> Markup:
    top, bottom = place.y([before, after]).tolist()
    changed = abs(before - after) > 1e-9
    stem = [empty_tag("line", x1=x, x2=x, y1=top, y2=bottom, class_="stem")] if changed else []
    ring = empty_tag("circle", cx=x, cy=top, r=2.0, class_="before")
    dot = empty_tag("circle", cx=x, cy=bottom, r=2.0, class_="after")
    return tag("g", *stem, ring, dot, class_="mark pair", data_tip=tip)


def _emd_tip(user: int, role: str, before: float, after: float) -> str:
    title = f"User {user}, {role}"
    if abs(before - after) <= 1e-9:
        return f"{title}\nEMD {number(before, _EMD_DECIMALS)}, unchanged"
    first, second = number(before, _EMD_DECIMALS), number(after, _EMD_DECIMALS)
    return f"{title}\nEMD {first} → {second} ({number(after - before, _EMD_DECIMALS)})"


def energy_plot(shown: UserEnergy, roles: Sequence[str]) -> Markup:
    """Bars in order of energy, and the budget as a line."""
    largest = max(float(shown.joules.max(initial=0.0)), shown.budget_j or 0.0)
    scale, unit = unit_for(largest, "J")
    end = upper_end([largest / scale])
    place = _one_column_each(len(shown.users), end)
    bars = []
    for column, (user, joules) in enumerate(zip(shown.users.tolist(), shown.joules.tolist(), strict=True)):
        tip = (
            f"User {user}, {roles[user]}\n{quantity(joules, 'J')} in a round"
            if joules
            else f"User {user} does not train"
        )
        bars.append(_energy_bar(place, column, joules / scale, tip))
    marks = [
        y_axis(place, ticks(0.0, end), f"{unit} in a round"),
        x_axis(place, [], "users, by energy"),
        *bars,
    ]
    if shown.budget_j is not None:
        marks.append(level(place, shown.budget_j / scale, f"budget {quantity(shown.budget_j, 'J')}", at_end=True))
    says = f"Energy of users in a round, up to {quantity(largest, 'J')}"
    return plot(place, *marks, name="energy", says=says, data_nearest="x")


def _energy_bar(place: Frame, column: int, height: float, tip: str) -> Markup:
    left, right = place.x([column + 0.1, column + 0.9]).tolist()
    top = float(place.y(height))
    return bar(left, top, right - left, place.y.start - top, class_="mark s1", data_tip=tip)


def _one_column_each(users: int, highest: float) -> Frame:
    return frame((0.0, float(users)), (0.0, highest), bottom=LOW_BOTTOM)
