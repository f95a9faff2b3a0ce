"""Read and write fits: versioned JSON with forms of skew for one target accuracy, laws for several targets, or both."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import numpy as np

from fedcast.errors import FedcastError, OutsideFitError
from fedcast.io import write_file
from fedcast.rounds.domain import FitDomain
from fedcast.rounds.forms import FORMS, FormName
from fedcast.rounds.law import PARAMETERS as LAW_PARAMETERS
from fedcast.rounds.law import RoundsLaw, between
from fedcast.rounds.model import AccuracyFit, MeasureName, RoundsModel
from fedcast.rounds.worth import Worth
from fedcast.scenario import Rounds
from fedcast.text_files import is_file, parse_json, read_text

VERSION = 2
_DIGITS = 8
# Targets that differ by less are the same.
_SAME = 1e-9
# The fit of datasets that have none of their own.
_USUAL_FIT = "mnist"


@dataclass(frozen=True, eq=False)
class RoundsFit:
    """All models that were fitted to one set of runs."""

    name: str  # of the fit
    models: Mapping[FormName, RoundsModel]  # by form; all with the same target
    runs: Mapping[str, list[float]]  # the training runs, columns by name; empty where they are not known
    dataset: str  # on which the runs trained
    laws: tuple[RoundsLaw, ...] = ()  # by ascending target; all fitted to the same runs
    source: str = ""  # of the runs of the laws
    domain: FitDomain | None = None  # of the runs; None: only the dataset is known

    @property
    def targets(self) -> tuple[float, ...]:
        """Target accuracies of the laws, ascending."""
        return tuple(law.target_accuracy for law in self.laws)

    @property
    def measure(self) -> MeasureName:
        """Measure of skew that the rounds are a function of."""
        return next((model.measure for model in self.models.values()), "emd")

    def form(self, asked: FormName | Literal["auto"]) -> FormName:
        """Return the form that is asked for; ``auto``: law if the fit has it, else paper."""
        if asked != "auto":
            return asked
        return "law" if self.laws else "paper"

    def model(self, form: FormName, round_scale: float = 1.0) -> RoundsModel:
        """Return the model of a form of skew.

        Args:
            form: name of the form.
            round_scale: rounds per unit, for a fit of unknown unit (the paper's); others are in rounds.
        """
        if form not in self.models:
            known = [*self.models, *(["law"] if self.laws else [])]
            raise FedcastError(
                f"invalid value {form!r} for rounds.form: fit {self.name!r} has {', '.join(known)}; choose "
                f"one of these, or make a fit with `fedcast fit-rounds`"
            )
        model = self.models[form]
        return replace(model, round_scale=round_scale) if np.isnan(model.round_scale) else model

    def law(self, target_accuracy: float) -> RoundsLaw:
        """Return the law for a target accuracy, interpolated between those that were fitted.

        Example:
            >>> law = load_fit("mnist").law(0.955)
            >>> bool(load_fit("mnist").law(0.95).theta[0] < law.theta[0] < load_fit("mnist").law(0.96).theta[0])
            True
        """
        if not self.laws:
            raise FedcastError(
                f"invalid value 'law' for rounds.form: fit {self.name!r} has {', '.join(self.models)}; choose one of "
                f"these, or a fit with laws"
            )
        targets = self.targets
        if not targets[0] - _SAME <= target_accuracy <= targets[-1] + _SAME:
            raise OutsideFitError(
                f"invalid value {target_accuracy} for rounds.target_accuracy: fit {self.name!r} covers {targets[0]} to "
                f"{targets[-1]}; choose a target in this range, or another fit"
            )
        place = int(np.clip(np.searchsorted(targets, target_accuracy), 1, len(targets) - 1))
        return between(self.laws[place - 1], self.laws[place], target_accuracy)


def load_rounds(settings: Rounds, learning_rate: float | None = None, dataset: str = "") -> RoundsModel:
    """Return the rounds model that a scenario names; form ``law`` needs the learning rate, fit ``auto`` the dataset.

    Laws are interpolated between the targets of a fit. For a target outside their range the rounds are those to the
    nearest one; `fit_notes` says so.

    Example:
        >>> load_rounds(Rounds(), learning_rate=0.1, dataset="digits").name
        'digits'
    """
    fit = fit_of(settings, dataset)
    form = fit.form(settings.form)
    if form == "law":
        if learning_rate is None:
            raise FedcastError("rounds.form = law: the rounds depend on the learning rate; give `learning_rate`")
        target = float(np.clip(settings.target_accuracy, fit.targets[0], fit.targets[-1])) if fit.laws else 0.0
        return fit.law(target).model(fit.name, learning_rate, fit.source)
    model = fit.model(form, settings.round_scale)
    if abs(model.target_accuracy - settings.target_accuracy) > _SAME:
        raise OutsideFitError(
            f"invalid value {settings.target_accuracy} for rounds.target_accuracy: fit {fit.name!r} is for "
            f"{model.target_accuracy}; choose the fit of your target, or set the target to that of the fit"
        )
    return model


def fit_of(settings: Rounds, dataset: str) -> RoundsFit:
    """Return the fit that a scenario names; ``auto`` is the law of its dataset, or that of MNIST.

    Example:
        >>> fit_of(Rounds(), "digits").name, fit_of(Rounds(), "cifar10").name
        ('digits', 'mnist')
    """
    if settings.fit != "auto":
        return load_fit(settings.fit)
    return load_fit(dataset if dataset in shipped_fits() else _USUAL_FIT)


def shipped_fits() -> list[str]:
    """Return the names of the fits that come with fedcast.

    Example:
        >>> [name for name in shipped_fits() if name.startswith("paper")]
        ['paper-0.95', 'paper-0.96']
    """
    folder = files("fedcast.rounds") / "fits"
    return sorted(entry.name.removesuffix(".json") for entry in folder.iterdir() if entry.name.endswith(".json"))


def load_fit(name: str | Path) -> RoundsFit:
    """Load a shipped fit by its name, or your own by its path.

    Example:
        >>> load_fit("paper-0.96").models["paper"].nmse
        0.063
    """
    if str(name) in shipped_fits():
        return _read(Path(str(files("fedcast.rounds") / "fits" / f"{name}.json")), str(name), 0, 0)
    if not is_file(name):
        raise FedcastError(
            f"invalid value {str(name)!r} for rounds.fit: no shipped fit and no file has this name; shipped fits are "
            f"{', '.join(shipped_fits())}"
        )
    state = Path(name).stat()
    return _read(Path(name).resolve(), str(name), state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=16)
def _read(path: Path, where: str, *_state: int) -> RoundsFit:
    """Read a fit; again only if its file has changed, since a plan asks for it several times."""
    return fit_from_json(read_text(path), where)


def save_fit(fit: RoundsFit, path: str | Path) -> None:
    """Write a fit atomically."""
    write_file(path, fit_to_json(fit))


def fit_to_json(fit: RoundsFit) -> str:
    """Return a fit as JSON text.

    Example:
        >>> text = fit_to_json(load_fit("paper-0.95"))
        >>> fit_to_json(fit_from_json(text)) == text
        True
    """
    document: dict[str, Any] = {"version": VERSION, "name": fit.name, "dataset": fit.dataset, "source": fit.source}
    if fit.domain is not None:
        document["domain"] = {"values": fit.domain.values, "skew_range": _numbers(fit.domain.skew_range)}
    if fit.models:
        first = next(iter(fit.models.values()))
        accuracy = first.accuracy
        document |= {
            "target_accuracy": first.target_accuracy,
            "measure": first.measure,
            "source": first.source,
            "accuracy": accuracy and {name: _numbers(values) for name, values in vars(accuracy).items()},
            "forms": {form: _model_to_json(model) for form, model in fit.models.items()},
        }
    if fit.models or fit.runs:
        document["runs"] = {column: _numbers(values) for column, values in fit.runs.items()}
    if fit.laws:
        document["laws"] = [_law_to_json(law) for law in fit.laws]
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


def fit_from_json(text: str, where: str = "fit") -> RoundsFit:
    """Return the fit of a JSON text; `where` names it in errors."""
    document = parse_json(text, f"rounds.fit {where}")
    if not isinstance(document, dict) or document.get("version") != VERSION:
        found = document.get("version") if isinstance(document, dict) else type(document).__name__
        raise FedcastError(
            f"rounds.fit {where}: version {found!r}, this fedcast reads version {VERSION}; make the fit again with "
            f"`fedcast fit-rounds`"
        )
    try:
        forms = document.get("forms", {}) if "laws" in document else document["forms"]
        models = {form: _model_from_json(form, entry, document) for form, entry in forms.items()}
        laws = tuple(_law_from_json(entry) for entry in document.get("laws", ()))
        columns = document.get("runs", {}).items()
        runs = {str(column): _array(values, (len(values),)).tolist() for column, values in columns}
        named = str(document["name"]), models, runs, str(document["dataset"])
        fit = RoundsFit(*named, laws, str(document["source"]), _domain_from_json(document.get("domain")))
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise FedcastError(
            f"rounds.fit {where}: invalid content ({type(error).__name__}: {error}); make the fit again with "
            f"`fedcast fit-rounds`"
        ) from error
    if not fit.models and len(fit.laws) < 2:
        fault = "expected at least one form, or laws for two targets"
        raise FedcastError(f"rounds.fit {where}: {fault}; make the fit with `fedcast fit-rounds`")
    return fit


def _model_to_json(model: RoundsModel) -> dict[str, Any]:
    return {
        "beta": _numbers(model.beta),
        "nmse": _numbers(model.nmse),
        "skew_range": list(model.skew_range),
        "shift_range": list(model.shift_range),
        "max_rounds": model.max_rounds,
        "round_scale": None if np.isnan(model.round_scale) else model.round_scale,
        "relative_noise": model.relative_noise,
        "rejected": model.rejected,
        "samples": _numbers(model.samples),
    }


def _model_from_json(form: FormName, entry: Mapping[str, Any], document: Mapping[str, Any]) -> RoundsModel:
    width = len(FORMS[form].parameters)
    scale, accuracy = entry["round_scale"], document["accuracy"]
    return RoundsModel(
        document["name"],
        form,
        _array(entry["beta"], (width,)),
        _finite(document["target_accuracy"]),
        _finite(entry["nmse"]),
        (_finite(entry["skew_range"][0]), _finite(entry["skew_range"][1])),
        _finite(entry["max_rounds"]),
        shift_range=(_finite(entry["shift_range"][0]), _finite(entry["shift_range"][1])),
        round_scale=float("nan") if scale is None else _finite(scale),
        measure=document["measure"],
        samples=_array(entry["samples"], (len(entry["samples"]), width)),
        relative_noise=_finite(entry["relative_noise"]),
        rejected=int(entry["rejected"]),
        accuracy=None if accuracy is None else _accuracy_from_json(accuracy),
        source=document["source"],
    )


def _law_to_json(law: RoundsLaw) -> dict[str, Any]:
    entry = {name: _numbers(value) for name, value in vars(law).items() if name != "worth"}
    worth = {
        kind: {name: value if name in ("num_runs", "source") else _numbers(value) for name, value in vars(one).items()}
        for kind, one in law.worth.items()
    }
    return entry | ({"worth": worth} if worth else {})


def _worth_from_json(entry: Mapping[str, Any]) -> Worth:
    samples = _array(entry["samples"], (len(entry["samples"]), 2))
    low, high = _array(entry["signal_range"], (2,)).tolist()
    known = int(entry["num_runs"]), str(entry["source"])
    worth = Worth(_finite(entry["top"]), _finite(entry["half"]), (low, high), *known, samples)
    tops, halves = np.append(samples[:, 0], worth.top), np.append(samples[:, 1], worth.half)
    if not (((tops >= 0) & (tops <= 1)).all() and (halves >= 0).all()):
        raise ValueError("worth: expected top in [0, 1] and half ≥ 0")
    return worth


def _law_parameters(values: Any) -> np.ndarray:
    """Return parameters of laws, float64[..., 10], also of older files.

    Those have six: one square of ln(s η), one slope by D² ln(s η), and no shift.
    """
    width, old = len(LAW_PARAMETERS), 6
    rows = np.array(values, dtype=np.float64)
    if rows.shape[-1:] != (old,):
        return _array(values, (*rows.shape[:-1], width))
    a, beta, steps, rate, square, skew = np.moveaxis(_array(values, rows.shape), -1, 0)
    return np.stack([a, beta, steps, rate, square, square, 2 * square, skew, skew, np.zeros_like(a)], axis=-1)


def _law_from_json(entry: Mapping[str, Any]) -> RoundsLaw:
    values: dict[str, Any] = {name: _finite(entry[name]) for name in ("target_accuracy", "scale", "nmse", "max_rounds")}
    values |= {name: tuple(_array(entry[name], (2,)).tolist()) for name in ("skew_range", "steps_range", "rate_range")}
    theta, samples = (_law_parameters(entry[name]) for name in ("theta", "samples"))
    worth = {str(kind): _worth_from_json(one) for kind, one in entry.get("worth", {}).items()}
    return RoundsLaw(**values, theta=theta, samples=samples, worth=worth)


def _domain_from_json(entry: Mapping[str, Any] | None) -> FitDomain | None:
    if entry is None:
        return None
    low, high = _array(entry["skew_range"], (2,)).tolist()
    return FitDomain({name: tuple(values) for name, values in entry["values"].items()}, (low, high))


def _accuracy_from_json(entry: Mapping[str, Any]) -> AccuracyFit:
    knots = (len(entry["skew"]),)
    skew, accuracy = (_array(entry[name], knots) for name in ("skew", "accuracy"))
    if not len(skew) or (np.diff(skew) < 0).any() or (np.diff(accuracy) > 0).any():
        raise ValueError("accuracy must not increase with skew")
    return AccuracyFit(skew, accuracy, _finite(entry["nmse"]))


def _finite(value: Any) -> float:
    number = float(_array(value, ()))
    if isinstance(value, str | bool):
        raise TypeError(f"{value!r:.80} is not a number")
    return number


def _array(values: Any, shape: tuple[int, ...]) -> np.ndarray:
    array = np.array(values, dtype=np.float64).reshape(shape)
    if not np.isfinite(array).all():
        raise ValueError("a number is not finite")
    return array


def _numbers(values: Any) -> Any:
    """Return a number or an array as rounded numbers in lists."""
    if np.ndim(values):
        return [_numbers(value) for value in values]
    return float(f"{values:.{_DIGITS}g}")
