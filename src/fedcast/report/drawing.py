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

from fedcast.report.colours import INK, MUTED, Colour, Dash
from fedcast.report.scales import ScaleKind

Colours = Colour | Sequence[Colour]
Shape = Literal["circle", "square", "triangle", "diamond", "cross"]
Role = Literal["tick", "label", "name", "title"]
Anchor = Literal["start", "middle", "end"]


@dataclass(frozen=True, eq=False)
class Line:
    """A line through points, with a band around it if `low` and `high` are given."""

    x: ArrayLike  #: float[N]; the line is interrupted where x or y is NaN
    y: ArrayLike
    colour: Colour = 1
    low: ArrayLike | None = None
    high: ArrayLike | None = None
    dash: Dash | None = None  #: None: that of the series number in `colour`
    width: float = 1.6  #: in points
    opacity: float = 1.0
    shape: Shape | None = None  #: drawn at each point; None: nothing
    label: str = ""  #: in the legend; an empty one has no entry
    series: int | None = None  #: number of the series that a legend of the report page shows and hides


@dataclass(frozen=True, eq=False)
class Dots:
    """N single points, with error bars if `low` and `high` are given."""

    x: ArrayLike
    y: ArrayLike
    colour: Colours = 1
    shape: Shape = "circle"
    hollow: bool = False  #: whether only the outline is drawn
    radius: ArrayLike = 3.0  #: in points, one for all or N of them
    cell: bool = False  #: True: a radius of 1 fills a square of one unit of both axes
    edge: Colour | None = None  #: colour of a thin outline around filled points
    opacity: float = 1.0
    low: ArrayLike | None = None
    high: ArrayLike | None = None
    label: str = ""  #: see `Line`, as `series`
    series: int | None = None
    tips: Sequence[str] = ()  #: N texts that the report page shows on pointing at a dot
    css: str | Sequence[str] = ""  #: CSS classes of all dots, or N of them
    #: data attributes of the page, N values each; None: no attribute
    data: Mapping[str, Sequence[object]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Bars:
    """N bars, upright or lying."""

    at: ArrayLike  #: positions of the middles along the axis of categories
    length: ArrayLike  #: extent from `base`
    colour: Colours = 1
    base: ArrayLike = 0.0  #: where bars begin, one value or N of them
    width: float = 0.8  #: in units of the axis of categories
    horizontal: bool = False
    error: ArrayLike | None = None  #: half widths of error bars
    label: str = ""  #: see `Line`
    tips: Sequence[str] = ()  #: see `Dots`, as `data`
    data: Mapping[str, Sequence[object]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Segments:
    """N straight pieces between two points each, such as links."""

    ends: ArrayLike  #: float[N, 2, 2], both ends (x, y) of each piece
    colour: Colours = MUTED
    width: float = 1.0  #: in points
    opacity: float = 1.0
    dash: Dash = "solid"
    label: str = ""  #: see `Line`, as `series`
    series: int | None = None
    css: str = ""  #: CSS class of their group on the page
    tips: Sequence[str] = ()  #: see `Dots`, as `data`
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
    """Text at a point."""

    x: float
    y: float
    text: str
    anchor: Anchor = "start"  #: which part of the words stands at the point
    dx: float = 0.0  #: shift to the right in points
    dy: float = 0.0  #: shift downwards in points
    rotate: float = 0.0  #: degrees, counter-clockwise
    role: Role = "label"  #: decides size and, unless `colour` is given, colour
    colour: Colour | None = None


@dataclass(frozen=True, eq=False)
class Names:
    """N names beside points, the most important first; one that would cover another name or a point is left out."""

    x: ArrayLike
    y: ArrayLike
    texts: Sequence[str]
    radius: ArrayLike = 3.0  #: of the points, in points, one for all or N of them
    colour: Colours = INK
    lines: ArrayLike = ()  #: float[L, 2, 2], pieces that names lie on only where there is no other room


@dataclass(frozen=True)
class HoverColumns:
    """Invisible columns of width 1 from x = 0 on, over the whole height; the page shows a text for each."""

    tips: Sequence[str]


Mark = Line | Dots | Bars | Segments | Level | Text | Names | HoverColumns


@dataclass(frozen=True)
class Axis:
    """One axis of a panel."""

    label: str = ""  #: what is drawn along it, with its unit
    #: first and last value; None in place of one or both: a round value that leaves room for all marks
    limits: tuple[float | None, float | None] = (None, None)
    kind: ScaleKind = "linear"  #: see `fedcast.report.scales.Scale`, as `threshold`
    threshold: float = 1.0
    ticks: Sequence[float] | None = None  #: values to be marked; None: round ones
    tick_labels: Sequence[str] | None = None  #: texts of `ticks`; None: the numbers
    percent: bool = False  #: whether numbers are shares, shown in per cent
    whole: bool = False  #: whether only whole numbers are marked
    grid: bool | None = None  #: whether lines cross the panel at the ticks; None: for the y axis only
    flipped: bool = False  #: whether values grow downwards or leftwards
    show: bool = True


@dataclass(frozen=True)
class Key:
    """One entry of a legend, and the mark whose look it explains."""

    label: str
    mark: Line | Dots | Bars | Segments


@dataclass(frozen=True)
class Panel:
    """A pair of axes with marks, drawn in their order."""

    marks: Sequence[Mark]
    x: Axis = Axis()
    y: Axis = Axis()
    title: str = ""
    height: float = 196.0  #: of the area between the axes, in points at screen width
    equal: bool = False  #: whether a unit is as long on both axes; `height` is then ignored
    #: unit and its length in the axes' units, such as ("m", 0.001) on axes in km: draws a bar of a round length below
    scale_bar: tuple[str, float] | None = None
    legend: bool = False  #: whether labels of this panel's marks are listed below its title, not below the figure
    keys: Sequence[Key] | None = None  #: entries of the panel's own legend; None: one for each label


@dataclass(frozen=True)
class Figure:
    """Rows of panels, with a title above and a legend below."""

    rows: Sequence[Sequence[Panel]]
    title: str = ""
    width: float = 440.0  #: in points at screen width
    column_widths: Sequence[float] | None = None  #: shares of the width; None: equal columns
    keys: Sequence[Key] | None = None  #: entries of the legend; None: one for each label of a mark
    note: str = ""  #: a line above the title, such as a warning about the data
    description: str = ""  #: of the figure for readers who cannot see it
