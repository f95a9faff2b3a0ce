from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from fedcast.cost.uplink import schedule, up_s_per_bit, waves_span_s
from fedcast.errors import FedcastError
from fedcast.network.cellular import CellularLinks, cellular_links
from fedcast.network.fading import mean_inverse_efficiency
from fedcast.network.geometry import Layout
from fedcast.scenario import Cellular, Geometry

GROUND = Geometry()
BITS = 0.7e6


def links_at(distances, cellular, cells=None):
    one_cell = np.zeros(len(distances), dtype=np.int64)
    layout = Layout(np.column_stack([distances, one_cell]), np.zeros((1, 2)), one_cell)
    links = cellular_links(layout, 0.01, cellular, GROUND)
    return replace(links, cell_of=one_cell if cells is None else np.asarray(cells))


def finish(ready, plan, cells):
    ends = np.asarray(ready) + plan.span_s
    return np.array([ends[cells == cell].max() for cell in np.unique(cells)])


def waves_played_out(ready, upload, subcarriers):
    """One cell's waves, one after the other: the slowest fill the last; a wave starts when all its users are ready."""
    order = sorted(range(len(upload)), key=lambda user: -upload[user])
    waves = [order[start : start + subcarriers] for start in range(0, len(order), subcarriers)]
    now = 0.0
    for wave in reversed(waves):
        now = max([now, *(ready[user] for user in wave)]) + max(upload[user] for user in wave)
    return now


users = st.lists(st.tuples(st.floats(0, 10), st.floats(0.01, 10), st.integers(0, 3)), min_size=1, max_size=60)


@given(users, st.integers(1, 12))
def test_waves_against_a_play_through(drawn, subcarriers):
    ready, upload, cells = (np.array(column) for column in zip(*drawn, strict=True))
    span = waves_span_s(upload, cells, subcarriers)
    for cell in np.unique(cells):
        here = cells == cell
        expected = waves_played_out(ready[here], upload[here], subcarriers)
        if here.sum() <= subcarriers:
            expected = (ready + upload)[here].max()
        assert (ready + span)[here].max() == pytest.approx(expected, rel=1e-12)


@given(users)
def test_waves_are_parallel_when_there_is_a_subcarrier_for_everybody(drawn):
    _, upload, cells = (np.array(column) for column in zip(*drawn, strict=True))
    np.testing.assert_array_equal(waves_span_s(upload, cells, len(upload)), upload)


def test_waves_of_the_slowest_make_the_sum_least():
    upload = np.array([1.0, 5.0, 6.0])
    assert waves_span_s(upload, [0, 0, 0], 2).max() == 7  # not 11, which {1, 5} then {6} would take


@given(users, st.integers(1, 12), st.sampled_from(["parallel", "waves"]))
def test_a_schedule_of_measured_links(drawn, subcarriers, uplink):
    ready, upload, cells = (np.array(column) for column in zip(*drawn, strict=True))
    links = CellularLinks(cells, np.ones(len(cells)), upload / BITS, None)
    plan = schedule(BITS, ready, links, Cellular(uplink=uplink, subcarriers=subcarriers))
    np.testing.assert_allclose(plan.upload_s, upload)
    assert (plan.span_s >= plan.upload_s * (1 - 1e-12)).all()
    assert (plan.share == 1).all()


def test_all_ten_subcarriers_with_the_power_split():
    """0.7 Mbit over all ten subcarriers: 26 ms and 0.26 mJ at 200 m, 25.4 mJ at 1 km; 53 Mbit at 200 m: 19.7 mJ."""
    links = links_at([200, 1000], Cellular())
    per_bit = up_s_per_bit(np.full(2, 10.0), links, Cellular())
    assert BITS * per_bit[0] == pytest.approx(26e-3, rel=0.01)
    np.testing.assert_allclose(0.01 * BITS * per_bit, [0.26e-3, 25.4e-3], rtol=0.01)
    assert 0.01 * 53e6 * per_bit[0] == pytest.approx(19.7e-3, rel=3e-3)


def test_no_bandwidth_beats_the_thermal_floor():
    """E >= M ln 2 N0 10^0.3 / gain however wide the band: 24.9 mJ, 4.44 mJ and 1.88 J."""
    links = links_at([200, 1000], Cellular())
    per_bit = 0.01 * up_s_per_bit(np.full(2, 1e7), links, Cellular())
    assert BITS * per_bit[1] == pytest.approx(24.9e-3, rel=2e-3)
    np.testing.assert_allclose(53e6 * per_bit, [4.44e-3, 1.88], rtol=4e-3)


def best_common_finish(ready, snr, cellular):
    """The earliest finish by nested root finding, one user and one bandwidth at a time."""

    def share_needed(seconds, rho):
        def lateness(log_share):
            share = np.exp(log_share)
            per_bit = mean_inverse_efficiency(rho / share, cellular) / (cellular.subcarrier_bandwidth_hz * share)
            return float(np.log(BITS * per_bit / seconds))

        # A user that cannot make it on ten times the band needs more than there is.
        if lateness(np.log(10 * cellular.subcarriers)) > 0:
            return 10 * cellular.subcarriers
        return np.exp(optimize.brentq(lateness, -20, np.log(10 * cellular.subcarriers), xtol=1e-10))

    def excess(end):
        return sum(share_needed(end - r, rho) for r, rho in zip(ready, snr, strict=True)) - cellular.subcarriers

    return optimize.brentq(excess, ready.max() * (1 + 1e-9) + 1e-6, ready.max() + 100, xtol=1e-8)


@pytest.mark.parametrize(
    ("law", "subcarriers"),
    [("ergodic", 1), ("ergodic", 3), ("ergodic", 10), ("awgn", 3), ("truncated", 3), ("nakagami", 3)],
)
def test_fractional_against_root_finding(law, subcarriers):
    rng = np.random.default_rng(subcarriers)
    cellular = Cellular(uplink="fractional", subcarriers=subcarriers, fading=law)
    ready, distances = rng.uniform(0.05, 2, 4), rng.uniform(40, 1000, 4)
    links = links_at(distances, cellular)
    plan = schedule(BITS, ready, links, cellular)
    ends = ready + plan.span_s
    assert ends.max() == pytest.approx(best_common_finish(ready, links.up_snr, cellular), rel=3e-5)
    np.testing.assert_allclose(ends, ends.max(), rtol=3e-5)
    assert plan.share.sum() == pytest.approx(subcarriers, rel=1e-12)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 5), st.floats(0, 1000), st.integers(0, 2)), min_size=1, max_size=40),
    st.integers(1, 12),
    st.sampled_from(["ergodic", "awgn", "measured"]),
)
def test_fractional_is_never_later_than_an_equal_split(drawn, subcarriers, law):
    ready, distances, cells = (np.array(column) for column in zip(*drawn, strict=True))
    cellular = Cellular(uplink="fractional", subcarriers=subcarriers, fading="ergodic" if law == "measured" else law)
    links = links_at(distances, cellular, cells)
    if law == "measured":
        links = replace(links, up_snr=None)
    plan = schedule(BITS, ready, links, cellular)
    equal = subcarriers / np.bincount(cells)[cells]
    ends_equal = ready + BITS * up_s_per_bit(equal, links, cellular)
    latest_equal = np.array([ends_equal[cells == cell].max() for cell in np.unique(cells)])
    assert (finish(ready, plan, cells) <= latest_equal * (1 + 1e-9)).all()
    np.testing.assert_allclose(np.bincount(cells, plan.share)[np.unique(cells)], subcarriers)
    assert (plan.share > 0).all()


def test_nobody_sends_longer_than_allowed():
    rng = np.random.default_rng(0)
    cellular = Cellular(uplink="fractional")
    ready, distances = rng.uniform(0, 3, 30), rng.uniform(40, 1000, 30)
    links = links_at(distances, cellular)
    equal = BITS * up_s_per_bit(np.full(30, 10 / 30), links, cellular)
    free = schedule(BITS, ready, links, cellular)
    limited = schedule(BITS, ready, links, cellular, max_upload_s=1.2 * equal)
    assert (free.upload_s > 1.2 * equal).any()
    assert (limited.upload_s <= 1.2 * equal * (1 + 1e-12)).all()
    assert free.span_s.max() < (ready + limited.span_s).max() <= (ready + equal).max()


@pytest.mark.parametrize("uplink", ["parallel", "waves", "fractional"])
def test_a_user_that_is_never_ready_keeps_only_its_own_cell_waiting(uplink):
    cellular = Cellular(uplink=uplink, subcarriers=2)
    cells = np.array([0, 0, 0, 1, 1, 1])
    links = links_at([100, 300, 600, 100, 300, 600], cellular, cells)
    ready = np.array([0.1, np.inf, 0.1, 0.1, 0.1, 0.1])
    plan = schedule(BITS, ready, links, cellular)
    assert not any(np.isnan(column).any() for column in plan)
    first, second = finish(ready, plan, cells)
    assert first == np.inf
    alone = finish(ready[3:], schedule(BITS, ready[3:], links.of(cells == 1), cellular), cells[3:])[0]
    assert second == pytest.approx(alone, rel=1e-9)


@pytest.mark.parametrize("uplink", ["parallel", "waves", "fractional"])
def test_a_dead_link_is_refused_by_name(uplink):
    links = CellularLinks(np.zeros(2, dtype=np.int64), np.ones(2), np.array([1e-6, np.inf]), None)
    with pytest.raises(FedcastError, match="user 1 never finishes its upload"):
        schedule(BITS, [0.0, 0.0], links, Cellular(uplink=uplink))
