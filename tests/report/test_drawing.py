"""Figures of one's own: placed where their values say, alike in every format, with real texts."""

from __future__ import annotations

import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
import zlib

import numpy as np
import pytest

from fedcast.errors import FedcastError
from fedcast.report import Axis, Bars, Dots, Figure, Key, Level, Line, Panel, Segments, Text, save_figure
from fedcast.report.layout import lay_out
from fedcast.report.shapes import Shapes, Words

EVIL = '</text><script>alert("1")</script>&$x^2$ \x00\x1b'
SVG = "{http://www.w3.org/2000/svg}"


def one(*marks, **options) -> Figure:
    return Figure([[Panel(marks, **options)]])


def shapes(drawing, kind: str) -> list[Shapes]:
    return [item for item in drawing.items if isinstance(item, Shapes) and item.kind == kind]


def texts(drawing) -> list[str]:
    return [item.text for item in drawing.items if isinstance(item, Words)]


@pytest.mark.parametrize("width", ["screen", "column", "page"])
def test_marks_can_be_read_off_the_ticks(width):
    x, y = [0.0, 4.0, 10.0], [0.2, 0.9, 0.5]
    panel = Panel([Line(x, y), Dots(x, y, 2)], x=Axis(ticks=[0, 10]), y=Axis(limits=(0, 1)))
    drawing = lay_out(Figure([[panel, panel]]), width)
    placed_x, placed_y = drawing.scales[1]
    ticks = [item for item in drawing.items if isinstance(item, Words) and item.text in ("0", "10")][2:]
    assert [tick.x for tick in ticks] == pytest.approx(placed_x([0, 10]))
    dots = np.array(shapes(drawing, "circle")[1].places)
    assert dots[:, 0] == pytest.approx(placed_x(x))
    assert dots[:, 1] == pytest.approx(placed_y(y))
    path = shapes(drawing, "path")[-1].places[0]
    np.testing.assert_allclose(path, dots[:, :2])


def test_everything_stays_inside_the_figure():
    long = [f"a strategy of a long name {number}" for number in range(4)]
    bars = Panel([Bars(range(4), [5, 3, 2, 1], error=[1, 1, 1, 1])], x=Axis("s", ticks=range(4), tick_labels=long))
    lines = [Line([0, 1], [0, number], number, label=name) for number, name in enumerate(long)]
    for width in ("screen", "column", "page"):
        drawing = lay_out(Figure([[bars], [Panel(lines, y=Axis("a label"))]], title="t" * 60), width)
        for item in drawing.items:
            if isinstance(item, Words):
                assert 0 <= item.x <= drawing.width
                assert 0 < item.y <= drawing.height
            elif item.kind == "rect":
                boxes = np.array(item.places)
                assert (boxes >= 0).all()
                assert (boxes[:, 0] + boxes[:, 2] <= drawing.width).all()
                assert (boxes[:, 1] + boxes[:, 3] <= drawing.height).all()


def test_papers_have_their_widths_and_readable_texts():
    figure = one(Line([0, 1], [0, 1], label="a"), x=Axis("round"))
    for width, inches in (("column", 3.5), ("page", 7.16)):
        drawing = lay_out(figure, width)
        assert drawing.width == pytest.approx(72 * inches)
        assert min(item.size for item in drawing.items if isinstance(item, Words)) >= 7
    with pytest.raises(FedcastError, match="invalid value 'wide' for width: expected screen, column, page"):
        lay_out(figure, "wide")


def test_lines_are_cut_at_the_limits_and_where_values_are_missing():
    line = Line([0, 1, 2, 3, 4], [0.5, 1.5, 0.5, np.nan, 0.5])
    drawing = lay_out(one(line, y=Axis(limits=(0, 1))))
    x, y = drawing.scales[0]
    pieces = [piece.tolist() for piece in shapes(drawing, "path")[0].places]
    assert [len(piece) for piece in pieces] == [2, 2, 1]
    np.testing.assert_allclose(pieces[0], np.stack([x([0, 0.5]), y([0.5, 1.0])], axis=1))
    np.testing.assert_allclose(pieces[1], np.stack([x([1.5, 2]), y([1.0, 0.5])], axis=1))
    outside = lay_out(one(Dots([0, 1], [0.5, 2.0], tips=["in", "out"]), y=Axis(limits=(0, 1))))
    assert shapes(outside, "circle")[0].tips == ("in",)


def test_logarithmic_and_flipped_axes():
    drawing = lay_out(one(Dots([1, 10, 100], [0, 1, 2]), x=Axis(kind="log"), y=Axis(flipped=True)))
    left, middle, right = np.array(shapes(drawing, "circle")[0].places)
    assert middle[0] - left[0] == pytest.approx(right[0] - middle[0])
    assert left[1] < middle[1] < right[1]
    assert [text for text in texts(drawing) if text in ("1", "10", "100")] == ["1", "10", "100"]


def test_bars_begin_at_their_base():
    drawing = lay_out(one(Bars([0, 1], [2, 3], base=[1, 0]), Bars([0], [-1], 2)))
    x, y = drawing.scales[0]
    first, second = np.array(shapes(drawing, "rect")[0].places)
    assert (first[1], first[1] + first[3]) == pytest.approx((float(y(3)), float(y(1))))
    assert (second[1], second[1] + second[3]) == pytest.approx((float(y(3)), float(y(0))))
    below = shapes(drawing, "rect")[1].places[0]
    assert (below[1], below[1] + below[3]) == pytest.approx((float(y(0)), float(y(-1))))
    lying = lay_out(one(Bars([0, 1], [2, 3], horizontal=True), x=Axis(limits=(0, None))))
    x, y = lying.scales[0]
    boxes = np.array(shapes(lying, "rect")[0].places)
    assert boxes[:, 2] == pytest.approx(x([2, 3]) - x([0, 0]))


def test_a_legend_names_each_label_once():
    lines = [Line([0, 1], [0, 1], 1, label="daca"), Line([0, 1], [1, 0], 1, label="daca"), Line([0, 1], [1, 1], 0)]
    assert texts(lay_out(one(*lines))).count("daca") == 1
    assert "daca" not in texts(lay_out(one(*lines), html=True))  # the page has a legend of its own
    own = Panel(lines, legend=True, keys=[Key("size", Dots([0], [0]))])
    assert "size" in texts(lay_out(Figure([[own]])))
    assert "daca" not in texts(lay_out(Figure([[own]])))


def test_svg_files_hold_real_and_escaped_texts(tmp_path):
    figure = Figure([[Panel([Line([0, 1], [0, 1], label=EVIL), Text(0, 0, EVIL)], title=EVIL)]], title=EVIL)
    root = ElementTree.parse(save_figure(figure, tmp_path / "a.svg")).getroot()
    found = ["".join(text.itertext()) for text in root.iter(f"{SVG}text")]
    shown = EVIL.replace("\x00", "�").replace("\x1b", "�")
    assert found.count(shown) == 4
    assert not list(root.iter(f"{SVG}script"))
    assert "var(" not in (tmp_path / "a.svg").read_text(encoding="utf-8")


def test_pdf_files_embed_truetype_fonts(tmp_path):
    content = save_figure(one(Line([0, 1], [0, 1], label="€ ñ̃ $x^2$ 中")), tmp_path / "a.pdf").read_bytes()
    assert b"/FontFile2" in content
    assert b"/Subtype /Type3" not in content
    streams = [zlib.decompress(part) for part in re.findall(rb"stream\r?\n(.*?)\r?\nendstream", content, re.DOTALL)[:1]]
    assert b"Tj" in streams[0] or b"TJ" in streams[0]


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_the_same_figure_gives_the_same_bytes(tmp_path, suffix):
    figure = one(
        Line([0, 1], [0, 1], low=[0, 0], high=[1, 1], shape="diamond"), Level(0.5, "half"), Segments([[[0, 0], [1, 1]]])
    )
    paths = [save_figure(figure, tmp_path / "new" / f"{name}{suffix}") for name in "ab"]
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert {path.name for path in (tmp_path / "new").iterdir()} == {f"a{suffix}", f"b{suffix}"}


def test_only_png_and_pdf_need_matplotlib(tmp_path):
    code = (
        "import sys; from fedcast.report import *; "
        f"save_figure(Figure([[Panel([Line([0, 1], [0, 1])])]]), {str(tmp_path / 'a.svg')!r}); "
        "assert 'matplotlib' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_unknown_kind_of_picture(tmp_path):
    with pytest.raises(FedcastError, match=r"unknown kind of picture '.gif'; expected .png, .svg, .pdf"):
        save_figure(one(), tmp_path / "p.gif")
    (tmp_path / "d.png").mkdir()
    with pytest.raises(FedcastError, match="is a folder"):
        save_figure(one(), tmp_path / "d.png")
