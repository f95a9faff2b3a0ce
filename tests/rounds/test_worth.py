"""The worth of generated samples."""

import json

import numpy as np
import pytest

from fedcast.errors import FedcastError
from fedcast.rounds import Conditions, GeneratedRun, Worth, fit_worth, load_fit, save_fit, signal_of
from fedcast.rounds.fit_files import fit_from_json, fit_to_json

LAW = load_fit("mnist").law(0.95)


def run_at(signal, skew, truth, learning_rate=0.1):
    """Return a run as the law predicts it, whose head's samples have the true worth."""

    def conditions(worth):
        return skew * (1 - 0.6 * float(worth[0])), 60 + 40 * float(worth[0]), 0.1 * float(worth[0])

    signals = np.array([signal])
    skew_after, steps, shift = conditions(truth.at(signals))
    rounds = LAW.rounds(Conditions(skew_after, steps, learning_rate, shift))
    return GeneratedRun(signals, conditions, learning_rate, int(np.ceil(rounds)), met=True)


def test_worth_grows_with_the_signal_and_stays_within_its_top():
    worth = Worth(0.7, 50.0)
    found = worth.at([0.0, 10.0, 50.0, 1e9, np.inf])
    assert found[0] == 0
    assert (np.diff(found) >= 0).all()
    assert found[2] == pytest.approx(0.35)
    assert found[-1] == 0.7


def test_a_signal_is_the_privacy_loss_times_the_samples_of_a_class():
    counts = np.array([[600, 0], [300, 300], [0, 0]])
    np.testing.assert_allclose(signal_of(0.9, counts), [540.0, 270.0, 0.0])
    assert signal_of(np.inf, counts).tolist() == [np.inf, np.inf, 0.0]


def test_a_fit_recovers_the_worth_that_runs_were_made_with():
    truth = Worth(0.8, 100.0)
    runs = [run_at(signal, skew, truth) for signal in (20.0, 100.0, 500.0, 2000.0) for skew in (1.2, 1.35, 1.5)]
    fitted = fit_worth(LAW, runs, "made up")
    for signal in (20.0, 100.0, 500.0, 2000.0):
        assert fitted.at(signal) == pytest.approx(truth.at(signal), abs=0.07)
        low, high = fitted.interval(signal)
        assert low - 0.05 <= truth.at(signal) <= high + 0.05
    assert fitted.num_runs == 12
    assert fitted.signal_range == (20.0, 2000.0)
    # Useless samples are worth nothing, and raw ones 1.
    assert fit_worth(LAW, [run_at(100.0, skew, Worth(0.0, 1.0)) for skew in (1.2, 1.4, 1.5)]).at(100.0) < 0.03
    assert fit_worth(LAW, [run_at(np.inf, skew, Worth(1.0, 0.0)) for skew in (1.2, 1.4, 1.5)]).top > 0.8


def test_runs_that_do_not_meet_the_target_count_as_longer():
    late = [
        GeneratedRun(one.signals, one.conditions, one.learning_rate, 90, met=False)
        for one in (run_at(100.0, skew, Worth(1.0, 0.0)) for skew in (1.3, 1.4, 1.5))
    ]
    assert fit_worth(LAW, late).at(100.0) < 0.3


def test_few_runs_are_an_error():
    with pytest.raises(FedcastError, match="2 runs; expected 3 or more"):
        fit_worth(LAW, [run_at(100.0, 1.4, Worth(1.0, 0.0))] * 2)


def test_files_keep_worth_and_laws_between_targets_mix_it(tmp_path):
    fit = load_fit("mnist")
    text = fit_to_json(fit)
    again = fit_from_json(text)
    assert fit_to_json(again) == text
    save_fit(fit, tmp_path / "fit.json")
    low, high, middle = (load_fit(tmp_path / "fit.json").law(target).worth for target in (0.94, 0.95, 0.945))
    assert set(low) == {"prototypes", "synthetic"}
    for kind, worth in middle.items():
        ends = sorted((low[kind].top, high[kind].top))
        assert ends[0] <= worth.top <= ends[1]
        assert worth.source == "studies/protected"
        assert 0 <= worth.interval(500.0)[0] <= worth.interval(500.0)[1] <= 1
    document = json.loads(text)
    document["laws"][0]["worth"]["synthetic"]["top"] = 1.5
    with pytest.raises(FedcastError, match=r"top in \[0, 1\]"):
        fit_from_json(json.dumps(document))
