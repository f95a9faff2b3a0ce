"""How the figures of the reproduction look: one colour, dash and mark for each method, quiet axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fedcast.report.figures import axes as looks
from fedcast.report.figures.output import INK
from fedcast.report.figures.palette import colour

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, PURPLE = (colour(place) for place in (1, 2, 3, 4))
COLOURS = {"jfvo": BLUE, "smm": ORANGE, "saa": GREEN, "jfvo_literal": PURPLE}
DASHES = {"jfvo": "-", "smm": "--", "saa": ":", "jfvo_literal": "-."}
MARKS = {"jfvo": "o", "smm": "s", "saa": "^", "jfvo_literal": "D"}


def new_figure(width_in: float, height_in: float) -> Figure:
    """An empty figure that arranges its parts itself."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width_in, height_in), layout="constrained")


def dress(axes: Axes, *, title: str = "", x: str = "", y: str = "") -> None:
    """Labels, a light grid, no frame."""
    looks.dress(axes)
    axes.tick_params(which="minor", length=0)
    axes.set_title(title, loc="left", color=INK, fontsize=10)
    axes.set_xlabel(x, color=INK, fontsize=9)
    axes.set_ylabel(y, color=INK, fontsize=9)


def legend(axes: Axes, **options: Any) -> None:
    """A legend without a frame."""
    axes.legend(frameon=False, fontsize=8, labelcolor=INK, **options)


def percent_axis(axis: Axis) -> None:
    """Shares from 0 to 1 in per cent, as tables have them."""
    from matplotlib.ticker import PercentFormatter

    axis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))


def sequence(count: int) -> list[str]:
    """Colours of lines that have an order, from light to dark; all are seen on white."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    return [to_hex(colormaps["viridis"](place)) for place in np.linspace(0.88, 0.0, count)]
