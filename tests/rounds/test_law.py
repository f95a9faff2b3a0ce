"""The law of rounds: recovered from simulated runs, held against a likelihood written out by hand, and as shipped."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import logistic

from fedcast.errors import FedcastError, OutsideFitError
from fedcast.rounds import Conditions, RoundsFit, fit_law, load_fit, load_rounds, local_steps, save_fit
from fedcast.rounds.fit_files import fit_from_json, fit_to_json
from fedcast.rounds.law import between, log_likelihood, log_rounds
from fedcast.scenario import Rounds

STUDY = Path(__file__).parents[2] / "studies" / "rounds"
TRUTH = np.array([7.0, 3.6, -1.2, -1.0, 0.1, 0.06, 0.2, 0.05, 0.04, 0.9])


def simulated(count, seed, longest=90, scale=0.08):
    """Runs that follow the law with logistic noise, stopped after `longest` rounds."""
    draw = np.random.default_rng(seed)
    at = Conditions(
        draw.uniform(0, 1.75, count), draw.uniform(20, 400, count), draw.choice([0.05, 0.1, 0.2], count),
        draw.choice([0.0, 0.1, 0.4], count),
    )  # fmt: skip
    exact = np.exp(log_rounds(TRUTH, at) + draw.logistic(0, scale, count))
    met = exact <= longest
    return at, np.where(met, np.ceil(exact), longest), met


def test_the_formula_is_that_of_the_documentation():
    a, beta, by_steps, by_rate, steps_square, rate_square, both, skew_steps, skew_rate, by_shift = TRUTH
    skew, steps, rate, shift = 1.1, 75.0, 0.1, 0.3
    work, speed = math.log(steps), math.log(rate)
    by_hand = a - math.log(beta - skew**2) + by_steps * work + by_rate * speed
    by_hand += steps_square * work**2 + rate_square * speed**2 + both * work * speed
    by_hand += skew**2 * (skew_steps * work + skew_rate * speed)
    assert log_rounds(TRUTH, Conditions(skew, steps, rate)) == pytest.approx(by_hand, rel=1e-12)
    by_hand += by_shift * shift
    assert log_rounds(TRUTH, Conditions(skew, steps, rate, shift)) == pytest.approx(by_hand, rel=1e-12)


def test_censored_and_rounded_runs_do_not_bias_the_fit():
    at, rounds, met = simulated(1500, seed=0)
    assert 0.05 < (~met).mean() < 0.5
    law = fit_law(at, rounds, met, target_accuracy=0.9, bootstrap=0)
    new = Conditions(np.linspace(0, 1.7, 30), np.linspace(30, 380, 30), 0.1)
    np.testing.assert_allclose(log_rounds(law.theta, new), log_rounds(TRUTH, new), atol=0.05)
    assert law.theta[-1] == pytest.approx(TRUTH[-1], abs=0.1)
    assert law.scale == pytest.approx(0.08, rel=0.1)
    # Without the censored runs, those that happened to be fast are left, and long tasks look shorter than they are.
    biased = fit_law(Conditions(*(np.asarray(value)[met] for value in at)), rounds[met], met[met], target_accuracy=0.9,
                     bootstrap=0)  # fmt: skip
    late = Conditions(1.72, 25.0, 0.05)
    assert biased.rounds(late) < 0.9 * law.rounds(late)


def test_a_shift_never_saves_rounds():
    """Shorter runs at large shifts, as noise may make them, give a law that does not depend on the shift."""
    at, rounds, met = simulated(300, seed=5)
    shorter = np.ceil(rounds * np.exp(-2 * np.asarray(at.shift)))
    assert fit_law(at, shorter, met, target_accuracy=0.9, bootstrap=0).theta[-1] == 0


def test_intervals_cover_new_runs():
    at, rounds, met = simulated(300, seed=1)
    law = fit_law(at, rounds, met, target_accuracy=0.9, bootstrap=30)
    new, taken, reached = simulated(4000, seed=2, longest=10**6)
    assert reached.all()
    for level in (0.5, 0.9):
        low, high = law.interval(new, level)
        # Rounds are whole numbers, so that an interval covers a little more than its level.
        assert level - 0.03 < ((low <= taken) & (taken <= high)).mean() < level + 0.13


def test_the_likelihood_is_that_of_the_intervals():
    rounds, met = np.array([20.0, 1.0, 15.0, 30.0, 22.0]), np.array([True, True, True, False, False])
    median, scale = np.array([3.1, 0.2, 2.9, 3.5, 2.2]), 0.2
    found, by_median, by_scale = log_likelihood(median, scale, rounds, met)
    for run in range(5):
        error = logistic(median[run], scale)
        last, before = np.log(rounds[run]), np.log(rounds[run] - 1) if rounds[run] > 1 else -np.inf
        by_hand = error.cdf(last) - error.cdf(before) if met[run] else error.sf(last)
        assert found[run] == pytest.approx(np.log(by_hand), rel=1e-9)
    step = 1e-6
    slopes = [log_likelihood(median + sign * step, scale, rounds, met)[0] for sign in (1, -1)]
    np.testing.assert_allclose(by_median, (slopes[0] - slopes[1]) / (2 * step), rtol=1e-5, atol=1e-6)
    slopes = [log_likelihood(median, scale * np.exp(sign * step), rounds, met)[0] for sign in (1, -1)]
    np.testing.assert_allclose(by_scale, (slopes[0] - slopes[1]) / (2 * step), rtol=1e-5, atol=1e-6)


def test_beyond_the_pole_the_target_is_not_reachable():
    at, rounds, met = simulated(100, seed=3)
    law = fit_law(at, rounds, met, target_accuracy=0.9, bootstrap=5)
    beyond = Conditions(np.array([1.0, 2.5]), 60.0, 0.1)
    assert np.isfinite(law.rounds(beyond)).tolist() == [True, False]
    low, high = law.interval(beyond)
    assert np.isfinite(high).tolist() == [True, False]
    assert not np.isnan([*low, *high]).any()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda at, rounds, met: (at._replace(steps=np.zeros(40)), rounds, met), "local steps 0"),
        (lambda at, rounds, met: (at, np.where(met, np.nan, 3), met), "rounds nan"),
        (lambda at, rounds, met: (at, rounds[:-1], met), "expected equal lengths"),
        (lambda at, rounds, met: (at, rounds, np.arange(40) < 12), "12 of 40 runs met the target, at 12 different"),
        (lambda at, rounds, met: (at._replace(skew=np.full(40, -0.1)), rounds, met), "skew -0.1"),
        (lambda at, rounds, met: (at._replace(shift=np.full(40, -0.1)), rounds, met), "shift -0.1"),
    ],
)
def test_invalid_runs_are_errors(change, message):
    with pytest.raises(FedcastError, match=message):
        fit_law(*change(*simulated(40, seed=4)), target_accuracy=0.9, bootstrap=0)


def test_local_steps_are_linear_in_what_users_receive():
    own = np.array([100.0, 300.0, 50.0])
    before, middle, after = (local_steps(own, own + part * np.array([60.0, 0.0, 90.0]), 3, 10) for part in (0, 0.5, 1))
    assert middle == pytest.approx((before + after) / 2)
    assert before == pytest.approx(3 * sum(n / 450 * (n / 10 + 0.5) for n in own))


@pytest.mark.parametrize(("dataset", "target"), [("mnist", 0.95), ("mnist", 0.97), ("digits", 0.85)])
def test_shipped_laws_predict_the_stored_runs(dataset, target):
    """From raw accuracies and class counts, with measures computed here."""
    settings = json.loads((STUDY / dataset / "settings.json").read_text())
    accuracies = json.loads((STUDY / dataset / "accuracy.json").read_text())
    law = load_fit(dataset).law(target)
    errors = []
    with np.load(STUDY / dataset / "counts.npz") as counts:
        for name, run in settings.items():
            hits = np.flatnonzero(np.array(accuracies[name]) >= target)
            if run["part"] != "design" or not len(hits):
                continue
            before = counts[f"{run['world']}/before"].astype(float)
            after = before + counts[f"{run['world']}/received"]
            overall, sizes = before.sum(axis=0) / before.sum(), after.sum(axis=1)
            emd = np.abs(after / np.maximum(sizes, 1)[:, None] - overall).sum(axis=1)
            steps = local_steps(before.sum(axis=1), sizes, run["epochs"], 10)
            shift = np.abs(after.sum(axis=0) / after.sum() - overall).sum()
            predicted = law.rounds(Conditions(sizes @ emd / sizes.sum(), steps, run["step"], shift)) + 0.5
            errors.append(0.0 if abs(predicted - hits[0]) < 1 else abs(predicted - hits[0]) / hits[0])
    assert len(errors) > 250
    assert np.median(errors) <= (0.15 if dataset == "digits" else 0.05)
    assert np.quantile(errors, 0.9) <= (0.4 if dataset == "digits" else 0.3)


def test_a_law_at_one_learning_rate_is_a_rounds_model(tmp_path):
    law = load_fit("mnist").law(0.955)
    model = load_rounds(Rounds(fit="mnist", form="law", target_accuracy=0.955), learning_rate=0.1)
    for skew, steps in [(0.3, 61.0), (1.4, 61.0), (1.4, 300.0)]:
        # The law's time is continuous; training ends with a whole round, half a round later on average.
        for shift in (0.0, 0.2):
            by_law = float(law.rounds(Conditions(skew, steps, 0.1, shift))) + 0.5
            assert model.rounds(skew, shift, steps) == pytest.approx(by_law)
            low, high = law.interval(Conditions(skew, steps, 0.1, shift))
            assert model.interval(skew, steps, shift) == (low, high)
    betas = model.draw(50, up_to=1.5, steps=60.0)
    assert betas.expected(1.0, steps=60.0).rounds == pytest.approx(model.rounds(1.0, steps=60.0), rel=0.05)
    assert betas.expected(1.0, steps=60.0).by_steps < 0
    save_fit(load_fit("mnist"), tmp_path / "again.json")
    again = load_fit(tmp_path / "again.json")
    assert again.laws[2].theta.tolist() == load_fit("mnist").laws[2].theta.tolist()
    assert isinstance(again, RoundsFit)


def test_older_files_are_read():
    """With six parameters: one square and one slope by D² of ln(s η), and no shift."""
    document = json.loads(fit_to_json(load_fit("mnist")))
    a, beta, by_steps, by_rate, square, both = older = [5.4, 3.3, -1.4, -1.2, 0.13, 0.04]
    for law in document["laws"]:
        law["theta"], law["samples"] = older, [older] * 3
    law = fit_from_json(json.dumps(document)).law(0.95)
    assert law.samples.shape == (3, 10)
    skew, steps, rate = 1.1, 75.0, 0.1
    x = math.log(steps * rate)
    by_hand = a - math.log(beta - skew**2) + by_steps * math.log(steps) + by_rate * math.log(rate)
    by_hand += square * x**2 + both * skew**2 * x
    for shift in (0.0, 0.5):
        assert np.log(law.rounds(Conditions(skew, steps, rate, shift))) == pytest.approx(by_hand)


def test_between_two_targets_lies_between_their_rounds():
    low, high = load_fit("mnist").law(0.95), load_fit("mnist").law(0.96)
    at = Conditions(np.linspace(0, 1.7, 9), 60.0, 0.1)
    middle = between(low, high, 0.955)
    assert ((low.rounds(at) < middle.rounds(at)) & (middle.rounds(at) < high.rounds(at))).all()
    assert between(low, high, 0.95).rounds(at) == pytest.approx(low.rounds(at))


def test_outside_of_targets_and_rates_is_said():
    with pytest.raises(OutsideFitError, match="covers 0.85 to 0.97"):
        load_fit("mnist").law(0.99)
    with pytest.raises(OutsideFitError, match=r"learning_rate = 0.9: fit 'mnist' covers 0.025 to 0.2"):
        load_fit("mnist").law(0.95).model("mnist", 0.9)
    with pytest.raises(FedcastError, match="give `learning_rate`"):
        load_rounds(Rounds(fit="mnist", form="law"))
    with pytest.raises(FedcastError, match="'law' for rounds.form: fit 'mnist-0.95' has"):
        load_fit("mnist-0.95").law(0.95)
    with pytest.raises(FedcastError, match="'paper' for rounds.form: fit 'mnist' has law"):
        load_fit("mnist").model("paper")
    with pytest.raises(FedcastError, match="covers 0.85 to 0.97"):
        replace(load_fit("mnist")).law(0.5)
