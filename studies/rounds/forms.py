"""Compare forms of the rounds model on settings that they were not fitted to.

    python studies/rounds/forms.py mnist 0.95 0.97

Every form is ln T = a - p ln(beta - D²) + terms, with D the average skew after sharing. Rounds are whole numbers and
some runs end before they meet the target, so that a run says T - 1 < t <= T, or t > T: the parameters maximise the
likelihood of these intervals with logistic errors of ln t. Eight folds of settings, then every kind of partition held
out entirely; errors are those of runs of the design that met the target, and an error below one round counts as 0.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from design import DESIGN_STEPS
from scipy.optimize import minimize

from fedcast.rounds.law import log_likelihood

HERE = Path(__file__).parent
BATCH = 10
FOLDS = 8
# Weak prior on all parameters but the first two: it only decides between forms that the runs cannot tell apart.
_RIDGE = 1e-3
_STARTS = (-3.0, -1.0, 1.0)


@dataclass(frozen=True)
class Runs:
    """All runs of a dataset: settings, accuracies, and measures of their data after sharing."""

    settings: list[dict]
    accuracies: list[np.ndarray]
    measures: dict[str, np.ndarray]

    def rounds_to(self, target: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the first round that met a target, or the last round, and whether the target was met."""
        hits = [np.flatnonzero(course >= target) for course in self.accuracies]
        met = np.array([len(hit) > 0 for hit in hits])
        rounds = [hit[0] if len(hit) else len(course) - 1 for hit, course in zip(hits, self.accuracies, strict=True)]
        return np.array(rounds, dtype=float), met


def read(dataset: str, parts: Sequence[str] = ("design", "tuning")) -> Runs:
    """Return the stored runs at learning rates that are not above the tuned one."""
    home = HERE / dataset
    accuracies = json.loads((home / "accuracy.json").read_text())
    settings = json.loads((home / "settings.json").read_text())
    largest = max(step for step, _ in DESIGN_STEPS[dataset])
    kept = {
        name: run for name, run in settings.items() if run["part"] in parts and run["step"] <= largest
    }  # fmt: skip
    with np.load(home / "counts.npz") as counts:
        rows = [
            measure(counts[f"{run['world']}/before"].astype(float), counts[f"{run['world']}/received"], run)
            for run in kept.values()
        ]
    columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    return Runs(list(kept.values()), [np.array(accuracies[name]) for name in kept], columns)


def measure(before: np.ndarray, received: np.ndarray, run: dict) -> dict[str, float]:
    """Return what is known of a run before it is trained."""
    counts = before + received
    counts, own = counts[counts.sum(axis=1) > 0], before.sum(axis=1)[counts.sum(axis=1) > 0]
    sizes = counts.sum(axis=1)
    overall, distributions, weights = before.sum(axis=0) / before.sum(), counts / sizes[:, None], sizes / sizes.sum()
    emd = np.abs(distributions - overall).sum(axis=1)
    middle = (distributions + overall) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(distributions > 0, distributions * np.log(distributions / middle), 0)
        js = (logs + np.where(overall > 0, overall * np.log(overall / middle), 0)).sum(axis=1) / 2
    return {
        "emd_a": emd.mean(), "emd_b": weights @ emd, "emd_c": own @ emd / own.sum(), "js": weights @ js,
        "shift": np.abs(weights @ distributions - overall).sum(),
        "epochs": run["epochs"], "volume": sizes.sum() / before.sum(), "step": run["step"],
        # Mean number of local steps in a round, users weighted by their own samples: linear in what heads send.
        "steps": run["epochs"] * float(own @ (sizes / BATCH + 0.5) / own.sum()),
    }  # fmt: skip


@dataclass(frozen=True)
class Form:
    """A form: which skew, whether the power p is fitted (else 1), and its terms."""

    skew: str
    free_power: bool
    terms: tuple[str, ...]


def terms_of(runs: Runs, form: Form) -> np.ndarray:
    """Return the terms of a form, float64[R, terms + 1], the constant first."""
    values, columns = runs.measures, [np.ones(len(runs.settings))]
    logs = {name: np.log(values[name]) for name in ("epochs", "volume", "step", "steps")}
    named = {
        **logs, "shift": values["shift"], "work": logs["epochs"] + logs["volume"] + logs["step"],
        "travel": logs["steps"] + logs["step"],
    }  # fmt: skip
    for term in form.terms:
        column = np.ones(len(runs.settings))
        for factor in term.split("*"):
            column = column * (values["emd_b"] ** 2 if factor == "D2" else named[factor])
        columns.append(column)
    return np.column_stack(columns)


CURVED = ("steps", "step", "travel*travel", "D2*travel")
SQUARES = ("steps", "step", "steps*steps", "step*step", "steps*step", "D2*steps", "D2*step")
FORMS = {
    "theory: skew alone": Form("emd_b", False, ()),
    "theory and shift": Form("emd_b", False, ("shift",)),
    "law, one exponent": Form("emd_b", False, ("work",)),
    "law, p = 1": Form("emd_b", False, ("epochs", "volume", "step")),
    "law": Form("emd_b", True, ("epochs", "volume", "step")),
    "law, weighting A": Form("emd_a", True, ("epochs", "volume", "step")),
    "law, weighting C": Form("emd_c", True, ("epochs", "volume", "step")),
    "law, JS": Form("js", True, ("epochs", "volume", "step")),
    "law and shift": Form("emd_b", True, ("epochs", "volume", "step", "shift")),
    "law, D and E interact": Form("emd_b", True, ("epochs", "volume", "step", "D2*epochs")),
    "local steps, p = 1": Form("emd_b", False, ("steps", "step")),
    "local steps": Form("emd_b", True, ("steps", "step")),
    "local steps and volume": Form("emd_b", True, ("steps", "step", "volume")),
    "curved, p = 1": Form("emd_b", False, CURVED),
    "curved and shift, p = 1": Form("emd_b", False, (*CURVED, "shift")),
    "curved": Form("emd_b", True, CURVED),
    "curved, JS": Form("js", True, CURVED),
    "curved and volume": Form("emd_b", True, (*CURVED, "volume")),
    "all squares": Form("emd_b", True, SQUARES),
    "all squares and shift, p = 1": Form("emd_b", False, (*SQUARES, "shift")),
    "all squares and shift": Form("emd_b", True, (*SQUARES, "shift")),
}  # fmt: skip


@dataclass(frozen=True)
class Fitted:
    """Parameters: pole beta, power p, weights of the terms, scale of the logistic errors."""

    pole: float
    power: float
    weights: np.ndarray
    scale: float

    def log_rounds(self, skew: np.ndarray, terms: np.ndarray) -> np.ndarray:
        """Return the median of ln T; infinite at the pole and beyond."""
        room = self.pole - skew**2
        return np.where(room > 0, -self.power * np.log(np.maximum(room, 1e-300)), np.inf) + terms @ self.weights


def fit(form: Form, skew: np.ndarray, terms: np.ndarray, rounds: np.ndarray, met: np.ndarray, reach: float) -> Fitted:
    """Return the parameters of largest likelihood; the pole lies above `reach`², the largest skew of all runs."""
    width = terms.shape[1]

    def split(x: np.ndarray) -> Fitted:
        power = float(np.exp(x[1])) if form.free_power else 1.0
        return Fitted(reach**2 * (1 + float(np.exp(x[0]))), power, x[2 : 2 + width], float(np.exp(x[-1])))

    def loss(x: np.ndarray) -> tuple[float, np.ndarray]:
        fitted = split(x)
        room = fitted.pole - skew**2
        likelihood, by_median, by_scale = log_likelihood(fitted.log_rounds(skew, terms), fitted.scale, rounds, met)
        by_pole = -(by_median / room).sum() * fitted.power * (fitted.pole - reach**2)
        by_power = -(by_median * np.log(room)).sum() * fitted.power if form.free_power else 0.0
        slope = np.concatenate([[by_pole, by_power], terms.T @ by_median, [by_scale.sum()]])
        prior = np.where(np.isin(np.arange(len(x)), (2, len(x) - 1)), 0.0, _RIDGE)
        return float(prior @ x**2 - likelihood.sum()), 2 * prior * x - slope

    bounds = [(-7, 4), (-2.5, 1.5), *[(None, None)] * width, (np.log(0.01), 0.0)]
    found = []
    for start in _STARTS:
        room = np.log(reach**2 * (1 + np.exp(start)) - skew**2)
        weights = np.linalg.lstsq(terms[met], (np.log(rounds) + room)[met], rcond=None)[0]
        first = np.concatenate([[start, 0.0], weights, [np.log(0.12)]])
        found.append(minimize(loss, first, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 500}))
    return split(min(found, key=lambda result: result.fun).x)


def held_out(runs: Runs, form: Form, target: float, groups: np.ndarray) -> dict[str, float]:
    """Return the errors when each group is predicted by a fit to the others."""
    rounds, met = runs.rounds_to(target)
    skew, terms = runs.measures[form.skew], terms_of(runs, form)
    median, scale = np.zeros(len(rounds)), np.zeros(len(rounds))
    for group in np.unique(groups):
        out = groups == group
        fitted = fit(form, skew[~out], terms[~out], rounds[~out], met[~out], float(skew.max()))
        median[out], scale[out] = fitted.log_rounds(skew[out], terms[out]), fitted.scale
    design = np.array([run["part"] == "design" for run in runs.settings])
    # A run ends its round on average half a round after it meets the target.
    miss = np.abs(np.exp(median) + 0.5 - rounds)
    errors = np.where(miss < 1, 0.0, miss / rounds)[design & met]
    low, high = (np.ceil(np.exp(median + sign * scale * np.log(19))) for sign in (-1, 1))
    covered = np.where(met, (low <= rounds) & (rounds <= high), high > rounds)[design]
    return {
        "median": round(float(np.median(errors)), 4), "p90": round(float(np.quantile(errors, 0.9)), 4),
        "covered": round(float(covered.mean()), 4), "runs": int((design & met).sum()),
    }  # fmt: skip


def any_smooth_law(runs: Runs, target: float, groups: np.ndarray) -> dict[str, float]:
    """Return the errors of a Gaussian process in D, ln s and ln η, fitted to runs that met the target.

    It can follow any smooth law: what it leaves is the noise of single runs and what other features would say.
    """
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    rounds, met = runs.rounds_to(target)
    values = runs.measures
    inputs = np.column_stack([values["emd_b"], np.log(values["steps"]), np.log(values["step"])])
    inputs = (inputs - inputs.mean(axis=0)) / inputs.std(axis=0)
    predicted = np.zeros(len(rounds))
    for group in np.unique(groups):
        out, known = groups == group, met & (groups != group)
        kernel = ConstantKernel(4.0) * RBF(np.full(3, 2.0), (0.3, 50)) + WhiteKernel(0.02)
        process = GaussianProcessRegressor(kernel, normalize_y=True).fit(inputs[known], np.log(rounds[known]))
        predicted[out] = np.exp(process.predict(inputs[out]))
    design = np.array([run["part"] == "design" for run in runs.settings])
    miss = np.abs(predicted - rounds)
    errors = np.where(miss < 1, 0.0, miss / rounds)[design & met]
    return {"median": round(float(np.median(errors)), 4), "p90": round(float(np.quantile(errors, 0.9)), 4)}


def main(dataset: str, targets: Sequence[float]) -> None:
    runs = read(dataset)
    kinds = np.array([run["partition"] for run in runs.settings])
    # Runs of one setting with different seeds belong to one fold.
    settings = [
        tuple(run[key] for key in ("partition", "level", "rule", "ratio", "epochs", "step")) for run in runs.settings
    ]
    numbers = {setting: number for number, setting in enumerate(dict.fromkeys(settings))}
    folds = np.random.default_rng(1).integers(0, FOLDS, len(numbers))[[numbers[setting] for setting in settings]]
    table = {}
    for target in targets:
        print(f"{dataset} {target}: {len(runs.settings)} runs, {int(runs.rounds_to(target)[1].sum())} met the target")
        for name, form in FORMS.items():
            settings_out, kind_out = (held_out(runs, form, target, groups) for groups in (folds, kinds))
            table[f"{target}, {name}"] = {"settings": settings_out, "kind": kind_out}
            shown = [
                f"{row['median']:6.1%} {row['p90']:6.1%} {row['covered']:6.1%}" for row in (settings_out, kind_out)
            ]
            print(f"  {name:24} {'   '.join(shown)}", flush=True)
        free = any_smooth_law(runs, target, folds)
        table[f"{target}, any smooth law"] = {"settings": free}
        print(f"  {'any smooth law':24} {free['median']:6.1%} {free['p90']:6.1%}", flush=True)
    (HERE / dataset / "forms.json").write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], [float(target) for target in sys.argv[2:]])
