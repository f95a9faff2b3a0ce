"""Membership games against closed forms, SciPy, and faults planted on purpose."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import beta, mannwhitneyu, norm

from fedcast.cli.app import run as fedcast
from fedcast.errors import FedcastError
from fedcast.runs import attack_run, run_scenario
from fedcast.scenario import load_scenario
from fedcast.sharing import Held, Scores, Target, calibrated, gaussian_mu, joined, make_raw, play
from fedcast.sharing.mixed import MixedOptions, mix
from fedcast.sharing.prototypes import PrototypesOptions, make_prototypes
from fedcast.sharing.synthetic import SyntheticOptions, make_synthetic


def target(seed=0):
    """The first sample is as bright as can be, of class 0; the other one of class 1."""
    rng = np.random.default_rng(seed)
    inputs = rng.random((6, 1, 4, 4), dtype=np.float32)
    inputs[0] = 1.0
    return Target(Held(inputs, np.array([0, 0, 1, 1, 0, 1]), 2), 8, False, 0, np.ones((1, 4, 4), dtype=np.float32), 1)


def test_measures_against_privacy_guard():
    """PrivacyGuard's rates and AUC of the same scores, stored by make_privacy_guard.py."""
    stored = json.loads(Path(__file__).with_name("privacy_guard.json").read_text(encoding="utf-8"))
    for row in stored["rows"]:
        rng = np.random.default_rng([stored["seed"], int(10 * row["gap"])])
        inside, outside = (part + rng.standard_normal(stored["games"]) for part in (row["gap"], 0.0))
        scores = Scores(inside, outside)
        assert scores.auc == pytest.approx(row["auc"], abs=1e-9)
        assert scores.true_positives(0.01) == pytest.approx(row["tpr_at_1_percent"], abs=1e-9)
        assert scores.true_positives(0.001) == pytest.approx(row["tpr_at_01_percent"], abs=1e-9)


def test_measures_against_scipy():
    rng = np.random.default_rng(0)
    scores = Scores(rng.integers(0, 9, 400) + 1.0, rng.integers(0, 9, 300).astype(float))
    assert scores.auc == pytest.approx(mannwhitneyu(scores.inside, scores.outside).statistic / (400 * 300))
    exact = Scores(np.arange(1000) + 100.0, np.arange(1000.0))
    assert exact.true_positives(0.01) == pytest.approx(0.11)
    assert exact.true_positives(0.0) == pytest.approx(0.1)
    perfect = Scores(np.ones(500) + np.arange(500), np.zeros(500) - np.arange(500))
    error = 0.001 / 100
    bound = np.log((beta.ppf(error, 500, 1) - 1e-5) / (1 - beta.ppf(error, 500, 1)))
    assert perfect.proven_epsilon(1e-5) == pytest.approx(bound, rel=0.15), "both rates of a threshold in the middle"
    assert Scores(exact.outside, exact.outside).proven_epsilon(1e-5) == 0


def test_games_that_tell_nothing_prove_nothing():
    """Thresholds are chosen from the games themselves, which must not make luck a proof."""
    rng = np.random.default_rng(0)
    lucky = sum(Scores(*rng.normal(size=(2, 40))).proven_epsilon(0.0) > 0 for _ in range(1500))
    assert lucky <= 4  # 1.5 expected at most, at 99.9 % confidence


@pytest.mark.parametrize(("make", "options"), [
    (make_prototypes, PrototypesOptions(epsilon=4.0)), (make_synthetic, SyntheticOptions(epsilon=4.0, frequencies=4)),
])  # fmt: skip
def test_the_likelihood_ratio_is_that_of_the_closed_form(make, options):
    """With a release as far apart as data can be, log ratios are normal with mean ±μ²/2 and variance μ²."""
    ratios = play(make, target(), options, 300, 0, private=True).ratios
    mu, inside, outside = gaussian_mu(4.0, 1e-5), ratios.inside, ratios.outside
    if make is make_prototypes:
        assert inside.mean() == pytest.approx(mu**2 / 2, abs=0.16)
        assert outside.mean() == pytest.approx(-(mu**2) / 2, abs=0.16)
        assert inside.std() == pytest.approx(mu, rel=0.15)
        assert ratios.auc == pytest.approx(norm.cdf(mu / np.sqrt(2)), abs=0.06)
    # E[exp(−ratio)] = 1 for a true likelihood ratio, whatever the mechanism.
    assert np.exp(-inside).mean() == pytest.approx(1, abs=0.25)
    assert np.exp(outside).mean() == pytest.approx(1, abs=0.25)
    assert ratios.proven_epsilon(1e-5) <= 4
    assert ratios.auc <= norm.cdf(mu / np.sqrt(2)) + 0.06


def test_too_little_noise_is_found():
    """A kind that claims ε = 1 and spends 12."""
    careless = PrototypesOptions(epsilon=12.0)
    ratios = play(make_prototypes, target(), careless, 300, 0, private=True).ratios
    assert ratios.proven_epsilon(1e-5) > 1


def test_what_leaks_past_the_noise_is_found():
    """A kind that chooses classes by true counts: its noise is right, and a test still tells data sets apart."""

    def leaking(held, request, options):
        made = make_prototypes(held, request, options)
        return replace(made, labels=np.full(len(made.labels), np.bincount(held.labels).argmax()))

    inputs, labels = target().held.inputs, np.array([0, 0, 1, 1, 0, 1])
    odd = replace(target(), held=Held(inputs[:5], labels[:5], 2))  # three of class 0, then two
    ratios = play(leaking, odd, PrototypesOptions(epsilon=1.0), 200, 0, private=True).ratios
    assert ratios.auc == 1
    assert ratios.proven_epsilon(1e-5) > 1


def test_raw_and_mixed_samples_are_recognised():
    bright = replace(target(), volume=5, other_label=0, other_input=np.zeros((1, 4, 4), dtype=np.float32))
    played = play(make_raw, bright, None, 200, 0, private=False)
    assert played.ratios is None
    near = played.near
    assert calibrated(near).auc > 0.85, "it is sent in five of six games"
    near = play(mix, bright, MixedOptions(), 200, 0, private=False).near
    assert calibrated(near).auc > 0.7
    both = joined([calibrated(near), calibrated(near)])
    assert len(both.inside) == 200


@pytest.mark.parametrize("mu", [0.0, 0.5, 1.5])
def test_intervals_hold_the_true_rates(mu):
    """Scores N(±μ/2, 1): TPR = Φ(Φ⁻¹(FPR) + μ) and AUC = Φ(μ/√2), in 95 of 100 repetitions or more."""
    held, rate = {0.01: 0, "auc": 0}, norm.cdf(norm.ppf(0.01) + mu)
    for repetition in range(200):
        rng = np.random.default_rng([repetition, int(10 * mu)])
        scores = Scores(mu / 2 + rng.standard_normal(500), -mu / 2 + rng.standard_normal(500))
        low, high = scores.true_positives_interval(0.01)
        held[0.01] += low <= rate <= high
        low, high = scores.auc_interval
        held["auc"] += low <= norm.cdf(mu / np.sqrt(2)) <= high
        assert low <= scores.auc <= high
    assert held[0.01] >= 190
    assert 180 <= held["auc"] <= 198, "neither too narrow nor wider than it must be"
    many = Scores(mu + np.random.default_rng(0).standard_normal(10**5), np.random.default_rng(1).standard_normal(10**5))
    low, high = many.true_positives_interval(0.01)
    assert high - low < 0.06, "many games say more"
    assert scores.true_positives_interval(1e-4) == (0.0, pytest.approx(1.0, abs=1)), "500 games say nothing there"


def test_the_command(tmp_path, capsys):
    few = ("data.num_users=12", "clustering.rule=daca", "training.local_epochs=1", "training.rounds=1",
           "allocation.method=fixed", "sharing.kind=prototypes")  # fmt: skip
    folder = run_scenario(load_scenario(base="digits", overrides=few), tmp_path)
    assert fedcast(["attack", str(folder), "--targets", "2", "--draws", "20"]) == 0
    out = capsys.readouterr().out
    assert "likelihood ratio" in out
    assert "nearest sample" in out
    assert "shadow heads" in out
    assert "Reconstruction, prototypes: the nearest received sample differs" in " ".join(out.split())
    alone = run_scenario(load_scenario(base="digits", overrides=[*few, "clustering.rule=none"]), tmp_path)
    with pytest.raises(FedcastError, match="no head sent samples"):
        attack_run(alone)
    with pytest.raises(FedcastError, match="no run in this folder"):
        attack_run(tmp_path)
