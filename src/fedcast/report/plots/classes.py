"""Samples per class and user as dots, before and after sharing."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedcast.formatting import pluralize
from fedcast.report.figures.class_change import ClassChange
from fedcast.report.markup import Markup, empty_tag, join, tag
from fedcast.report.old_svg import RIGHT, Frame, Scale, bar, plot, x_axis

WIDE, NARROW = 920.0, 440.0
_LEFT, _TOP, _GAP, _BOTTOM = 34.0, 26.0, 34.0, 26.0
_ROW = 14.0
_LARGEST_RADIUS = 0.5


def classes_plot(shown: ClassChange, width: float) -> Markup:
    """Two panels; the area of a dot is the number of samples, what was received lies around what was held before."""
    rows = max(len(shown.classes), 1)
    panel = _ROW * rows
    height = _TOP + 2 * panel + _GAP + _BOTTOM
    x = Scale(0.0, float(len(shown.users)), _LEFT, width - RIGHT)
    place = Frame(x, Scale(0.0, 1.0, height - _BOTTOM, _TOP), width, height)
    tops = (_TOP, _TOP + panel + _GAP)
    received = np.where(shown.after > shown.before, shown.after, 0)
    own = np.minimum(shown.before, shown.after)
    marks = [
        *(_columns(place, shown)),
        _panel(place, shown, tops[0], "before sharing"),
        _dots(place, shown, shown.before, tops[0], "own"),
        _panel(place, shown, tops[1], "after sharing"),
        _dots(place, shown, received, tops[1], "received"),
        _dots(place, shown, own, tops[1], "own"),
        x_axis(place, [], "users, by their largest class"),
    ]
    held = pluralize(len(shown.classes), "class", "classes")
    says = f"Samples of {held} held by {pluralize(len(shown.users), 'user')}, before and after sharing"
    return plot(place, *marks, name="classes", says=says, data_nearest="x")


def _panel(place: Frame, shown: ClassChange, top: float, title: str) -> Markup:
    """The title, a line and a name for each class."""
    parts = [tag("text", title, x=place.x.start, y=top - 9, class_="name")]
    for row, label in enumerate(shown.classes.tolist()):
        middle = top + _ROW * (row + 0.5)
        parts.append(empty_tag("line", x1=place.x.start, x2=place.x.end, y1=middle, y2=middle, class_="grid"))
        parts.append(tag("text", label, x=place.x.start - 7, y=middle + 4, class_="tick", text_anchor="end"))
    return join(parts)


def _dots(place: Frame, shown: ClassChange, counts: np.ndarray[Any, Any], top: float, look: str) -> Markup:
    users, rows = np.nonzero(counts)
    step = (place.x.end - place.x.start) / max(len(shown.users), 1)
    largest = _LARGEST_RADIUS * min(step, _ROW)
    radii = np.maximum(largest * np.sqrt(counts[users, rows] / shown.largest), 0.6)
    dots = [
        empty_tag("circle", cx=x, cy=top + _ROW * (row + 0.5), r=radius)
        for x, row, radius in zip(place.x(users + 0.5).tolist(), rows.tolist(), radii.tolist(), strict=True)
    ]
    return tag("g", *dots, class_=f"dots {look}")


def _columns(place: Frame, shown: ClassChange) -> list[Markup]:
    """Behind the dots, one strip per user that answers the pointer."""
    lefts = place.x(range(len(shown.users) + 1)).tolist()
    tall = place.y.start - place.y.end
    return [
        bar(lefts[column], place.y.end, lefts[column + 1] - lefts[column], tall, class_="mark strip", data_tip=tip)
        for column, tip in enumerate(_tips(shown))
    ]


def _tips(shown: ClassChange) -> list[str]:
    tips = []
    for user, before, after in zip(shown.users.tolist(), shown.before, shown.after, strict=True):
        gained = np.maximum(after - before, 0)
        received = f"received {_listed(gained, shown)}" if gained.any() else "received nothing"
        tips.append(f"User {user}\nholds {_listed(before, shown)}\n{received}")
    return tips


def _listed(counts: np.ndarray[Any, Any], shown: ClassChange) -> str:
    """For example: 14 of class 3, 2 of class 7."""
    held = np.flatnonzero(counts)
    return ", ".join(f"{counts[place]} of class {shown.classes[place]}" for place in held.tolist()) or "nothing"
