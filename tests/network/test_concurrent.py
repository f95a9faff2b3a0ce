"""Heads that send at once, against a double loop in plain Python with the paper's formula written out again."""

import math
from statistics import NormalDist

import numpy as np
import pytest

from fedcast.errors import FedcastError
from fedcast.network import sidelink as sl
from fedcast.random import pair_uniform
from fedcast.scenario import Geometry, Sidelink

GROUND = Geometry()


def four_states(distance, link):
    distance = max(distance, link.min_distance_m)
    los = 1.0 if distance <= 18 else 18 / distance + math.exp(-distance / 36) * (1 - 18 / distance)
    radius = link.blocker_radius_m
    blocked = 1 - math.exp(-2 * link.blocker_density_per_m2 * radius * (distance + radius))
    carrier_db = 20 * math.log10(link.carrier_hz / 1e9)
    in_sight = 32.4 + 21 * math.log10(distance) + carrier_db
    hidden = 32.4 + 31.9 * math.log10(distance) + carrier_db
    return [
        ((1 - los) * blocked, hidden + 20, 8.2),
        (los * blocked, in_sight + 20, 4.0),
        ((1 - los) * (1 - blocked), hidden, 8.2),
        (los * (1 - blocked), in_sight, 4.0),
    ]


def received_by_state(first, second, positions, link, seed, gain_db, margin_db):
    states = four_states(math.dist(positions[first], positions[second]), link)
    if link.state_mode == "sampled":
        uniform, total = float(pair_uniform(seed, "sidelink state", first, second)), 0.0
        for state in states:
            total += state[0]
            if uniform < total:
                break
        states = [(1.0, *state[1:])]
    deviations = 0.0
    if link.shadowing == "drawn":
        margin_db = 0.0
        deviations = NormalDist().inv_cdf(float(pair_uniform(seed, "sidelink shadowing", first, second)))
    return [
        (weight, link.power_w * 10 ** ((gain_db - margin_db - loss + sigma * deviations) / 10))
        for weight, loss, sigma in states
    ]


def naive(positions, members, heads, link, seed, gain_db):
    rates = []
    for member, head in zip(members, heads, strict=True):
        noise = 10 ** ((-174 - 30 + link.noise_figure_db) / 10) * link.bandwidth_hz
        for other in set(heads):
            if other != head:
                noise += sum(w * p for w, p in received_by_state(other, member, positions, link, seed, gain_db, 0.0))
        own = received_by_state(head, member, positions, link, seed, 24.0, link.shadow_margin_db)
        if link.state_mode == "mean_rate":
            efficiency = sum(weight * math.log1p(power / noise) / math.log(2) for weight, power in own)
        else:
            efficiency = math.log1p(sum(weight * power for weight, power in own) / noise) / math.log(2)
        rates.append(link.bandwidth_hz * efficiency)
    return rates


def clusters(seed, users=60, heads=9):
    rng = np.random.default_rng(seed)
    positions = rng.uniform(-700, 700, (users, 2))
    senders = rng.choice(users, heads, replace=False)
    members = np.setdiff1d(np.arange(users), senders)
    return positions, members, rng.choice(senders, len(members))


@pytest.mark.parametrize("gain_db", [None, -3.0])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"state_mode": "mean_rate", "noise_figure_db": 7.0},
        {"shadowing": "drawn"},
        {"state_mode": "sampled"},
        {"shadowing": "drawn", "state_mode": "sampled"},
    ],
    ids=str,
)
def test_against_a_double_loop(monkeypatch, changes, gain_db):
    monkeypatch.setattr(sl, "_BLOCK_LINKS", 50)  # several blocks
    link = Sidelink(**changes)
    positions, members, heads = clusters(seed=1)
    ours = sl.concurrent_rate_bps(positions, members, heads, link, GROUND, seed=8, interferer_gain_db=gain_db)
    expected = naive(positions, members, heads, link, 8, 24.0 if gain_db is None else gain_db)
    np.testing.assert_allclose(ours, expected, rtol=1e-9)


def test_one_head_alone_has_thermal_noise_only():
    positions, members, _ = clusters(seed=2)
    head = int(np.setdiff1d(np.arange(60), members)[0])
    distance = np.linalg.norm(positions[members] - positions[head], axis=1)
    alone = sl.concurrent_rate_bps(positions, members, np.full(len(members), head), Sidelink(), GROUND, seed=0)
    np.testing.assert_allclose(alone, sl.rate_bps(distance, Sidelink(noise_rise_db=0.0), GROUND), rtol=1e-12)


def test_every_further_head_slows_everybody():
    positions, members, heads = clusters(seed=3)
    few = np.isin(heads, np.unique(heads)[:4])
    some = sl.concurrent_rate_bps(positions, members[few], heads[few], Sidelink(), GROUND, seed=0)
    all_of_them = sl.concurrent_rate_bps(positions, members, heads, Sidelink(), GROUND, seed=0)
    assert (all_of_them[few] < some).all()


def test_nobody_sends_and_receives_at_once():
    with pytest.raises(FedcastError, match="user 1 is a head and a member"):
        sl.concurrent_rate_bps(np.zeros((3, 2)), [1, 2], [0, 1], Sidelink(), GROUND, seed=0)


def test_no_members_no_rates():
    assert sl.concurrent_rate_bps(np.zeros((3, 2)), [], [], Sidelink(), GROUND, seed=0).shape == (0,)
