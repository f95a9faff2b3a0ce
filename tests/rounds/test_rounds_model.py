"""Rounds against skew: values of the paper, derivatives, draws, fits, files."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import curve_fit, least_squares
from sklearn.isotonic import IsotonicRegression

from fedcast.errors import FedcastError
from fedcast.rounds import FORMS, RoundsFit, fit_accuracy, fit_rounds, load_fit, load_rounds, nmse, save_fit
from fedcast.rounds.fit_files import fit_from_json, fit_to_json
from fedcast.scenario import Rounds

PAPER = load_fit("paper-0.95").model("paper", round_scale=100.0)
BETAS = {
    "paper": [0.491, -1.826, 1.697],
    "theory": [4.0, 30.0],
    "extended": [3.0, 0.7, 1.4],
    "law": (3.0, 3.3, -0.8, 0.1, 0.05, -0.1, 0.7),
}


def test_the_papers_sets_as_printed():
    assert PAPER.rounds(0.0) == pytest.approx(100 / 1.697)
    assert PAPER.rounds(1.0) == pytest.approx(100 / (0.491 - 1.826 + 1.697))
    other = load_fit("paper-0.96").model("paper", round_scale=1.0)
    assert other.rounds(1.0) == pytest.approx(1 / (0.236 - 0.888 + 0.836))
    assert (PAPER.nmse, other.nmse) == (0.141, 0.063)


@pytest.mark.parametrize("form", FORMS)
def test_derivatives_are_those_of_the_curve(form):
    betas = np.array([BETAS[form], np.array(BETAS[form]) * 1.01])
    curve, step = FORMS[form].curve, 1e-5
    for skew, shift, steps in [(0.0, 0.0, 2.0), (0.7, 0.1, 40.0), (1.3, 0.2, 300.0)]:
        here = curve(betas, skew, shift, steps)
        before, after = curve(betas, skew - step, shift, steps), curve(betas, skew + step, shift, steps)
        np.testing.assert_allclose(here.slope, (after.rounds - before.rounds) / (2 * step), rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(here.curvature, (after.slope - before.slope) / (2 * step), rtol=1e-6, atol=1e-6)
        moved = curve(betas, skew, shift + step, steps).rounds - curve(betas, skew, shift - step, steps).rounds
        np.testing.assert_allclose(here.shift_slope, moved / (2 * step), rtol=1e-6, atol=1e-6)
        worked = curve(betas, skew, shift, steps + step).rounds - curve(betas, skew, shift, steps - step).rounds
        np.testing.assert_allclose(here.steps_slope, worked / (2 * step), rtol=1e-5, atol=1e-6)


def test_no_draw_has_a_pole_or_falls_and_the_rejected_are_counted():
    skews = np.linspace(0, 1.6, 200)
    betas = PAPER.draw(300, up_to=1.6, seed=3)
    rounds = np.stack([betas.curves(float(d)).rounds for d in skews])
    assert betas.size == 300
    assert (rounds > 0).all()
    assert (np.diff(rounds, axis=0) > 0).all()
    assert rounds.max() <= 100 * PAPER.max_rounds
    # Counted by hand: the same stream of noise, looked at vector by vector until 300 are sound.
    from fedcast.random import generator

    noise = generator(3, "rounds/paper-0.95/paper").standard_normal((50 * 300, 3))
    sound = rejected = 0
    for b1, b2, b3 in PAPER.beta * (1 + 0.01 * noise):
        q = b1 * skews**2 + b2 * skews + b3
        good = (q > 0).all() and (np.diff(q) < 0).all() and 1 / q[-1] <= PAPER.max_rounds
        sound, rejected = sound + good, rejected + (not good)
        if sound == 300:
            break
    assert betas.rejected == rejected > 100


def test_draws_depend_on_the_seed_alone_and_go_straight_on_beyond_their_end():
    a, b, c = PAPER.draw(5, 1.0, seed=1), PAPER.draw(5, 1.0, seed=1), PAPER.draw(5, 1.0, seed=2)
    np.testing.assert_array_equal(a.betas, b.betas)
    assert (a.betas != c.betas).any()
    end = a.curves(1.0)
    np.testing.assert_allclose(a.curves(1.5).rounds, end.rounds + 0.5 * end.slope)


def test_skews_and_targets_out_of_reach_are_errors():
    with pytest.raises(FedcastError, match=r"average EMD is 1.8, the fit covers 0 to 1.654; .*fit-rounds"):
        PAPER.rounds(1.8)
    with pytest.raises(FedcastError, match="average EMD is 1.7"):
        PAPER.draw(10, up_to=1.7)
    wild = replace(PAPER, beta=PAPER.beta * np.array([1, 1, 0.85]))
    with pytest.raises(FedcastError, match="too uncertain there"):
        wild.draw(10, up_to=1.6)
    aiming = replace(PAPER, accuracy=fit_accuracy([0, 0.5, 1, 1.5], [0.98, 0.975, 0.96, 0.935]))
    assert aiming.target_notes(1.0) == PAPER.target_notes(1.5) == ()
    assert re.search(
        r"target_accuracy = 0.95: runs of fit paper-0.95 reached 0.93\d+ .* 1.5", *aiming.target_notes(1.5)
    )
    aiming.check_target(1.5)


def test_accuracy_is_the_nearest_falling_curve():
    draw = np.random.default_rng(3)
    skew = draw.choice(np.linspace(0, 1.8, 12), 40)
    accuracy = np.clip(0.98 - 0.2 * np.maximum(skew - 1.4, 0) + 0.01 * draw.standard_normal(40), 0, 1)
    by_sklearn = IsotonicRegression(increasing=False).fit(skew, accuracy)
    found = fit_accuracy(skew, accuracy)
    asked = np.unique(np.concatenate([skew, draw.uniform(skew.min(), skew.max(), 50)]))
    np.testing.assert_allclose([found.at(one) for one in asked], by_sklearn.predict(asked), atol=1e-12)
    assert found.at(5.0) == found.accuracy[-1]


@pytest.mark.parametrize(
    ("name", "met_up_to", "missed_from"),
    [("mnist-0.95", 1.729, 1.74), ("mnist-0.97", 1.65, 1.66), ("digits-0.85", 1.77, 1.79), ("digits-0.9", 1.7, 1.72)],
)
def test_a_target_is_noted_where_training_collapses(name, met_up_to, missed_from):
    fit = load_fit(name)
    model = fit.model("paper")
    for skew, ended in zip(fit.runs["emd"], fit.runs["accuracy"], strict=True):
        assert model.accuracy.at(skew) == pytest.approx(ended, abs=0.025)
    assert model.target_notes(met_up_to) == ()
    assert "lower the target, or share more" in model.target_notes(missed_from)[0]


@pytest.mark.parametrize("form", ["paper", "theory"])
def test_a_fit_finds_the_curve_behind_noisy_runs_and_ignores_an_outlier(form):
    draw = np.random.default_rng(5)
    skew = np.tile(np.linspace(0, 1.5, 11), 4)
    truth = FORMS[form].curve
    beta = np.array(BETAS[form])
    exact = np.array([truth(beta[None], d, 0.0).rounds[0] for d in skew]) * 100
    noisy = exact * np.exp(0.05 * draw.standard_normal(len(skew)))
    spoilt = noisy.copy()
    spoilt[7] *= 8
    clean, robust = (fit_rounds(skew, r, target_accuracy=0.9, form=form, bootstrap=0) for r in (noisy, spoilt))

    def log_rounds(d, *parameters):
        denominator = (
            parameters[0] * d**2 + parameters[1] * d + parameters[2] if form == "paper" else parameters[0] - d**2
        )
        return -np.log(denominator) + (0 if form == "paper" else np.log(parameters[1]))

    start = beta / 100 if form == "paper" else beta * np.array([1, 100])
    theirs, _ = curve_fit(log_rounds, skew, np.log(noisy), p0=start)
    middle = [float(truth(b[None], 0.9, 0.0).rounds[0]) for b in (clean.beta, robust.beta, theirs)]
    assert middle[0] == pytest.approx(middle[2], rel=0.02)
    assert middle[1] == pytest.approx(middle[0], rel=0.02)
    assert clean.nmse < 0.05 < robust.nmse


def test_the_extended_form_finds_skew_and_shift():
    draw = np.random.default_rng(2)
    skew, shift = draw.uniform(0, 1.5, 60), draw.uniform(0, 0.4, 60)
    rounds = np.exp(3 + 0.7 * skew + 1.4 * shift + 0.02 * draw.standard_normal(60))
    model = fit_rounds(skew, rounds, shift=shift, target_accuracy=0.9, form="extended", bootstrap=30)
    by_lstsq = np.linalg.lstsq(np.stack([np.ones(60), skew, shift], axis=1), np.log(rounds), rcond=None)[0]
    np.testing.assert_allclose(model.beta, by_lstsq, rtol=0.02)
    np.testing.assert_allclose(model.samples.mean(axis=0), model.beta, rtol=0.05)
    assert len(model.samples) + model.rejected == 30
    with pytest.raises(FedcastError, match="shift of the overall label distribution is 0.9"):
        model.rounds(1.0, 0.9)


def runs_behind(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Skew, shift and rounds of the runs of a shipped fit that met its target."""
    columns = load_fit(name).runs
    skew, shift, rounds = (np.array(columns[column]) for column in ("emd", "shift", "rounds"))
    return skew[rounds > 0], shift[rounds > 0], rounds[rounds > 0]


@pytest.mark.parametrize("name", ["mnist-0.95", "mnist-0.97", "digits-0.85"])
def test_no_error_measure_straightens_the_logarithm_of_rounds(name):
    skew, shift, rounds = runs_behind(name)
    terms = np.stack([np.ones_like(skew), skew, shift], axis=1)
    line = terms @ np.linalg.lstsq(terms, np.log(rounds), rcond=None)[0]
    paper = np.array([load_fit(name).model("paper").rounds(float(d)) for d in skew])
    assert nmse(np.log(rounds), line) > 2 * nmse(np.log(rounds), np.log(paper))


def test_extended_fitted_to_rounds_would_lose_the_runs_of_little_skew():
    """A lower NMSE, but a quarter of the rounds where half of the users hold one class."""
    skew, shift, rounds = runs_behind("mnist-0.95")
    terms = np.stack([np.ones_like(skew), skew, shift], axis=1)
    model = load_fit("mnist-0.95").model("extended")
    beta = least_squares(lambda b: np.exp(terms @ b) - rounds, model.beta, x_scale="jac").x
    assert nmse(rounds, np.exp(terms @ beta)) < model.nmse
    half = (skew > 0.9) & (skew < 1) & (shift == 0)
    measured = rounds[half].mean()
    assert model.rounds(float(skew[half].mean())) == pytest.approx(measured, rel=0.1)
    assert np.exp(terms @ beta)[half].mean() < 0.4 * measured


def test_bootstrap_spreads_as_the_noise_does_and_its_draws_are_its_fits():
    skew = np.tile(np.linspace(0.1, 1.5, 8), 3)
    exact = 100 / (0.491 * skew**2 - 1.826 * skew + 1.697)
    spread = []
    for noise in (0.02, 0.2):
        rounds = exact * np.exp(noise * np.random.default_rng(1).standard_normal(len(skew)))
        model = fit_rounds(skew, rounds, target_accuracy=0.9, bootstrap=40)
        betas = model.draw(25, up_to=1.4)
        assert {tuple(row) for row in betas.betas} <= {tuple(row) for row in model.samples}
        spread.append(betas.curves(1.0).rounds.std())
    assert spread[1] > 3 * spread[0]


def test_runs_that_cannot_be_fitted_are_errors():
    for skew, rounds, words in [
        ([0.1, 0.2], [3, 4], "2 different skews, form 'paper' has 3 parameters"),
        ([0.1, 0.2, 0.3], [3, 4, 0], "run 2: skew 0.3, shift 0.0, rounds 0.0"),
        ([0.1, 0.2, 0.3], [3, 4], "one number of each for every run"),
    ]:
        with pytest.raises(FedcastError, match=words):
            fit_rounds(skew, rounds, target_accuracy=0.9)
    with pytest.raises(FedcastError, match="'extended' needs the distribution shift"):
        fit_rounds([0.1, 0.2, 0.3], [3, 4, 5], target_accuracy=0.9, form="extended")
    with pytest.raises(FedcastError, match="three different skews"):
        fit_accuracy([0.1, 0.1, 0.2], [0.9, 0.9, 0.8])


def test_a_fit_survives_its_file(tmp_path):
    skew = np.linspace(0, 1.5, 12)
    accuracy = fit_accuracy(skew, 0.98 - 0.02 * skew**2)
    models = {
        form: fit_rounds(
            skew, 50 / (3 - skew**2), target_accuracy=0.9, form=form, bootstrap=5, name="mine", accuracy=accuracy
        )
        for form in ("paper", "theory")
    }
    fit = RoundsFit("mine", models, {"skew": skew.tolist()}, "digits")
    save_fit(fit, tmp_path / "mine.json")
    assert [entry.name for entry in tmp_path.iterdir()] == ["mine.json"]
    again = load_rounds(Rounds(fit=str(tmp_path / "mine.json"), form="theory", target_accuracy=0.9))
    assert again.rounds(1.0) == pytest.approx(25.0, rel=1e-6)
    assert again.round_scale == 1.0
    assert again.accuracy is not None
    assert again.accuracy.at(skew[8]) == pytest.approx(0.98 - 0.02 * skew[8] ** 2)
    assert len(again.samples) == 5


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d.update(version=9), "version 9, this fedcast reads version 2"),
        (lambda d: d.pop("forms"), "invalid content .KeyError: 'forms'"),
        (lambda d: d["forms"]["paper"].update(beta=[1, 2]), "invalid content .ValueError"),
        (lambda d: d["forms"].update(cubic=d["forms"]["paper"]), "invalid content .KeyError: 'cubic'"),
        (lambda d: d.update(forms={}), "expected at least one form"),
        (lambda d: d.update(measure="tv"), "invalid measure 'tv': choose one of emd, js, kl"),
        (
            lambda d: d.update(accuracy={"skew": [1, 2], "accuracy": [0.8, 0.9], "nmse": 0}),
            "content .*must not increase",
        ),
    ],
)
def test_invalid_files_are_errors(change, words):
    document = json.loads(fit_to_json(load_fit("paper-0.95")))
    change(document)
    with pytest.raises(FedcastError, match=words):
        fit_from_json(json.dumps(document))


def test_names_forms_and_targets_must_fit_together():
    with pytest.raises(FedcastError, match="value 'nothing' for rounds.fit: no shipped fit and no file .*paper-0.95"):
        load_fit("nothing")
    with pytest.raises(FedcastError, match="not valid JSON"):
        fit_from_json("{")
    with pytest.raises(FedcastError, match="invalid value 'theory' for rounds.form: fit 'paper-0.95' has paper"):
        load_rounds(Rounds(form="theory", fit="paper-0.95"))
    with pytest.raises(FedcastError, match="value 0.97 for rounds.target_accuracy: fit 'paper-0.95' is for 0.95"):
        load_rounds(Rounds(target_accuracy=0.97, fit="paper-0.95"))


@pytest.mark.parametrize(
    ("form", "betas"),
    [
        ("paper", [[1, -2, 1.5], [1, -4, 5], [0, -1, 1], [-1, 0.1, 4], [-0.2, 0, 1], [0.491, -1.826, 1.697]]),
        ("theory", [[1.0, 1.0], [3.0, 1.0], [3.0, -1.0]]),
        ("extended", [[0.0, 1.0, 1.0], [0.0, -0.1, 1.0]]),
        (
            "law",
            [
                [3.0, 3.3, -0.8, 0.1, 0.05, -0.1, 0.7],
                [3.0, 1.0, -0.8, 0.1, 0.0, 0.0, 0.0],
                [3.0, 4.0, 0.0, 0.0, 0.5, -1.0, 0.0],
            ],
        ),
    ],
)
def test_valid_parameters_are_those_whose_curve_is_positive_and_nondecreasing(form, betas):
    table = np.array(betas, dtype=float)
    seen = set()
    for up_to in (0.5, 0.9, 1.5, 1.8):
        with np.errstate(divide="ignore"):
            skews = np.linspace(0, up_to, 4001)
            rounds = np.stack([FORMS[form].curve(table, float(d), 0.0, 3.0).rounds for d in skews])
        by_eye = (rounds > 0).all(axis=0) & (np.diff(rounds, axis=0) >= -1e-12).all(axis=0) & np.isfinite(rounds).all(0)
        assert FORMS[form].valid(table, up_to, 3.0).tolist() == by_eye.tolist()
        seen |= set(by_eye.tolist())
    assert seen == {True, False}
