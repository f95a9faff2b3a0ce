"""The look that all line and bar figures share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedcast.report.figures.output import GRID, INK, MUTED

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIZE_IN = (5.6, 3.6)


def plain_axes(title: str, x_label: str, y_label: str, size_in: tuple[float, float] = SIZE_IN) -> tuple[Figure, Axes]:
    """An empty figure with one pair of axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=size_in, layout="constrained")
    axes = figure.subplots()
    axes.set_title(title, loc="left", color=INK, fontsize=11, pad=12)
    axes.set_xlabel(x_label, color=INK)
    axes.set_ylabel(y_label, color=INK)
    dress(axes)
    return figure, axes


def dress(axes: Axes, grid: str = "y") -> None:
    """A light grid behind the marks, no frame, small ticks."""
    axes.set_axisbelow(True)
    axes.grid(axis=grid, color=GRID, linewidth=0.8)  # type: ignore[arg-type]
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(GRID)
    axes.tick_params(colors=MUTED, labelsize=8, length=0)


def add_legend(figure: Figure, columns: int = 4) -> None:
    """Below the axes, without a frame."""
    figure.legend(
        loc="outside lower center", ncols=columns, frameon=False, fontsize=8.5, labelcolor=INK, handletextpad=0.6
    )
