"""Checks of a federated learning algorithm: functions of the name of a registered one, or of an `Algorithm`."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import torch

from fedcast.testing.common import attempt, check_options, federation_of, largest_gap, sample_data, unchanged
from fedcast.training import Algorithm, Outcome, State, Tensors, TrainingSettings, build_model, train

# A user without data, one with a single sample, and last batches of every size.
_SIZES = (7, 23, 0, 10, 1, 15)
_CLASSES = 4
_VARIANTS: tuple[dict[str, Any], ...] = (
    {},
    {"momentum": 0.5, "weight_decay": 0.01, "clip_norm": 1.0, "learning_rate_decay": 0.9},
    {"participation": 0.5, "dropout_probability": 0.3, "aggregation": "uniform"},
)


def engines_agree(algorithm: str | Algorithm) -> None:
    """Both engines give the same weights to 1e-9 in float64, also with momentum, clipping and absent users."""
    engines = _settings(algorithm).implementation.engines
    assert engines, "engines is empty; expected loop, stacked or both"
    assert set(engines) <= {"loop", "stacked"}, f"engines are {engines}; expected loop, stacked or both"
    for variant in _VARIANTS:
        outcomes = [_train(algorithm, engine=engine, **variant) for engine in engines]
        for other in outcomes[1:]:
            gap = largest_gap(outcomes[0].weights, other.weights)
            assert gap < 1e-9, f"with {variant or 'defaults'} the engines differ by {gap:.2g}; expected less than 1e-9"


def resumes_exactly(algorithm: str | Algorithm) -> None:
    """A run that is stopped and resumed gives the bytes of an uninterrupted one."""
    for engine in _settings(algorithm).implementation.engines:
        changes = {"engine": engine, "rounds": 4, "participation": 0.7}
        whole = _train(algorithm, **changes)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "checkpoint.pt"
            part = _train(algorithm, **changes, checkpoint=path, should_stop=iter([False, True]).__next__)
            assert part.stopped == "stopped after round 2"
            resumed = _train(algorithm, **changes, checkpoint=path)
        assert largest_gap(whole.weights, resumed.weights) == 0, f"{engine}: weights differ after resuming"
        assert whole.history == resumed.history, f"{engine}: histories differ after resuming"


def repeats_exactly(algorithm: str | Algorithm) -> None:
    """Two runs of the same settings and seed give the same bytes."""
    first, second = _train(algorithm), _train(algorithm)
    assert largest_gap(first.weights, second.weights) == 0, "two runs with the same settings and seed differ"


def handles_absent_users(algorithm: str | Algorithm) -> None:
    """A round without users changes nothing, and the states of absent users stay as they are."""
    everyone = {(2, user) for user in range(len(_SIZES))}
    with_gap, one = _train(algorithm, rounds=2, dropped=everyone), _train(algorithm, rounds=1)
    assert largest_gap(with_gap.weights, one.weights) == 0, "a round without users changed the weights"
    after = _checkpoint(algorithm, rounds=1, dropped={(1, 0), (1, 3)})["users"]
    absent = [0, 2, 3]  # dropped out, without data, dropped out
    initial = _states(algorithm)[1]
    for name, tensors in after.items():
        for tensor, start in zip(tensors, initial[name], strict=True):
            assert torch.equal(tensor[absent], start.expand_as(tensor[absent])), f"user state {name!r} of absent users"


def declares_states(algorithm: str | Algorithm) -> None:
    """States are tensors by name; functions return states of the same names, shapes and dtypes, and finite weights."""
    server, user = _states(algorithm)
    stored = _checkpoint(algorithm)
    assert all(bool(weight.isfinite().all()) for weight in stored["weights"]), "weights are not finite"
    rows = {name: [tensor.expand(len(_SIZES), *tensor.shape) for tensor in tensors] for name, tensors in user.items()}
    for kind, expected, found in (("server", server, stored["server"]), ("user", rows, stored["users"])):
        assert list(found) == list(expected), f"{kind} state has {list(found)}, at the start it had {list(expected)}"
        for name in expected:
            before, after = ([(one.shape, one.dtype) for one in state[name]] for state in (expected, found))
            assert before == after, f"{kind} state {name!r} is {after}, at the start it was {before}"


def changes_no_argument(algorithm: str | Algorithm) -> None:
    """The functions of the start and of the server leave weights, changes and states as they were."""
    settings, weights = _settings(algorithm), _weights()
    implementation, options = settings.implementation, settings.options
    server, user = _states(algorithm)
    change = [torch.full_like(weight, 0.1) for weight in weights]
    with unchanged(weights, change, server):
        if implementation.server_step is not None:
            implementation.server_step(options, weights, change, server)
        if implementation.local_context is not None and implementation.local_terms is not None:
            rows = {name: [tensor[None] for tensor in tensors] for name, tensors in user.items()}
            context = implementation.local_context(options, server, rows)
            implementation.local_terms(options, [weight[None] for weight in weights], weights, context)


def declares_uploads(algorithm: str | Algorithm) -> None:
    """`uploads` is a number of values per weight, from which the cost model computes delays."""
    uploads = _settings(algorithm).implementation.uploads
    assert isinstance(uploads, int), f"uploads is {uploads!r}; expected a whole number"
    assert uploads >= 1, f"uploads is {uploads}; expected at least 1: the change of every weight"


def declares_options(algorithm: str | Algorithm) -> None:
    """Options are a frozen dataclass of described fields with defaults within their limits."""
    check_options(_settings(algorithm).implementation.options)
    _, error = attempt(
        "another type", "a FedcastError", lambda: TrainingSettings(algorithm=algorithm, options=object())
    )
    assert error, "options of another type are accepted"


ALGORITHM_CHECKS = (
    declares_options, declares_uploads, declares_states, changes_no_argument, engines_agree, repeats_exactly,
    resumes_exactly, handles_absent_users,
)  # fmt: skip


def check_algorithm(algorithm: str | Algorithm) -> None:
    """Run all checks on a registered algorithm, by its name, or on an `Algorithm`.

    Example:
        >>> check_algorithm("fedprox")
    """
    for check in ALGORITHM_CHECKS:
        check(algorithm)


def _settings(algorithm: str | Algorithm, **changes: Any) -> TrainingSettings:
    small: dict[str, Any] = {"rounds": 3, "local_epochs": 2, "batch_size": 4, "precision": "float64", "device": "cpu"}
    return TrainingSettings(algorithm=algorithm, **(small | changes))


def _train(algorithm: str | Algorithm, **changes: Any) -> Outcome:
    extra = {name: changes.pop(name) for name in ("checkpoint", "should_stop", "dropped") if name in changes}
    federation = federation_of(sample_data(torch.arange(sum(_SIZES)) % _CLASSES), _SIZES)
    return train(federation, build_model("mlp", (1, 8, 8), _CLASSES, seed=1), _settings(algorithm, **changes), **extra)


def _checkpoint(algorithm: str | Algorithm, **changes: Any) -> dict[str, Any]:
    """Train, and return what the checkpoint holds."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "checkpoint.pt"
        _train(algorithm, checkpoint=path, **changes)
        content: dict[str, Any] = torch.load(path, weights_only=True)
    return content


def _weights() -> Tensors:
    return [weight.detach().double() for weight in build_model("mlp", (1, 8, 8), _CLASSES, seed=1).parameters()]


def _states(algorithm: str | Algorithm) -> tuple[State, State]:
    """Return the first states of the server and of one user."""
    settings = _settings(algorithm)
    return settings.implementation.first_states(settings.options, _weights())
