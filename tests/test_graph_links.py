"""The graph of a person's own links, from files and arrays: its rules, and every fault named."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcast.errors import DataError
from fedcast.graph import Graph, check, graph_from_edges, graph_from_links
from fedcast.scenario import Sidelink, Trust

HEADER = "user_a,user_b,rate_bps,closeness\n"


def as_links(graph: Graph) -> dict[tuple[int, int], tuple]:
    rows = np.repeat(np.arange(graph.num_users), graph.degrees)
    values = zip(graph.rate_bps.tolist(), graph.closeness.tolist(), strict=True)
    return dict(zip(zip(rows.tolist(), graph.neighbours.tolist(), strict=True), values, strict=True))


def from_text(folder, text: str, num_users: int = 4, **thresholds: float) -> Graph:
    path = folder / "links.csv"
    path.write_text(HEADER + text)
    sidelink = Sidelink(min_rate_bps=thresholds.get("rate", 0.0))
    return graph_from_links(path, num_users, sidelink, Trust(min_closeness=thresholds.get("closeness", 0.0)))


def test_smaller_direction_counts_and_thresholds_are_inclusive(tmp_path):
    text = "0,1,9,0.5\n1,0,7,0.75\n1,2,5,1\n3,2,4.99,1\n0,3,8,0.49\n"
    graph = from_text(tmp_path, text, rate=5.0, closeness=0.5)
    assert as_links(graph) == {(0, 1): (7, 0.5), (1, 0): (7, 0.5), (1, 2): (5, 1), (2, 1): (5, 1)}
    check(graph, 5.0, 0.5)


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
            "line 5: user 2 to 3 is 1 bit/s, closeness 0.5 here but 1 bit/s, closeness 1 on line 4",
        ),
        ("", "holds a header but no rows"),
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
    with pytest.raises(DataError, match="no column 'closeness'; is it 'closness'?"):
        graph_from_links(path, 3, Sidelink(), Trust())


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
    check(graph)


@pytest.mark.parametrize(("rate", "close"), [(-1.0, 0.5), (np.inf, 0.5), (np.nan, 0.5), (1.0, 1.1), (1.0, np.nan)])
def test_impossible_values_in_arrays_are_refused(rate, close):
    with pytest.raises(DataError, match="links, link 1: rate .* cannot be"):
        graph_from_edges([0, 1], [1, 2], [1.0, rate], [0.5, close], 3)
