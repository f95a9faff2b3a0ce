"""Lines with bands; the script reads the values under the pointer from the data that stand beside them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from fedcast.formatting import percent
from fedcast.report.figures.learning import Curve
from fedcast.report.markup import Markup, empty_tag, join, tag
from fedcast.report.old_svg import (
    Frame,
    band_path,
    frame,
    level,
    line_path,
    plot,
    series_class,
    ticks,
    upper_end,
    x_axis,
    y_axis,
)
from fedcast.report.shown import Axis, Measure

_DIGITS = 5


def curves_plot(curves: Sequence[Curve], measure: Measure, axis: Axis, target: float | None) -> Markup:
    """One quantity against one axis, and the target as a dashed line."""
    highest = 1.0 if measure.is_share else upper_end([float(line.high.max()) for line in curves])
    # Time begins at 0, before sharing; nothing is known of the model until sharing is over.
    end = max(float(line.x[-1]) for line in curves)
    place = frame((0.0, end or 1.0), (0.0, highest), top=10.0)
    marks = [
        y_axis(place, ticks(0.0, highest), "", percent if measure.is_share else None),
        x_axis(place, ticks(0.0, end or 1.0, whole=axis.column == "round"), axis.title),
        *([level(place, target, f"target {percent(target)}")] if target is not None else []),
        *(_line(place, line) for line in curves),
    ]
    names = ", ".join(line.name for line in curves)
    says = f"{measure.title} against {axis.title} of {names}"
    picture = plot(place, *marks, name=f"{measure.column}-{axis.column}", says=says, data_curves=True)
    return join([picture, _data(place, curves, measure, axis)])


def _line(place: Frame, line: Curve) -> Markup:
    x = place.x(line.x)
    parts = []
    if line.seeds > 1:
        band = band_path(x, place.y(line.low), place.y(line.high))
        parts.append(empty_tag("path", d=band, class_="band"))
    parts.append(empty_tag("path", d=line_path(x, place.y(line.mean)), class_="line"))
    return tag("g", *parts, class_=series_class(line.series), data_series=line.series)


def _data(place: Frame, curves: Sequence[Curve], measure: Measure, axis: Axis) -> Markup:
    content = {
        "x": [place.x.low, place.x.high, place.x.start, place.x.end],
        "y": [place.y.low, place.y.high, place.y.start, place.y.end],
        "axis": axis.column,
        "share": measure.is_share,
        "series": [_values(line) for line in curves],
    }
    # A script ends at the first "</", whatever stands around it.
    text = json.dumps(content, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return tag("script", Markup(text), type="application/json")


def _values(line: Curve) -> dict[str, Any]:
    content: dict[str, Any] = {
        "name": line.name,
        "number": line.series,
        "x": _rounded(line.x),
        "y": _rounded(line.mean),
    }
    if line.seeds > 1:
        content |= {"low": _rounded(line.low), "high": _rounded(line.high)}
    return content


def _rounded(values: np.ndarray[Any, Any]) -> list[float]:
    return [float(f"{value:.{_DIGITS}g}") for value in values.tolist()]
