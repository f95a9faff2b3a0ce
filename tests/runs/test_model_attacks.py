"""Attacks on trained models."""

import numpy as np
import pytest
from scipy.stats import norm

from fedcast.cli.app import run as fedcast
from fedcast.errors import FedcastError
from fedcast.runs import AttackResult, attack_model, prepare_run, run_scenario
from fedcast.runs.model_attacks import _shadow, _targets, label_logits, shadow_scores
from fedcast.scenario import load_scenario
from fedcast.training import build_model

QUICK = (
    "data.num_users=6", "clustering.rule=daca", "allocation.method=fixed", "allocation.fixed.ratio=0.2",
    "training.local_epochs=1", "training.rounds=1", "training.model=mlp", "sidelink.min_rate_bps=1000",
    "trust.min_closeness=0", "training.compile=never",
)  # fmt: skip


def games(gap, shadows, targets, seed=0):
    """Return confidences whose means with and without a target differ by `gap` standard deviations."""
    rng = np.random.default_rng(seed)
    first = rng.random((shadows // 2, targets)) < 0.5
    inside = np.stack([first, ~first], axis=1).reshape(shadows, targets)
    level = 3 * rng.standard_normal(targets)
    return level + gap * inside + rng.standard_normal((shadows, targets)), inside


@pytest.mark.parametrize("gap", [0.0, 1.0, 2.0])
def test_scores_separate_as_well_as_the_best_test_of_two_normal_distributions(gap):
    scores = shadow_scores(*games(gap, shadows=400, targets=100))
    assert scores.auc == pytest.approx(norm.cdf(gap / np.sqrt(2)), abs=0.015)
    best = norm.sf(norm.isf(0.01) - gap)
    assert scores.true_positives(0.01) == pytest.approx(best, abs=0.03)


def test_a_run_is_not_compared_with_itself():
    """Confidences without any signal: a test that saw the attacked run in its means would find one."""
    scores = shadow_scores(*games(0.0, shadows=4, targets=2000))
    assert scores.auc == pytest.approx(0.5, abs=0.02)


def test_shadow_runs_train_without_the_samples_left_out():
    run = prepare_run(load_scenario(base="digits", overrides=QUICK))
    assert len(run.shared.ledger)
    targets = _targets(run, 40)
    shadow = _shadow(run, targets[:20], 3)
    assert not np.isin(targets[:20], shadow.shared.assignment.samples).any()
    assert np.isin(targets[20:], shadow.shared.assignment.samples).all()
    assert not np.isin(targets[:20], shadow.shared.ledger.samples).any()
    assert shadow.world.scenario.seed == run.world.scenario.seed + 4
    assert shadow.world.population.counts.sum() == run.world.population.counts.sum() - 20


def test_logits_are_those_of_the_labels():
    run = prepare_run(load_scenario(base="digits", overrides=QUICK))
    dataset, samples = run.world.population.dataset, np.arange(5)
    model = build_model("mlp", dataset.sample_shape, dataset.num_classes)
    import torch

    scores = model(torch.from_numpy(dataset.features(samples)))
    expected = torch.stack(
        [
            scores[place, label] - torch.logsumexp(torch.cat([scores[place, :label], scores[place, label + 1 :]]), 0)
            for place, label in enumerate(dataset.labels[samples])
        ]
    )
    np.testing.assert_allclose(label_logits(model, dataset, samples), expected.detach().numpy(), rtol=1e-4)


def test_the_command(monkeypatch, capsys):
    asked = {}

    def attack(run, **options):
        asked.update(options, run=str(run))
        return [AttackResult("trained model", 600, 0.55, 0.03, 0.01, 0.2, None)]

    monkeypatch.setattr("fedcast.runs.model_attacks.attack_model", attack)
    assert fedcast(["attack", "somewhere", "--model", "--shadows", "8"]) == 0
    assert (asked["run"], asked["targets"], asked["shadows"]) == ("somewhere", 200, 8)
    out = " ".join(capsys.readouterr().out.split())
    assert "trained model 1,200 0.030 0.010 0.550 0.20 none" in out
    assert "not independent" in out


def test_attack_of_a_run_with_and_without_sharing(tmp_path):
    folder = run_scenario(load_scenario(base="digits", overrides=QUICK), tmp_path)
    done = []
    found = attack_model(folder, targets=30, shadows=4, progress=done.append)
    assert [one.test for one in found] == ["trained model", "the same without sharing"]
    assert done == list(range(1, 9))
    assert all(one.games == 60 and 0 <= one.auc <= 1 and one.claimed_epsilon is None for one in found)
    with pytest.raises(FedcastError, match="invalid value 3 for shadows"):
        attack_model(folder, shadows=3)
    with pytest.raises(FedcastError, match="at most half"):
        attack_model(folder, targets=5000, shadows=4)
