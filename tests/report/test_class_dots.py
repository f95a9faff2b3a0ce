"""Test the figure of samples per class and user: its selection of users, and that it is drawn."""

from __future__ import annotations

import numpy as np
import pytest

from fedcast.report import class_dots, class_dots_figure
from fedcast.report.layout import lay_out
from fedcast.report.shapes import Shapes, Words


def texts(figure) -> list[str]:
    return [item.text for item in lay_out(figure).items if isinstance(item, Words)]


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
    assert class_dots_figure(dots).title.endswith(" (10 of 1,000 users, the 30 most common of 79 classes)")


def test_users_are_called_by_their_names():
    names = np.array(["hall", "big $yard$ 17"])
    dots = class_dots(np.eye(2, dtype=int), np.ones(2), ("a", "b"), names=names)
    shown = texts(class_dots_figure(dots))
    assert {"hall", "big $yard$ 17"} <= set(shown)
    plain = texts(class_dots_figure(class_dots(np.eye(2, dtype=int), np.ones(2), ("a", "b"))))
    assert plain[-4:-1] == ["0", "1", "user"]


def test_long_names_are_cut_and_blank_classes_are_shown():
    dots = class_dots([[1, 2]], [0.1], (" ", "\n"), names=np.array(["a user with a very long name"]))
    shown = texts(class_dots_figure(dots))
    assert {"␣", "↵", "a user with a v…"} <= set(shown)


def test_drawing_shows_every_dot_with_area_in_proportion():
    counts = np.array([[4, 0], [1, 2]])
    drawing = lay_out(class_dots_figure(class_dots(counts, [0.4, 0.9], ("a", "b"))))
    circles = [item for item in drawing.items if isinstance(item, Shapes) and item.kind == "circle"]
    x, y = drawing.scales[0]
    places = np.array(circles[-1].places)
    np.testing.assert_allclose(places[:, :2], np.stack([x([0.5, 1.5, 1.5]), y([0, 0, 1])], axis=1))
    areas = places[:, 2] ** 2
    assert areas / areas[0] == pytest.approx([1, 0.25, 0.5])
    keys = [float(item.places[0][2]) ** 2 / areas[0] for item in circles[:-1]]  # the legend: 1, 2 and 4 samples
    assert keys == pytest.approx([0.25, 0.5, 1.0])
    bars = np.array([item for item in drawing.items if isinstance(item, Shapes) and item.kind == "rect"][-1].places)
    _, up = drawing.scales[1]
    assert bars[:, 3] == pytest.approx(up(0) - up([0.4, 0.9]))
