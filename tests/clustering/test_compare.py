"""Rules side by side: every column against its definition."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from scipy.spatial.distance import jensenshannon

from fedcast.clustering import RULES, cluster, compare
from fedcast.clustering.rules import _gap
from fedcast.clustering.sample_problems import disc_problem, path_problem
from fedcast.errors import FedcastError
from tests.clustering.naive import average_emd_of

PROBLEM = disc_problem(30, 500, seed=3, data="mixed", num_clusters=4)


def test_columns_are_what_they_say():
    for row in compare(PROBLEM):
        clustering = row.clustering
        assert row.rule == clustering.rule
        assert row.average_sharing_ratio == clustering.average_sharing_ratio
        assert row.seconds > 0
        if clustering.broadcast is None:
            problem, head_of = clustering.problem, clustering.head_of.tolist()
            assert row.heads == len(set(head_of) - {-1})
            assert row.members == sum(head >= 0 for head in head_of)
            assert row.emd_before == pytest.approx(average_emd_of(problem, [-1] * 30, "C"))
            for weighting, value in zip("ABC", (row.emd_after_a, row.emd_after_b, row.emd_after_c), strict=True):
                assert value == pytest.approx(average_emd_of(problem, head_of, weighting))
            if row.members:
                assert row.worst_rate_bps == min(clustering.worst_rates_bps)


def test_divergence_and_shift_by_hand():
    """User 1 sends 2 and 2 to both others: 20 and 4, 5 and 5, 3 and 11 samples; 24 of 40 were of the first class."""

    def js(share):
        return jensenshannon([share, 1 - share], [0.6, 0.4]) ** 2

    (row,) = compare(path_problem([[18, 2], [5, 5], [1, 9]], sharing_ratio=0.4), ["daca"])
    assert row.js_before == pytest.approx((20 * js(18 / 20) + 10 * js(5 / 10) + 10 * js(1 / 10)) / 40)
    assert row.js_after == pytest.approx((24 * js(20 / 24) + 10 * js(5 / 10) + 14 * js(3 / 14)) / 48)
    assert row.shift == pytest.approx(2 * (24 / 40 - 28 / 48))


def test_all_rules_but_exact_by_default_and_in_the_order_asked():
    assert [row.rule for row in compare(PROBLEM)] == [rule for rule in RULES if rule != "exact"]
    assert [row.rule for row in compare(PROBLEM, ["scc", "none"])] == ["scc", "none"]


def test_gaps_compare_like_with_like():
    rows = {row.rule: row for row in compare(PROBLEM, exact_limit_s=30)}
    for composition in ("own", "balanced"):
        asked = disc_problem(30, 500, seed=3, data="mixed", rule="exact", composition=composition)
        best = cluster(asked).proof.value  # type: ignore[union-attr]
        for row in rows.values():
            if row.gap is not None and row.composition == composition:
                assert row.gap == pytest.approx(row.emd_after_b / best - 1, abs=1e-9)
                assert row.gap_exact
    assert rows["central"].gap is None
    assert rows["gain"].gap < rows["daca"].gap < rows["none"].gap  # type: ignore[operator]


def test_a_bound_of_nothing_gives_no_gap():
    """Infinity is no number of JSON."""
    best = cluster(replace(PROBLEM, settings=PROBLEM.settings.model_copy(update={"rule": "exact"})))
    assert best.proof is not None
    unproven = replace(best.proof, bound=0.0, optimal=False)
    assert _gap(best, unproven) == (None, False)


def test_without_a_time_limit_there_are_no_gaps_unless_exact_is_asked_for():
    assert all(row.gap is None for row in compare(PROBLEM))
    rows = {row.rule: row for row in compare(PROBLEM, ["daca", "gain", "exact"])}
    assert rows["exact"].gap == pytest.approx(0, abs=1e-9)
    assert rows["gain"].gap is not None
    assert rows["daca"].gap is None


def test_rows_survive_json():
    rows = compare(PROBLEM, ["random", "none", "central"])
    assert json.loads(json.dumps([row.as_dict() for row in rows], allow_nan=False))[1]["worst_rate_bps"] is None


def test_an_unknown_rule_is_refused_before_any_work():
    with pytest.raises(FedcastError, match="'best' for clustering.rule"):
        compare(PROBLEM, ["exact", "best"])
