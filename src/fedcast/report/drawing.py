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
        x: float[N]; a line is interrupted where x or y is NaN.
        y: float[N].
        colour: of the line.
        low: float[N], lower edge of the band.
        high: float[N], upper edge of the band.
        dash: None: that of the series number in `colour`.
        width: of the line in points.
        opacity: of the line.
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
    """Single points, with error bars if `low` and `high` are given.

    Attributes:
        x: float[N].
        y: float[N].
        colour: one for all, or N of them.
        shape: of every point.
        hollow: whether only the outline is drawn.
        radius: in points, one for all or N of them; with `cell`, 1 fills a square of one unit of both axes.
        cell: whether `radius` follows the units of the axes.
        edge: colour of a thin outline around filled points; None: no outline.
        opacity: of the points.
        low: float[N], lower ends of error bars.
        high: float[N], upper ends of error bars.
        label: in the legend.
        series: see `Line`.
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
    """Bars, upright or lying.

    Attributes:
        at: float[N], positions of the middles along the axis of categories.
        length: float[N], extent from `base`.
        colour: one for all, or N of them.
        base: where bars begin, one value or N of them.
        width: in units of the axis of categories.
        horizontal: whether bars lie.
        error: half widths of error bars, float[N].
        label: in the legend.
        tips: see `Dots`.
        data: see `Dots`.
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
    """Straight pieces between two points each: links, stems.

    Attributes:
        ends: float[N, 2, 2], both ends (x, y) of each piece.
        colour: one for all, or N of them.
        width: in points.
        opacity: of the pieces.
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
    """A line across the panel at one value.

    Attributes:
        value: where.
        label: text above its left end.
        at_end: whether the text stands above the right end.
        vertical: whether the value is one of the x axis.
        colour: of the line.
        dash: of the line.
    """

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
        x: in units of the axis.
        y: in units of the axis.
        text: the words.
        anchor: which part of the words stands at the point.
        dx: shift to the right in points.
        dy: shift downwards in points.
        rotate: degrees, counter-clockwise.
        role: decides size and colour.
        colour: None: that of the role.
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
        kind: see `fedcast.report.scales.Scale`.
        threshold: see `fedcast.report.scales.Scale`.
        ticks: values to be marked; None: round ones.
        tick_labels: texts of `ticks`; None: the numbers.
        percent: whether numbers are shares, shown in per cent.
        whole: whether only whole numbers are marked.
        grid: whether lines cross the panel at the ticks; None: for the y axis only.
        flipped: whether values grow downwards or leftwards.
        show: whether the axis is drawn at all.
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
    """One entry of a legend.

    Attributes:
        label: its text.
        mark: whose look it explains.
    """

    label: str
    mark: Line | Dots | Bars


@dataclass(frozen=True)
class Panel:
    """A pair of axes with marks.

    Attributes:
        marks: drawn in this order.
        x: the horizontal axis.
        y: the vertical axis.
        title: above the panel.
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
        rows: panels; rows may differ in length.
        title: above all panels.
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
