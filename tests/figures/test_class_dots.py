import numpy as np
import pytest

from fedcast.errors import FedcastError
from fedcast.report.figures.class_dots import class_dots, draw_class_dots
from fedcast.report.figures.output import save_figure


def test_all_users_and_held_classes_are_shown():
    counts = np.array([[3, 0, 1], [0, 0, 7]])
    dots = class_dots(counts, [0.4, 0.9], ("a", "b", "c"))
    assert dots.classes == ("a", "c")
    assert dots.counts.tolist() == [[3, 1], [0, 7]]
    assert dots.users.tolist() == [0, 1]


def test_many_users_are_thinned_evenly_and_many_classes_by_use():
    counts = np.tile(np.arange(80), (1000, 1))
    dots = class_dots(counts, np.arange(1000), tuple(str(label) for label in range(80)), max_users=10)
    assert dots.users.tolist() == list(range(0, 1000, 100))
    assert dots.emd.tolist() == list(range(0, 1000, 100))
    assert dots.classes == tuple(str(label) for label in range(50, 80))
    title = draw_class_dots(dots).axes[0].get_title(loc="left")
    assert "10 of 1,000 users, the 30 most common of 79 classes" in title


def test_users_are_called_by_their_names():
    names = np.array(["hall", "big $yard$ 17"])
    dots = class_dots(np.eye(2, dtype=int), np.ones(2), ("a", "b"), names=names)
    figure = draw_class_dots(dots)
    figure.canvas.draw()
    ticks = figure.axes[1].get_xticklabels()
    assert [tick.get_text() for tick in ticks] == ["hall", r"big \$yard\$ 17"]
    plain = draw_class_dots(class_dots(np.eye(2, dtype=int), np.ones(2), ("a", "b")))
    assert [tick.get_text() for tick in plain.axes[1].get_xticklabels()] == ["0", "1"]


def test_drawing_shows_every_dot_with_area_in_proportion():
    counts = np.array([[4, 0], [1, 2]])
    axes = draw_class_dots(class_dots(counts, [0.4, 0.9], ("a", "b"))).axes
    points = axes[0].collections[0]
    assert points.get_offsets().tolist() == [[0, 0], [1, 0], [1, 1]]
    sizes = points.get_sizes()
    assert sizes / sizes[0] == pytest.approx([1, 0.25, 0.5])
    assert [bar.get_height() for bar in axes[1].patches] == [0.4, 0.9]


@pytest.mark.parametrize(("suffix", "magic"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")])
def test_files_are_whole_and_nothing_stays_beside_them(tmp_path, suffix, magic):
    figure = draw_class_dots(class_dots([[1, 2]], [0.1], ("a", " ")))
    path = save_figure(figure, tmp_path / "new" / f"p{suffix}")
    assert path.read_bytes().startswith(magic)
    assert [file.name for file in path.parent.iterdir()] == [f"p{suffix}"]


def test_unknown_kind_of_picture(tmp_path):
    figure = draw_class_dots(class_dots([[1]], [0.1], ("a",)))
    with pytest.raises(FedcastError, match=r"unknown kind of picture '.gif'; expected .png, .svg, .pdf"):
        save_figure(figure, tmp_path / "p.gif")
    (tmp_path / "d.png").mkdir()
    with pytest.raises(FedcastError, match="is a folder"):
        save_figure(figure, tmp_path / "d.png")
