"""Regressions within groups against scikit-learn with one indicator for each group, which must give the same."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from fedcast_paper.regression import explain_rounds


@pytest.fixture
def study():
    rng = np.random.default_rng(3)
    groups = np.repeat(np.arange(12), 7)
    seeds = groups % 4
    values = [{"js": js, "shift": shift} for js, shift in rng.random((len(groups), 2))]
    table = np.array([[row["js"], row["shift"]] for row in values])
    logs = 3 + 0.5 * groups + table @ [1.2, 0.7] + 0.1 * rng.standard_normal(len(groups))
    return values, np.exp(logs), groups, seeds, table, logs


def test_slopes_and_explained_share_are_those_of_indicators(study):
    values, rounds, groups, seeds, table, logs = study
    found = explain_rounds(values, rounds, groups.tolist(), seeds.tolist(), ("js", "shift"))
    indicators = np.eye(12)[groups]
    whole = LinearRegression(fit_intercept=False).fit(np.hstack([table, indicators]), logs)
    alone = LinearRegression(fit_intercept=False).fit(indicators, logs)
    left = ((logs - whole.predict(np.hstack([table, indicators]))) ** 2).sum()
    spread = ((logs - alone.predict(indicators)) ** 2).sum()
    assert found.slopes == pytest.approx(whole.coef_[:2])
    assert found.explained == pytest.approx(1 - left / spread)


def test_a_seed_is_predicted_from_the_others_only(study):
    values, rounds, groups, seeds, table, logs = study
    found = explain_rounds(values, rounds, groups.tolist(), seeds.tolist(), ("js",))
    centred = {}
    for name, column in (("x", table[:, 0]), ("y", logs)):
        centred[name] = column - np.array([column[groups == group].mean() for group in groups])
    error = 0.0
    for seed in range(4):
        inside, outside = seeds != seed, seeds == seed
        model = LinearRegression(fit_intercept=False).fit(centred["x"][inside, None], centred["y"][inside])
        error += ((centred["y"][outside] - model.predict(centred["x"][outside, None])) ** 2).sum()
    assert found.explained_unseen == pytest.approx(1 - error / (centred["y"] ** 2).sum())
    assert found.explained_unseen < found.explained


def test_rounds_that_do_not_differ_leave_nothing_to_explain():
    values = [{"js": 0.1}, {"js": 0.2}]
    assert explain_rounds(values, [5.0, 5.0], ["a", "a"], [0, 0], ("js",)).explained == 0.0
