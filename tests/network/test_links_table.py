"""The graph of a person's own links, from files and arrays: its rules, and every fault named."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcast.errors import DataError
from fedcast.network import Graph, build_graph, check_graph, graph_from_edges, graph_from_links, has_rates
from fedcast.network.geometry import Layout, place_users
from fedcast.network.trust import closeness
from fedcast.scenario import Geometry, Sidelink, Trust
from tests.network.graphs import as_links

HEADER = "user_a,user_b,rate_bps,closeness\n"


def from_text(folder, text: str, num_users: int = 4, **thresholds: float) -> Graph:
    path = folder / "links.csv"
    path.write_text(HEADER + text)
    sidelink = Sidelink(min_rate_bps=thresholds.get("rate", 0.0))
    return graph_from_links(path, num_users, sidelink, Trust(min_closeness=thresholds.get("closeness", 0.0)))


def test_smaller_direction_counts_and_thresholds_are_inclusive(tmp_path):
    text = "0,1,9,0.5\n1,0,7,0.75\n1,2,5,1\n3,2,4.99,1\n0,3,8,0.49\n"
    graph = from_text(tmp_path, text, rate=5.0, closeness=0.5)
    assert as_links(graph) == {(0, 1): (7, 0.5), (1, 0): (7, 0.5), (1, 2): (5, 1), (2, 1): (5, 1)}
    check_graph(graph, 5.0, 0.5)


def test_exact_doubles_are_merged(tmp_path):
    graph = from_text(tmp_path, "0,1,9,0.5\n0,1,9,0.5\n0,1,9.0,0.50\n1,0,9,0.5\n")
    assert as_links(graph) == {(0, 1): (9, 0.5), (1, 0): (9, 0.5)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0,1,9,1\n2,2,9,1\n", "line 3: user 2 is linked to itself"),
        ("0,1,9,1\n0,4,9,1\n", "line 3, column user_b: user 4 does not exist, expected 0 to 3"),
        ("0,1,9,1\n-1,2,9,1\n", "line 3, column user_a: '-1' is below 0"),
        ("0,1,-9,1\n", "line 2, column rate_bps: '-9' is below 0"),
        ("0,1,9,1.2\n", "line 2, column closeness: '1.2' is above 1"),
        ("0,1,nan,1\n", "line 2, column rate_bps: 'nan' is not a finite number"),
        (
            "0,1,9,1\n1,0,5,1\n2,3,1,1\n2,3,1,0.5\n0,1,8,1\n",
            "line 5: user 2 to user 3 is 1 bit/s, closeness 0.5 here but 1 bit/s, closeness 1 on line 4",
        ),
        ("0,1,1e300,1\n", "line 2, column rate_bps: '1e300' is above 1e+15"),
    ],
)
def test_bad_links_are_named(tmp_path, text, expected):
    with pytest.raises(DataError) as caught:
        from_text(tmp_path, text)
    assert str(caught.value).replace(str(tmp_path / "links.csv"), "links.csv").removeprefix("links.csv, ").removeprefix(
        "links.csv: "
    ) == (expected)


def test_missing_column_is_named(tmp_path):
    path = tmp_path / "links.csv"
    path.write_text("user_a,user_b,rate_bps,closness\n0,1,5,1\n")
    with pytest.raises(DataError, match="missing column 'closeness'; did you mean 'closness'?"):
        graph_from_links(path, 3, Sidelink(), Trust())


def test_a_table_without_rows_links_nobody(tmp_path):
    assert from_text(tmp_path, "").degrees.tolist() == [0, 0, 0, 0]


def plain_radio(min_rate_bps: float) -> Sidelink:
    """1 W, lost to a hundredth over 10 m and falling with the square of the distance; 1/300 W of noise in 1 MHz."""
    return Sidelink(
        model="los_only",
        carrier_hz=1e9,
        bandwidth_hz=1e6,
        power_w=1.0,
        tx_gain_db=0.0,
        rx_gain_db=0.0,
        shadow_margin_db=0.0,
        noise_rise_db=0.0,
        reference_loss_db=0.0,
        los_exponent=2.0,
        noise_density_dbm_hz=float(10 * np.log10(1 / 300 / 1e6) + 30),
        min_rate_bps=min_rate_bps,
    )


def test_closeness_alone_takes_its_rates_from_the_radio(tmp_path):
    """SINR 3 over the 10 m from 0 to 1, so 2 Mbit/s; 3/4 over the 20 m from 1 to 2; 0 and 2 are not listed."""
    path = tmp_path / "friends.csv"
    path.write_text("user_a,user_b,closeness\n0,1,0.9\n1,0,0.6\n1,2,0.8\n2,3,1\n1,3,0.4\n")
    places = np.array([[0.0, 0.0], [10.0, 0.0], [30.0, 0.0], [10.0, 5.0]])
    layout = Layout(places, np.zeros((1, 2)), np.zeros(4, dtype=np.int64))
    for least, linked in ((0.0, [(0, 1), (1, 2), (2, 3)]), (1e6, [(0, 1)])):
        trust = Trust(links_file=str(path), min_closeness=0.5)
        graph = build_graph(layout, plain_radio(least), trust, Geometry(), seed=0)
        found = as_links(graph)
        assert [pair for pair in found if pair[0] < pair[1]] == linked
        assert found[0, 1] == pytest.approx((2e6, 0.6), rel=1e-6)
        check_graph(graph, least, 0.5)
    friends = build_graph(layout, plain_radio(0.0), Trust(links_file=str(path)), Geometry(), seed=0)
    assert as_links(friends)[1, 2] == pytest.approx((1e6 * np.log2(1.75), 0.8), rel=1e-6)


@pytest.mark.parametrize("drawn", [{}, {"shadowing": "drawn"}])
def test_a_list_of_all_drawn_closeness_gives_the_drawn_graph(tmp_path, drawn):
    """A table of the pairs that the generator draws builds the graph that the generator builds."""
    sidelink, layout = Sidelink(**drawn), place_users(60, Geometry(), seed=4)
    one, other = np.triu_indices(60, 1)
    close = closeness(one, other, Trust(), seed=4)
    path = tmp_path / "all.csv"
    rows = zip(one.tolist(), other.tolist(), close.tolist(), strict=True)
    path.write_text("user_a,user_b,closeness\n" + "".join(f"{a},{b},{c!r}\n" for a, b, c in rows))
    listed = build_graph(layout, sidelink, Trust(links_file=str(path)), Geometry(), seed=4)
    built = build_graph(layout, sidelink, Trust(), Geometry(), seed=4)
    assert listed.neighbours.tolist() == built.neighbours.tolist()
    np.testing.assert_allclose(listed.rate_bps, built.rate_bps, rtol=1e-6)
    np.testing.assert_array_equal(listed.closeness, built.closeness)


def test_a_table_with_rates_needs_no_radio_and_one_without_does(tmp_path):
    path = tmp_path / "links.csv"
    path.write_text(HEADER + "0,1,7e5,0.9\n")
    layout = place_users(2, Geometry(), seed=0)
    graph = build_graph(layout, Sidelink(), Trust(links_file=str(path)), Geometry(), seed=0)
    assert as_links(graph)[0, 1] == pytest.approx((7e5, 0.9))
    assert has_rates(path)
    path.write_text("user_a,user_b,closeness\n0,1,0.9\n")
    assert not has_rates(path)
    with pytest.raises(DataError, match="missing column 'rate_bps', and there is no radio model"):
        graph_from_links(path, 2, Sidelink(), Trust())
    path.write_text("user_a,user_b,closeness,rate\n0,1,0.9,7e5\n")
    with pytest.raises(DataError, match="unknown column 'rate'; did you mean 'rate_bps'"):
        graph_from_links(path, 2, Sidelink(), Trust())


def test_ends_of_links_are_paired_never_repeated():
    with pytest.raises(DataError, match="1 links, 3 rates and 1 values of closeness; expected one value for each link"):
        graph_from_edges([0], [1], [1e6, 2e6, 3e6], 0.9, 3)
    with pytest.raises(DataError, match="first has 2 users, second has 1"):
        graph_from_edges([0, 2], [1], 1e6, 0.9, 3)


def test_a_million_links_with_one_bad_line(tmp_path):
    users = np.arange(999_999)
    lines = [f"{user},{user + 1},9,1" for user in users]
    lines[700_000] = "5,5,9,1"
    with pytest.raises(DataError, match=r"links\.csv, line 700002: user 5 is linked to itself"):
        from_text(tmp_path, "\n".join(lines), num_users=1_000_000)


@given(
    links=st.lists(
        st.tuples(st.integers(0, 8), st.integers(0, 8), st.sampled_from([1.0, 2.0, 3.0]), st.sampled_from([0.25, 0.5])),
        max_size=40,
    )
)
def test_edges_follow_the_rules_written_as_a_loop(links):
    said: dict[tuple[int, int], tuple[float, float]] = {}
    sound = all(one != other for one, other, *_ in links)
    for one, other, rate, close in links:
        sound = sound and said.setdefault((one, other), (rate, close)) == (rate, close)
    arrays = list(zip(*links, strict=True)) or [[], [], [], []]
    if not sound:
        with pytest.raises(DataError, match=r"links, link \d+: user"):
            graph_from_edges(*arrays, 9)
        return
    expected = {
        (one, other): tuple(np.minimum(values, said.get((other, one), values)))
        for pair, values in said.items()
        for one, other in (pair, pair[::-1])
        if (one, other) == pair or (one, other) not in said
    }
    graph = graph_from_edges(*arrays, 9)
    assert as_links(graph) == expected
    check_graph(graph)


@pytest.mark.parametrize(
    ("rate", "close"), [(-1.0, 0.5), (np.inf, 0.5), (1e300, 0.5), (np.nan, 0.5), (1.0, 1.1), (1.0, np.nan)]
)
def test_impossible_values_in_arrays_are_refused(rate, close):
    with pytest.raises(DataError, match="links, link 1: invalid rate .*: expected a rate in"):
        graph_from_edges([0, 1], [1, 2], [1.0, rate], [0.5, close], 3)
