"""Test the parts of pages: markup, numbers, scales."""

from __future__ import annotations

from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcast.formatting import SPACE, mean_and_interval, number, p_value, percent, quantity
from fedcast.report.colours import css_of, dash_of, hex_of, palette_index, series_class
from fedcast.report.figures.users import evenly_spaced, shown_of
from fedcast.report.html import Markup, coordinate, empty_tag, tag
from fedcast.report.scales import Scale, ends_around, log_ticks, nice_step, ticks, upper_end
from fedcast.report.svg import line_path
from fedcast.runs.seed_statistics import Interval

TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1)


class _Reader(HTMLParser):
    """Python's own reader of HTML: what tags, attributes and texts it finds."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@given(TEXT, TEXT)
def test_any_text_stays_text(words, title):
    read = _Reader(tag("p", words, title=title))
    assert read.tags == [("p", {"title": title})]
    assert "".join(read.texts) == words


def test_markup_is_not_escaped_twice():
    assert tag("p", tag("b", "1 < 2"), Markup("<br>")) == "<p><b>1 &lt; 2</b><br></p>"
    assert empty_tag("line", x1=0.04, y1=-0.04, class_="grid") == '<line x1="0" y1="0" class="grid"/>'


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.0, "J", "0 J"),
        (0.0357, "J", "35.7 mJ"),
        (150.41, "J", "150 J"),
        (36_806_016.0, "B", "36.8 MB"),
        (368_639.0, "bit/s", "369 kbit/s"),
        (16.965, "s", "17.0 s"),
        (0.0036, "s", "3.60 ms"),
        (9_000.0, "s", "9,000 s"),
        (36_000.0, "s", "10 h"),
        (999.96, "J", "1,000 J"),
    ],
)
def test_quantities_have_three_digits_and_a_fitting_unit(value, unit, text):
    assert quantity(value, unit).replace(SPACE, " ") == text


@given(st.floats(1e-3, 1e12))
def test_numbers_are_within_half_of_their_last_digit(value):
    shown = float(number(value).replace(",", ""))
    assert shown == pytest.approx(value, rel=0.006, abs=6e-5)


@pytest.mark.parametrize(
    ("found", "unit", "texts"),
    [
        (Interval(0.8972, None, 1), "%", ("89.7 %", None)),
        (Interval(0.004, 0.01594, 3), "%", ("0.4 %", "± 1.6")),
        (Interval(15.0, 0.0, 3), "", ("15", "± 0")),
        (Interval(48.0, 3.21, 3), "", ("48.0", "± 3.2")),
        (Interval(0.0, 0.0, 3), "%", ("0.0 %", "± 0.0")),
        (Interval(11_501_880.0, 44_819.0, 3), "B", ("11.5 MB", "± 0.0")),
    ],
)
def test_intervals_have_the_decimals_of_their_mean(found, unit, texts):
    shown = mean_and_interval(found.mean, found.half_width, unit)
    assert tuple(text and text.replace(SPACE, " ") for text in shown) == texts


def test_shares_and_tests():
    assert [percent(share).replace(SPACE, " ") for share in (0, 0.85, 0.8972, 1)] == ["0 %", "85 %", "89.7 %", "100 %"]
    assert p_value(0.0004).replace(SPACE, " ") == "p < 0.001"


@given(st.floats(0, 1e6), st.floats(1e-6, 1e6))
def test_ticks_are_round_within_the_range_and_not_too_many(low, width):
    values = ticks(low, low + width)
    step = nice_step(low, low + width)
    assert all(low - 1e-6 * step <= value <= low + width + 1e-6 * step for value in values)
    assert len(values) <= 7
    first_digits = float(f"{step:.6e}".partition("e")[0])
    assert first_digits in (1, 2, 2.5, 5)
    assert all(value / step == pytest.approx(round(value / step), abs=1e-3) for value in values)


@given(st.lists(st.floats(1e-3, 1e6), min_size=1))
def test_scales_end_beyond_all_values(values):
    end = upper_end(values)
    assert max(values) <= end * (1 + 1e-9) <= 2.5 * max(values)
    low, high = ends_around(values)
    assert low <= min(values) * (1 + 1e-9)
    assert high >= max(values) * (1 - 1e-9)
    assert low < high


@given(st.floats(1e-6, 1e6), st.floats(1.5, 1e9))
def test_logarithmic_ticks_are_within_the_range_and_not_too_many(low, factor):
    values = log_ticks(low, low * factor)
    assert len(values) <= 7
    assert all(low * (1 - 1e-6) <= value <= low * factor * (1 + 1e-6) for value in values)
    assert values == sorted(values)
    assert factor < 10 or values


def test_round_values():
    assert (nice_step(0, 20.6), nice_step(0, 0.05), nice_step(0, 3, whole=True)) == (5.0, 0.01, 1.0)
    assert (ticks(0, 80), ticks(0.3, 1.1, 4)) == ([0, 20, 40, 60, 80], [0.4, 0.6, 0.8, 1.0])
    assert (log_ticks(0.2, 3), log_ticks(1e-4, 1)) == ([0.2, 0.5, 1, 2], [1e-4, 1e-3, 1e-2, 0.1, 1])
    assert (upper_end([3.0, 20.6]), upper_end([])) == (25.0, 1.0)
    assert (ends_around([16.9, 21.0]), ends_around([20.0])) == ((16.0, 21.0), (10.0, 30.0))
    assert (coordinate(12.04), coordinate(-0.04)) == ("12", "0")
    assert empty_tag("circle", cx=1.25, cy=3.0, r=2) == '<circle cx="1.2" cy="3" r="2"/>'


def test_users_shown_are_evenly_spaced():
    assert (evenly_spaced(9, 5).tolist(), evenly_spaced(3, 5).tolist()) == ([0, 2, 4, 6, 8], [0, 1, 2])
    assert (shown_of(100, 2000), shown_of(3, 3)) == (" (100 of 2,000 users)", "")


def test_scales():
    assert Scale(0, 10, 100, 0)([0, 2.5]).tolist() == [100.0, 75.0]
    assert Scale(1, 100, 0, 10, "log")([10]).tolist() == [5.0]
    assert Scale(3, 3, 0, 10)(3) == 0
    places = Scale(-10, 10, 0, 100, "asinh", 0.3)([-10, -1, 0, 1, 10])
    assert places[[0, 2, 4]].tolist() == pytest.approx([0, 50, 100])
    assert places[1] == pytest.approx(100 - places[3])
    assert places[3] > 50 + 0.1 * 50


def test_paths_and_looks():
    x = Scale(0, 2, 0, 100)([0, 1, 2])
    points = np.stack([x, x], axis=1)
    assert line_path(points).count("L") == 2
    assert line_path(points, closed=True).endswith("Z")
    assert line_path(np.array([(0.0, 5.0), (10.0, 2.5)])) == "M0 5L10 2.5"
    assert [palette_index(series) for series in (0, 1, 7, 8)] == [0, 1, 7, 1]
    assert [dash_of(series) for series in (0, 1, 8, 15)] == ["solid", "solid", "dashed", "dotted"]
    assert [hex_of(colour) for colour in (1, 8, "ink", "#123456")] == ["#0072b2", "#0072b2", "#1b232c", "#123456"]
    assert [css_of(colour) for colour in (8, "paper")] == ["var(--c1)", "var(--card)"]
    assert [series_class(place) for place in (0, 7, 8, 15)] == ["s0 solid", "s7 solid", "s1 dashed", "s1 dotted"]
