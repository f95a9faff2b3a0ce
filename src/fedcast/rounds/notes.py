"""Notes on the fit that a scenario uses: how its runs differ from the task, and whether the target is beyond them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fedcast.data import Dataset, find_partition
from fedcast.formatting import sentence
from fedcast.rounds.domain import (
    DATASET_DIGEST,
    EPOCHS,
    MODEL_DIGEST,
    RATE,
    TRAINING,
    USERS,
    dataset_digest,
    task_values,
)
from fedcast.rounds.fit_files import RoundsFit, fit_of
from fedcast.scenario import Scenario, Training

_SHOWN_DIGITS_OF_DIGEST = 12


def fit_notes(scenario: Scenario, dataset: Dataset | None = None) -> tuple[str, ...]:
    """Return what to know about the fit of a scenario: how its runs differ, and whether the target is beyond them.

    Args:
        scenario: all parameters.
        dataset: of the scenario, if it is loaded.

    Example:
        >>> from fedcast.scenario import load_scenario
        >>> law = ["rounds.fit=digits", "rounds.form=law", "training.learning_rate=0.2"]
        >>> fit_notes(load_scenario(overrides=[*law, "rounds.target_accuracy=0.9"]))
        ()
        >>> print(*fit_notes(load_scenario(overrides=[*law, "rounds.target_accuracy=0.96"])))
        rounds.target_accuracy = 0.96: rounds are those to 0.92, the highest target of fit digits
    """
    settings, notes = scenario.rounds, []
    fit = fit_of(settings, scenario.data.dataset)
    target, named = settings.target_accuracy, f"rounds.target_accuracy = {settings.target_accuracy:g}"
    known = fit.domain is not None and DATASET_DIGEST in fit.domain.values and fit.dataset == scenario.data.dataset
    # A transform has changed the samples of the loaded dataset.
    same = known and find_partition(scenario.data.partition).transform is None
    if differences := fit_differences(fit, scenario, dataset_digest(dataset) if same and dataset is not None else ""):
        hint = "for a fit of your own see `fedcast fit-rounds`"
        notes.append(f"fit {fit.name} was made for another task: {'; '.join(differences)}; {hint}")
    if fit.form(settings.form) == "law" and fit.laws:
        if target < fit.targets[0]:
            notes.append(f"{named}: rounds are those to {fit.targets[0]:g}, the lowest target of fit {fit.name}")
        if target > fit.targets[-1]:
            notes.append(f"{named}: rounds are those to {fit.targets[-1]:g}, the highest target of fit {fit.name}")
    return tuple(notes)


def rounds_assumptions(scenario: Scenario, dataset: Dataset | None = None) -> tuple[str, ...]:
    """Return that rounds are predicted by a fit and what it was made on, then the notes of `fit_notes`.

    Example:
        >>> print(rounds_assumptions(Scenario())[0])
        Rounds follow fit digits, form law, made on 340 runs of digits, studies/rounds: 100 users, model small_cnn,
        batch size 10, learning rates 0.05 to 0.4, local epochs 1 to 10 (rounds.fit, or `fedcast fit-rounds`
        for your own).
    """
    fit = fit_of(scenario.rounds, scenario.data.dataset)
    form = fit.form(scenario.rounds.form)
    source = (fit.models[form].source if form in fit.models else fit.source) or f"runs of {fit.dataset}"
    had = {} if fit.domain is None else fit.domain.values
    known = [
        f"{word} {_listed(had[name], ranged=True)}{after}"
        for name, word, after in (
            (USERS, "", " users"),
            ("training.model", "model", ""),
            ("training.batch_size", "batch size", ""),
            (RATE, "learning rates" if len(had.get(RATE, ())) > 1 else "learning rate", ""),
            (EPOCHS, "local epochs", ""),
        )
        if name in had
    ]
    made = f"{source}{': ' if known else ''}{', '.join(known).strip()}"
    hint = "(rounds.fit, or `fedcast fit-rounds` for your own)"
    notes = map(sentence, fit_notes(scenario, dataset))
    return (f"Rounds follow fit {fit.name}, form {form}, made on {made} {hint}.", *notes)


def fit_differences(fit: RoundsFit, scenario: Scenario, digest: str = "") -> tuple[str, ...]:
    """Return how the task of a scenario differs from the runs of a fit: dataset, model, learning rate, batch and more.

    The rounds of form ``law`` depend on learning rate and local epochs, so that these need only be in the range of the
    runs. The number of users is no difference: it acts through skew and local steps. `digest` is that of the scenario's
    dataset, see `dataset_digest`; empty: its name decides.

    Example:
        >>> from fedcast.rounds import load_fit
        >>> fit_differences(load_fit("paper-0.95"), Scenario())
        ('data.dataset = digits, its runs have mnist',)
    """
    own = _own_values(scenario, digest)
    had: dict[str, tuple[Any, ...]] = {"data.dataset": (fit.dataset,)}
    if fit.domain is None:
        own = {name: own[name] for name in had}
    else:
        had = dict(fit.domain.values)
    usual = {f"training.{name}": (getattr(Training(), name),) for name in TRAINING}
    ranged = (RATE, EPOCHS) if fit.form(scenario.rounds.form) == "law" else ()
    found = []
    changed = [name for name, values in had.items() if isinstance(values[0], dict)]
    for name in dict.fromkeys([*own, *changed]):
        # What one of them does not have is a table of options without changes, or a digest.
        here, values = own.get(name, {}), had.get(name, usual.get(name, ({},)))
        unknown = name in (DATASET_DIGEST, MODEL_DIGEST) and not (here and any(values))
        each = here if isinstance(here, tuple) else (here,)
        inside = (
            min(values) <= min(each) and max(each) <= max(values)
            if name in ranged
            else all(one in values for one in each)
        )
        if not (unknown or inside):
            found.append(f"{name} = {_listed(each)}, its runs have {_listed(values, ranged=name in ranged)}")
    return tuple(found)


def _own_values(scenario: Scenario, digest: str) -> dict[str, Any]:
    """Return the values of a scenario that are compared with those of the runs."""
    training = scenario.training
    own = task_values(scenario, digest) | {RATE: training.learning_rate, EPOCHS: training.local_epochs}
    own |= {f"training.{name}": getattr(training, name) for name in TRAINING}
    # Class counts that are drawn or from a table have no partition that runs could have.
    left_out = (USERS, "data.partition") if scenario.data.dataset == "synthetic" else (USERS,)
    return {name: value for name, value in own.items() if name not in left_out}


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    text = "unset" if value is None else str(value) if value != {} else "default"
    return f"{text[:_SHOWN_DIGITS_OF_DIGEST]}…" if len(text) == 64 else text


def _listed(values: Iterable[Any], *, ranged: bool = False) -> str:
    texts = [_short(value) for value in values]
    return f"{texts[0]} to {texts[-1]}" if ranged and len(texts) > 1 else ", ".join(texts)
