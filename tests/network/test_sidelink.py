import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, optimize, stats

from fedcast.errors import FedcastError
from fedcast.network import sidelink as sl
from fedcast.network.link_states import link_states
from fedcast.network.propagation import to_db
from fedcast.scenario import Geometry, Sidelink

GROUND = Geometry()
ISOTROPIC = {"tx_gain_db": 0.0, "rx_gain_db": 0.0}
MODELS = ["four_state", "los_only", "umi", "uma", "v2x_urban", "macro"]
models = st.sampled_from(MODELS)
fixed_modes = st.sampled_from(["mean_sinr", "mean_rate"])
fadings = st.sampled_from(["none", "ergodic"])


def decibels(distance, **changes):
    return to_db(sl.sinr(distance, Sidelink(**{**ISOTROPIC, **changes}), GROUND))


def rate(distance, **changes):
    return sl.rate_bps(distance, Sidelink(**{**ISOTROPIC, **changes}), GROUND)


def test_four_state_vectors():
    expected = [4.391, -2.370, -14.104, -25.191, -37.947, -57.604, -73.713]
    np.testing.assert_allclose(decibels([10, 20, 50, 100, 200, 500, 1000]), expected, atol=5e-4)
    np.testing.assert_allclose(rate([10, 50, 100, 200]), [1.9064e9, 5.5010e7, 4.3596e6, 2.3146e5], rtol=3e-5)


def test_los_only_vectors():
    np.testing.assert_allclose(decibels([10, 100, 1000], model="los_only"), [4.657, -16.343, -37.343], atol=5e-4)
    np.testing.assert_allclose(rate([100, 1000], model="los_only"), [3.3103e7, 2.6596e5], rtol=3e-5)


@pytest.mark.parametrize(
    ("changes", "reach"),
    [
        ({"model": "los_only"}, 877),
        ({"blocker_density_per_m2": 0.0}, 254),
        ({"blocker_density_per_m2": 0.01}, 182),
        ({"blocker_density_per_m2": 0.1}, 78),
        ({"blocker_density_per_m2": 0.3}, 64),
        ({"blocker_density_per_m2": 0.1, "tx_gain_db": 12.0412, "rx_gain_db": 12.0412}, 343),
        ({"tx_gain_db": 12.0, "rx_gain_db": 12.0}, 555),
    ],
)
def test_reach_vectors(changes, reach):
    assert sl.reach_m(Sidelink(**{**ISOTROPIC, **changes}), GROUND) == pytest.approx(reach, abs=0.51)


def test_the_threshold_is_a_sinr():
    assert to_db(math.expm1(3.5e5 / 1e9 * math.log(2))) == pytest.approx(-36.15, abs=5e-3)
    at_reach = sl.sinr(sl.reach_m(Sidelink(), GROUND), Sidelink(), GROUND)
    assert to_db(at_reach) == pytest.approx(-36.15, abs=5e-3)


def test_gains_noise_figure_and_bandwidth_enter_as_they_should():
    assert decibels(80, tx_gain_db=5.0, rx_gain_db=7.0) - decibels(80) == pytest.approx(12)
    assert decibels(80, noise_figure_db=9.0) - decibels(80) == pytest.approx(-9)
    assert decibels(80, noise_rise_db=0.0) - decibels(80) == pytest.approx(3)
    assert decibels(80, shadow_margin_db=0.0) - decibels(80) == pytest.approx(4)
    assert decibels(80, bandwidth_hz=5e8) - decibels(80) == pytest.approx(to_db(2.0))
    assert decibels(80, power_w=0.02) - decibels(80) == pytest.approx(to_db(2.0))


def test_distances_are_clamped():
    assert rate(0.0) == rate(1.0)
    assert rate(2.0, min_distance_m=5.0) == rate(5.0)
    assert rate(2.0) > rate(5.0)


@given(models, fixed_modes, fadings, st.floats(0, 3000), st.floats(1e-3, 3000))
def test_rate_falls_with_distance(model, state_mode, fading, distance, step):
    link = Sidelink(model=model, state_mode=state_mode, fading=fading)
    near, far = sl.rate_bps([distance, distance + step], link, GROUND)
    assert 0 < far <= near


@given(models, st.lists(st.floats(1, 2000), min_size=1, max_size=20), fadings)
def test_slowest_member_is_the_one_of_lowest_sinr(model, distances, fading):
    """A multicast runs at the rate of its worst member: the minimum of rates is the rate of the minimal SINR."""
    link = Sidelink(model=model, fading=fading)
    rates, sinrs = (function(distances, link, GROUND) for function in (sl.rate_bps, sl.sinr))
    assert rates.min() == rates[sinrs.argmin()]
    if fading == "none":
        assert rates.min() == pytest.approx(1e9 * math.log1p(sinrs.min()) / math.log(2), rel=1e-12)


@given(models, st.floats(1, 2000))
def test_the_mean_rate_is_below_the_rate_of_the_mean(model, distance):
    mean_sinr, mean_rate = (
        sl.rate_bps(distance, Sidelink(model=model, state_mode=mode), GROUND) for mode in ("mean_sinr", "mean_rate")
    )
    assert mean_rate <= mean_sinr * (1 + 1e-12)
    ergodic = sl.rate_bps(distance, Sidelink(model=model, fading="ergodic"), GROUND)
    assert ergodic <= mean_sinr * (1 + 1e-12)


@given(models, st.floats(0, 5000))
def test_weights_of_states_sum_to_one(model, distance):
    states = link_states(distance, Sidelink(model=model), GROUND)
    assert sum(state.weight for state in states) == pytest.approx(1, abs=1e-12)
    assert all(state.weight >= 0 for state in states)


@pytest.mark.parametrize(
    ("model", "sigmas"),
    [
        ("four_state", [8.2, 4, 8.2, 4]),
        ("los_only", [4]),
        ("umi", [7.82, 4]),
        ("uma", [6, 4]),
        ("v2x_urban", [4, 3]),
        ("macro", [8]),
    ],
)
def test_shadowing_of_the_standards(model, sigmas):
    assert [state.shadow_db for state in link_states(100.0, Sidelink(model=model), GROUND)] == sigmas


def test_low_antennas_have_no_breakpoint():
    """The breakpoint of UMi would lie 93 m from a device; the slope must not change there."""
    in_sight = link_states([50, 100, 200, 400], Sidelink(model="umi"), GROUND)[-1].loss_db
    np.testing.assert_allclose(np.diff(in_sight), 21 * math.log10(2))


@given(models, fixed_modes, fadings, st.floats(1e3, 1e9))
def test_reach_inverts_the_rate(model, state_mode, fading, threshold):
    link = Sidelink(model=model, state_mode=state_mode, fading=fading, min_rate_bps=threshold)
    reach = sl.reach_m(link, GROUND)
    assert sl.rate_bps(reach, link, GROUND) == pytest.approx(threshold, rel=1e-6)
    assert sl.rate_bps(reach * (1 + 1e-9), link, GROUND) < threshold
    assert sl.rate_bps(reach * (1 - 1e-9), link, GROUND) >= threshold


@pytest.mark.parametrize("changes", [{}, {"shadowing": "drawn"}, {"state_mode": "sampled"}])
def test_reach_without_threshold_and_beyond_hope(changes):
    assert sl.reach_m(Sidelink(min_rate_bps=0.0, **changes), GROUND) == math.inf
    assert sl.reach_m(Sidelink(min_rate_bps=1e15, **changes), GROUND) == 0


RANDOM = [
    {"shadowing": "drawn"},
    {"state_mode": "sampled"},
    {"shadowing": "drawn", "state_mode": "sampled"},
    {"shadowing": "drawn", "state_mode": "mean_rate", "fading": "ergodic"},
]


@pytest.mark.parametrize("changes", RANDOM, ids=str)
@pytest.mark.parametrize("model", ["four_state", "umi", "v2x_urban", "macro"])
def test_random_reach_leaves_out_hardly_any_drawn_link(model, changes):
    link = Sidelink(model=model, **changes)
    reach = sl.reach_m(link, GROUND)
    rng = np.random.default_rng(0)
    count = 400_000
    # Uniform in the logarithm of distance, weighed by area: near and far links are seen equally well.
    distance = np.exp(rng.uniform(np.log(2.0), np.log(10 * reach), count))
    met = sl.pair_rate_bps(distance, np.arange(count), count, link, GROUND, seed=3) >= link.min_rate_bps
    weight = met * distance**2
    left_out = weight[distance > reach]
    error = np.sqrt((left_out**2).sum()) / weight.sum()
    assert left_out.sum() / weight.sum() <= 1e-4 + 4 * error


def left_out_share(chance, reach, turns=()):
    """Share of the links of evenly spread users that are longer than the reach, by quadrature."""
    ends = sorted({0.0, reach, 30 * reach, *turns})
    areas = [
        (low, integrate.quad(lambda r: chance(r) * r, low, high, limit=500, epsabs=0)[0])
        for low, high in pairwise(ends)
    ]
    return sum(area for low, area in areas if low >= reach) / sum(area for _, area in areas)


@pytest.mark.parametrize(("model", "sigma"), [("los_only", 4.0), ("macro", 8.0)])
def test_random_reach_with_one_state_and_shadowing(model, sigma):
    link = Sidelink(model=model, shadowing="drawn")
    needed_db = to_db(math.expm1(link.min_rate_bps / 1e9 * math.log(2)))
    median = Sidelink(model=model, shadow_margin_db=0.0)

    def chance(distance):
        return stats.norm.sf((needed_db - to_db(sl.sinr(distance, median, GROUND))) / sigma)

    reach = sl.reach_m(link, GROUND)
    share = left_out_share(chance, reach, turns=[reach / 30, reach / 10, reach / 3])
    assert 0.8e-4 < share <= 1e-4


def test_random_reach_with_sampled_states():
    """Each state of a UMi link has a sharp reach of its own; the state is what is drawn."""
    link = Sidelink(model="umi", state_mode="sampled")
    hidden_m, in_sight_m = (
        optimize.brentq(lambda d, i=i: budget_db(d) - link_states(d, link, GROUND)[i].loss_db, 1, 1e6) for i in (0, 1)
    )

    def chance(distance):
        hidden, in_sight = (float(state.weight) for state in link_states(distance, link, GROUND))
        return hidden * (distance <= hidden_m) + in_sight * (distance <= in_sight_m)

    reach = sl.reach_m(link, GROUND)
    share = left_out_share(chance, reach, turns=[18, 100, hidden_m, in_sight_m])
    assert share <= 1e-4
    assert left_out_share(chance, 0.98 * reach, turns=[18, 100, hidden_m, in_sight_m]) > 1e-4


def budget_db(_distance):
    """The loss at which a link of the default scenario just meets its threshold: 10 mW, 24 dB, 4 + 3 dB margins."""
    needed_db = to_db(math.expm1(3.5e5 / 1e9 * math.log(2)))
    return 10 + 24 - 4 - (-174 + 90 + 3) - needed_db


@given(models, fixed_modes, fadings, st.lists(st.floats(0, 2000), min_size=1, max_size=9), st.integers(0, 99))
def test_pairs_agree_with_distances_where_nothing_is_drawn(model, state_mode, fading, distances, seed):
    link = Sidelink(model=model, state_mode=state_mode, fading=fading)
    pairs = sl.pair_rate_bps(distances, np.arange(len(distances)), 500, link, GROUND, seed)
    np.testing.assert_array_equal(pairs, sl.rate_bps(distances, link, GROUND))


@pytest.mark.parametrize("changes", RANDOM, ids=str)
def test_draws_belong_to_the_unordered_pair_and_the_seed(changes):
    link = Sidelink(**changes)
    first, second = np.arange(1000), np.arange(1000)[::-1] + 2000
    distance = np.linspace(20, 400, 1000)
    there = sl.pair_rate_bps(distance, first, second, link, GROUND, seed=1)
    np.testing.assert_array_equal(there, sl.pair_rate_bps(distance, second, first, link, GROUND, seed=1))
    np.testing.assert_array_equal(there[7:9], sl.pair_rate_bps(distance[7:9], [7, 8], second[7:9], link, GROUND, 1))
    assert (there != sl.pair_rate_bps(distance, first, second, link, GROUND, seed=2)).mean() > 0.2
    with pytest.raises(FedcastError, match="pair_rate_bps"):
        sl.rate_bps(distance, link, GROUND)
    with pytest.raises(FedcastError, match="pair_rate_bps"):
        sl.sinr(distance, link, GROUND)


@pytest.mark.parametrize(("model", "sigma", "mean"), [("los_only", 4, 1.5283), ("macro", 8, None)])
def test_drawn_shadowing_is_log_normal_about_the_median(model, sigma, mean):
    link = Sidelink(model=model, shadowing="drawn", **ISOTROPIC)
    count = 200_000
    rates = sl.pair_rate_bps(np.full(count, 900.0), np.arange(count), count, link, GROUND, seed=0)
    sinrs = np.expm1(rates / 1e9 * math.log(2))
    median = sl.sinr(900.0, Sidelink(model=model, shadow_margin_db=0.0, **ISOTROPIC), GROUND)
    deviation_db = to_db(sinrs / median)
    assert deviation_db.mean() == pytest.approx(0, abs=4 * sigma / count**0.5)
    assert deviation_db.std() == pytest.approx(sigma, rel=0.01)
    if mean is not None:
        assert (sinrs / median).mean() == pytest.approx(mean, rel=0.02)


def test_sampled_states_come_as_often_as_they_should():
    link = Sidelink(state_mode="sampled")
    count, distance = 100_000, 100.0
    states = link_states(distance, link, GROUND)
    rates = sl.pair_rate_bps(np.full(count, distance), np.arange(count), count, link, GROUND, seed=5)
    for state in states:
        alone = Sidelink(model="los_only", reference_loss_db=float(state.loss_db - 20 * math.log10(28) - 42))
        expected = sl.rate_bps(distance, alone, GROUND)
        share = np.isclose(rates, expected, rtol=1e-9).mean()
        assert share == pytest.approx(float(state.weight), abs=4 * 0.5 / count**0.5)


def test_blocks_make_no_difference(monkeypatch):
    distance, ids = np.random.default_rng(0).uniform(1, 900, (50, 7)), np.arange(350).reshape(50, 7)
    link = Sidelink(shadowing="drawn", state_mode="sampled")
    whole = sl.pair_rate_bps(distance, ids, 1000, link, GROUND, 0), sl.rate_bps(distance, Sidelink(), GROUND)
    monkeypatch.setattr(sl, "_BLOCK_LINKS", 16)
    parts = sl.pair_rate_bps(distance, ids, 1000, link, GROUND, 0), sl.rate_bps(distance, Sidelink(), GROUND)
    for one, other in zip(whole, parts, strict=True):
        assert one.shape == (50, 7)
        np.testing.assert_allclose(one, other, rtol=1e-12)


@settings(max_examples=25)
@given(st.floats(1, 1000))
def test_empty_and_scalar_distances(distance):
    assert sl.rate_bps(distance, Sidelink(), GROUND).shape == ()
    assert sl.rate_bps([], Sidelink(), GROUND).shape == (0,)
