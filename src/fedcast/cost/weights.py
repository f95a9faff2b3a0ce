"""The size of the model that users send: its weights, counted for the samples of the scenario's dataset."""

from __future__ import annotations

import importlib
from typing import NamedTuple

from fedcast import registry
from fedcast.data import SampleSpec, sample_spec
from fedcast.errors import FedcastError, ScenarioError
from fedcast.scenario import Scenario, model_name

# As text, like the models in the registry: planning imports no module that needs PyTorch, and models are counted
# without it where they can be.
_MODELS = "fedcast.training.models"


class ModelSize(NamedTuple):
    """The number of weights of a scenario's model, as far as it is known."""

    weights: int | None  #: that delays are computed from; None: unknown
    counted: int | None  #: of the model itself; None: it cannot be counted
    note: str  #: what was assumed, or differs; empty: nothing


def model_size(scenario: Scenario, samples: SampleSpec | None = None) -> ModelSize:
    """Return the size of a scenario's model: `training.model_weights`, or counted, or what the model declares.

    Args:
        scenario: all parameters.
        samples: shape and classes of the samples; None: those of its dataset, if they are known without loading it.

    Example:
        >>> from fedcast import load_scenario
        >>> model_size(load_scenario(overrides=["data.dataset=mnist", "training.model=mlp"])).weights
        25450
    """
    training, name, data = scenario.training, model_name(scenario), scenario.data.dataset
    given, samples = training.model_weights, samples or sample_spec(scenario.data)
    counted, problem = None, f"data.dataset = {data}: the shape of its samples is not known"
    if samples is not None:
        counted, problem = _count(scenario, name, samples)
    if counted is not None and given not in (None, counted):
        note = f"training.model_weights = {given}, but model {name} has {counted:,} weights on {data}; delays are those"
        return ModelSize(given, counted, f"{note} of {given:,} weights, and training this model is an error")
    if given is not None or counted is not None:
        return ModelSize(given or counted, counted, "")
    declared = None if training.model_file is not None else _declared(name)
    if declared is None:
        return ModelSize(None, None, problem)
    note = f"{problem}: {declared:,} weights assumed, those of model {name} on its usual dataset"
    return ModelSize(declared, None, f"{note}; set training.model_weights")


def model_assumptions(scenario: Scenario, samples: SampleSpec | None = None) -> tuple[str, ...]:
    """Return what is assumed of the size of the model, if it is neither given nor counted; arguments as above."""
    size = model_size(scenario, samples)
    if scenario.training.model_weights is not None or size.counted is not None or size.weights is None:
        return ()
    return (f"A model of {size.weights:,} weights, {model_name(scenario)}, is sent (training.model_weights).",)


def _count(scenario: Scenario, name: str, samples: SampleSpec) -> tuple[int | None, str]:
    """Return the number of weights, or why the model cannot be counted."""
    file = scenario.training.model_file
    try:
        options = scenario.training.options("model", name) if file is None else None
        counted = importlib.import_module(_MODELS).count_weights(name, *samples, file, options)
    except FedcastError as error:
        return None, str(error)
    return counted, f"model {name} cannot be counted: PyTorch is not installed, or it has no weights of a known shape"


def _declared(name: str) -> int | None:
    try:
        weights: int | None = registry.find("model", name).value.weights
    except FedcastError as error:
        raise ScenarioError(
            f"{error}; a model of your own can also be a function in training.model_file, with training.model_weights "
            "its number of weights"
        ) from None
    return weights
