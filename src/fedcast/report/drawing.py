"""The description of a figure: panels with axes, and marks in the units of the data. It says nothing about files.

`fedcast.report.save_figure` writes a figure as SVG, PNG or PDF; the report page draws the same figures as SVG.

Example:
    >>> import tempfile
    >>> from pathlib import Path
    >>> from fedcast.report import Axis, Figure, Level, Line, Panel, save_figure
    >>> rounds = [0, 1, 2, 3]
    >>> daca = Line(rounds, [0.1, 0.5, 0.7, 0.8], 1, low=[0.1, 0.4, 0.6, 0.7], high=[0.1, 0.6, 0.8, 0.9], label="daca")
    >>> fedavg = Line(rounds, [0.1, 0.3, 0.5, 0.6], 0, label="FedAvg")
    >>> panel = Panel([fedavg, daca, Level(0.7, "target")], x=Axis("round"), y=Axis(limits=(0, 1), percent=True))
    >>> path = save_figure(Figure([[panel]], title="Accuracy"), Path(tempfile.mkdtemp()) / "a.svg", width="column")
    >>> "FedAvg</text>" in path.read_text(encoding="utf-8")
    True
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from numpy.typing import ArrayLike

from fedcast.report.colours import MUTED, Colour, Dash
from fedcast.report.scales import ScaleKind

Colours = Colour | Sequence[Colour]
Shape = Literal["circle", "square", "triangle", "diamond", "cross"]
Role = Literal["tick", "label", "name", "title"]
Anchor = Literal["start", "middle", "end"]


@dataclass(frozen=True, eq=False)
class Line:
    """A line through points, with a band around it if `low` and `high` are given.

    Attributes:
        x: float[N]; the line is interrupted where x or y is NaN.
        dash: None: that of the series number in `colour`.
        width: in points.
        shape: drawn at each point; None: nothing.
        label: in the legend; an empty one has no entry.
        series: number of the series that a legend of the report page shows and hides.
    """

    x: ArrayLike
    y: ArrayLike
    colour: Colour = 1
    low: ArrayLike | None = None
    high: ArrayLike | None = None
    dash: Dash | None = None
    width: float = 1.6
    opacity: float = 1.0
    shape: Shape | None = None
    label: str = ""
    series: int | None = None


@dataclass(frozen=True, eq=False)
class Dots:
    """N single points, with error bars if `low` and `high` are given.

    Attributes:
        hollow: whether only the outline is drawn.
        radius: in points, one for all or N of them; with `cell`, 1 fills a square of one unit of both axes.
        edge: colour of a thin outline around filled points.
        label: see `Line`, as `series`.
        tips: N texts that the report page shows on pointing at a dot.
        css: CSS classes of all dots, or N of them.
        data: data attributes of the page, N values each; None: no attribute.
    """

    x: ArrayLike
    y: ArrayLike
    colour: Colours = 1
    shape: Shape = "circle"
    hollow: bool = False
    radius: ArrayLike = 3.0
    cell: bool = False
    edge: Colour | None = None
    opacity: float = 1.0
    low: ArrayLike | None = None
    high: ArrayLike | None = None
    label: str = ""
    series: int | None = None
    tips: Sequence[str] = ()
    css: str | Sequence[str] = ""
    data: Mapping[str, Sequence[object]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Bars:
    """N bars, upright or lying.

    Attributes:
        at: positions of the middles along the axis of categories.
        length: extent from `base`.
        base: where bars begin, one value or N of them.
        width: in units of the axis of categories.
        error: half widths of error bars.
        label: see `Line`.
        tips: see `Dots`, as `data`.
    """

    at: ArrayLike
    length: ArrayLike
    colour: Colours = 1
    base: ArrayLike = 0.0
    width: float = 0.8
    horizontal: bool = False
    error: ArrayLike | None = None
    label: str = ""
    tips: Sequence[str] = ()
    data: Mapping[str, Sequence[object]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Segments:
    """N straight pieces between two points each, such as links.

    Attributes:
        ends: float[N, 2, 2], both ends (x, y) of each piece.
        width: in points.
        css: CSS class of their group on the page.
        data: see `Dots`.
    """

    ends: ArrayLike
    colour: Colours = MUTED
    width: float = 1.0
    opacity: float = 1.0
    css: str = ""
    data: Mapping[str, Sequence[object]] = field(default_factory=dict)


@dataclass(frozen=True)
class Level:
    """A line across the panel at one value; its label stands above the left end, or the right one if `at_end`."""

    value: float
    label: str = ""
    at_end: bool = False
    vertical: bool = False
    colour: Colour = MUTED
    dash: Dash = "dashed"


@dataclass(frozen=True)
class Text:
    """Words at a point.

    Attributes:
        anchor: which part of the words stands at the point.
        dx: shift to the right in points.
        dy: shift downwards in points.
        rotate: degrees, counter-clockwise.
        role: decides size and, unless `colour` is given, colour.
    """

    x: float
    y: float
    text: str
    anchor: Anchor = "start"
    dx: float = 0.0
    dy: float = 0.0
    rotate: float = 0.0
    role: Role = "label"
    colour: Colour | None = None


@dataclass(frozen=True)
class HoverColumns:
    """Invisible columns of width 1 from x = 0 on, over the whole height; the page shows a text for each."""

    tips: Sequence[str]


Mark = Line | Dots | Bars | Segments | Level | Text | HoverColumns


@dataclass(frozen=True)
class Axis:
    """One axis of a panel.

    Attributes:
        label: what is drawn along it, with its unit.
        limits: first and last value; None in place of one or both: a round value that leaves room for all marks.
        kind: see `fedcast.report.scales.Scale`, as `threshold`.
        ticks: values to be marked; None: round ones.
        tick_labels: texts of `ticks`; None: the numbers.
        percent: whether numbers are shares, shown in per cent.
        whole: whether only whole numbers are marked.
        grid: whether lines cross the panel at the ticks; None: for the y axis only.
        flipped: whether values grow downwards or leftwards.
    """

    label: str = ""
    limits: tuple[float | None, float | None] = (None, None)
    kind: ScaleKind = "linear"
    threshold: float = 1.0
    ticks: Sequence[float] | None = None
    tick_labels: Sequence[str] | None = None
    percent: bool = False
    whole: bool = False
    grid: bool | None = None
    flipped: bool = False
    show: bool = True


@dataclass(frozen=True)
class Key:
    """One entry of a legend, and the mark whose look it explains."""

    label: str
    mark: Line | Dots | Bars


@dataclass(frozen=True)
class Panel:
    """A pair of axes with marks, drawn in their order.

    Attributes:
        height: of the area between the axes, in points at screen width.
        equal: whether a unit is as long on both axes; `height` is then ignored.
        scale_bar: unit and its length in the axes' units, such as ("m", 0.001) on axes in km: draws a bar of a round
            length below the panel.
        legend: True: labels of this panel's marks are listed below its title, not below the figure.
        keys: entries of the panel's own legend; None: one for each label.
    """

    marks: Sequence[Mark]
    x: Axis = Axis()
    y: Axis = Axis()
    title: str = ""
    height: float = 196.0
    equal: bool = False
    scale_bar: tuple[str, float] | None = None
    legend: bool = False
    keys: Sequence[Key] | None = None


@dataclass(frozen=True)
class Figure:
    """Rows of panels, with a title above and a legend below.

    Attributes:
        width: in points at screen width.
        column_widths: shares of the width; None: equal columns.
        keys: entries of the legend; None: one for each label of a mark.
        note: a line above the title, such as a warning about the data.
        description: of the figure for readers who cannot see it.
    """

    rows: Sequence[Sequence[Panel]]
    title: str = ""
    width: float = 440.0
    column_widths: Sequence[float] | None = None
    keys: Sequence[Key] | None = None
    note: str = ""
    description: str = ""
