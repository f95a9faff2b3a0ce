"""Closeness: the laws of scipy.stats, exact exceedance probabilities, symmetry, and no memory of other users."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from fedcast.errors import FedcastError
from fedcast.network.trust import (
    closeness,
    closeness_of_draws,
    communities_of,
    greatest_distance_m,
    least_draws,
)
from fedcast.scenario import Trust

SAMPLES = 400_000
SIGMAS = 4.5  # a right law fails once in 150,000 seeds
GENERATORS = ("uniform", "community", "contact", "distance")


def pairs(count: int = SAMPLES, users: int = 5_000) -> tuple[np.ndarray, np.ndarray]:
    draws = np.random.default_rng(1).integers(0, users, (2, count))
    different = draws[0] != draws[1]
    return draws[0][different], draws[1][different]


def assert_share(hits: np.ndarray, probability: float) -> None:
    deviation = np.sqrt(probability * (1 - probability) / len(hits))
    assert abs(hits.mean() - probability) < SIGMAS * deviation


def test_uniform_exceeds_one_half_half_of_the_time():
    close = closeness(*pairs(), Trust(), seed=11)
    assert_share(close >= 0.5, 0.5)
    assert stats.kstest(close, "uniform").pvalue > 1e-4


def test_community_exceeds_one_half_as_the_beta_laws_say():
    trust = Trust(generator="community")
    first, second = pairs()
    close = closeness(first, second, trust, seed=3)
    same = communities_of(first, trust, 3) == communities_of(second, trust, 3)
    assert_share(close[same] >= 0.5, 0.9375)
    assert_share(close[~same] >= 0.5, 0.0625)
    assert stats.kstest(close[same], stats.beta(6, 2).cdf).pvalue > 1e-4
    assert stats.kstest(close[~same], stats.beta(2, 6).cdf).pvalue > 1e-4


@pytest.mark.parametrize(("time_s", "mean", "probability"), [(186.0, 0.50299, 0.50935), (300.0, 0.66000, 0.82232)])
def test_contact_has_the_mean_and_exceedance_of_the_gamma_law(time_s, mean, probability):
    close = closeness(*pairs(), Trust(generator="contact", contact_time_s=time_s), seed=5)
    assert_share(close >= 0.5, probability)
    assert abs(close.mean() - mean) < SIGMAS * close.std() / np.sqrt(len(close))
    rates = -np.log1p(-close) / time_s
    assert stats.kstest(rates, stats.gamma(4.43, scale=1 / 1088).cdf).pvalue > 1e-4


def test_distance_adds_what_distance_explains_and_a_draw():
    trust = Trust(generator="distance", distance_share=0.4, distance_scale_m=200.0)
    first, second = pairs(100_000)
    distance = np.random.default_rng(0).uniform(0, 1000, len(first))
    rest = (closeness(first, second, trust, 2, distance) - 0.4 * np.exp(-distance / 200)) / 0.6
    assert stats.kstest(rest, "uniform").pvalue > 1e-4
    assert abs(np.corrcoef(rest, distance)[0, 1]) < 0.02


@pytest.mark.parametrize(
    ("trust", "together", "expected"),
    [
        (Trust(), True, 0.5),
        (Trust(min_closeness=0.8), True, 0.2),
        (Trust(generator="community"), True, 0.9375),
        (Trust(generator="community"), False, 0.0625),
        (Trust(generator="contact"), True, 0.50935),
        (Trust(generator="contact", contact_time_s=300.0), True, 0.82232),
        (Trust(generator="contact", min_closeness=1.0), True, 0.0),
    ],
)
def test_the_share_of_draws_above_the_least_is_the_exceedance_probability(trust, together, expected):
    least = least_draws(trust)
    assert 1 - (least[0] if together else least[1]) == pytest.approx(expected, abs=5e-6)


@pytest.mark.parametrize(("distance_m", "expected"), [(0.0, 1.0), (100.0, np.exp(-100 / 300)), (1e9, 0.0)])
def test_the_least_draw_of_distance_leaves_what_chance_leaves(distance_m, expected):
    assert 1 - least_draws(Trust(generator="distance"), distance_m)[0] == pytest.approx(expected, abs=1e-8)


def test_trust_by_distance_alone_needs_no_draw_near_by_and_has_none_far_away():
    trust = Trust(generator="distance", distance_share=1.0)
    assert least_draws(trust, 0.0)[0] == pytest.approx(0, abs=1e-8)
    assert least_draws(trust, 1e9)[0] == np.inf


@pytest.mark.parametrize("generator", GENERATORS)
def test_symmetric_seeded_in_range_and_one_with_oneself(generator):
    trust = Trust(generator=generator)
    first, second = pairs(20_000)
    distance = np.abs(first - second) / 10
    there, back = (closeness(a, b, trust, 7, distance) for a, b in ((first, second), (second, first)))
    assert (there == back).all()
    assert ((there >= 0) & (there <= 1)).all()
    assert (there == closeness(first, second, trust, 7, distance)).all()
    assert (there != closeness(first, second, trust, 8, distance)).mean() > 0.99
    assert (closeness(first, first, trust, 7, np.zeros(len(first))) == 1).all()


@pytest.mark.parametrize("generator", GENERATORS)
def test_other_users_change_nothing(generator):
    trust = Trust(generator=generator)
    users = np.arange(60)
    few = closeness(users[:20, None], users[None, :20], trust, 1, 50.0)
    many = closeness(users[:, None], users[None, :], trust, 1, 50.0)
    assert (few == many[:20, :20]).all()


def test_communities_are_all_used_and_even():
    trust = Trust(generator="community", communities=7)
    sizes = np.bincount(communities_of(np.arange(70_000), trust, 4), minlength=7)
    assert len(sizes) == 7
    assert stats.chisquare(sizes).pvalue > 1e-4


@pytest.mark.parametrize("generator", GENERATORS)
@pytest.mark.parametrize("threshold", [0.0, 0.4, 0.9])
def test_no_pair_below_the_least_draw_meets_the_threshold(generator, threshold):
    trust = Trust(generator=generator, min_closeness=threshold)
    for together, least in zip((True, False), least_draws(trust), strict=True):
        draws = np.random.default_rng(0).uniform(0, 1, 20_000)
        close = closeness_of_draws(draws, trust, together, np.zeros(len(draws)))
        assert (draws[close >= threshold] >= least).all()
        assert (close[draws > least + 1e-6] >= threshold).all()


def test_greatest_distance_is_where_the_best_draw_just_meets_the_threshold():
    trust = Trust(generator="distance", min_closeness=0.8)
    reach = greatest_distance_m(trust)
    assert closeness_of_draws(1.0, trust, distance_m=reach * 0.999) >= 0.8
    assert closeness_of_draws(1.0, trust, distance_m=reach * 1.001) < 0.8
    assert greatest_distance_m(Trust(generator="distance", min_closeness=0.5)) == np.inf
    assert greatest_distance_m(Trust(min_closeness=1.0)) == np.inf


def test_distance_is_asked_for():
    with pytest.raises(FedcastError, match="needs distance_m, the distance of each pair"):
        closeness(0, 1, Trust(generator="distance"), 0)
