"""Checks of a federated learning algorithm: functions of the name of a registered one, or of an `Algorithm`."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fedcast.testing.common import attempt, check_options, federation_of, largest_gap, sample_data, unchanged
from fedcast.training import Algorithm, Outcome, State, Tensors, TrainingSettings, Upload, build_model, train

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
    returns_finite_tensors(algorithm)
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


def returns_finite_tensors(algorithm: str | Algorithm) -> None:
    """Functions return lists of finite tensors of the shapes that are expected, and numbers as factors of terms."""
    settings, weights = _settings(algorithm), _weights()
    own, (server, user) = settings.implementation, _states(algorithm)
    _check_state("server_state", server)
    _check_state("user_state", user)
    count = 3 if "stacked" in own.engines else 1
    users = {name: [each.expand(count, *each.shape).clone() for each in tensors] for name, tensors in user.items()}
    stacked = [weight.expand(count, *weight.shape).clone() for weight in weights]
    moved, mean = ([torch.full_like(each, 0.01) for each in tensors] for tensors in (stacked, weights))
    context, sums = [], {}

    def call(name: str, expected: str, *arguments: Any) -> Any:
        found, error = attempt(name, expected, getattr(own, name), settings.options, *arguments)
        assert not error, f"{name} gives an error: {error}; expected {expected}"
        pair = expected[0] != "(" or (isinstance(found, tuple) and len(found) == 2)
        assert pair, f"{name} returns a {type(found).__name__}; expected {expected}"
        return found

    if own.local_context is not None:
        context = call("local_context", "a list of tensors [U, ...]", server, users)
        _check_tensors("local_context", context)
        for tensor in context:
            first = tensor.shape[:1]
            expected = f"[{count}, ...] for {count} users, or [1, ...] for a value that they share"
            assert first in ((count,), (1,)), f"local_context returns a shape {list(tensor.shape)}; expected {expected}"
        context = [tensor.expand(count, *tensor.shape[1:]) for tensor in context]
    if own.local_gradients is not None:
        found = call("local_gradients", "gradients", moved, stacked, weights, context)
        _check_tensors("local_gradients", found, moved)
    if own.local_terms is not None:
        expected = "pairs (number, list of tensors)"
        terms = call("local_terms", expected, stacked, weights, context)
        pairs = isinstance(terms, list | tuple) and all(isinstance(each, tuple) and len(each) == 2 for each in terms)
        assert pairs, f"local_terms returns {terms!r:.80}; expected a list of {expected}"
        for factor, tensors in terms:
            number = isinstance(factor, int | float)
            assert number, f"local_terms returns a factor {factor!r:.80}; expected a Python number"
            _check_tensors("local_terms", tensors, moved)
    if own.collect is not None:
        each = torch.full((count,), 1 / count, dtype=torch.float64)
        upload = Upload(moved, each, each, 6 * each, 0.05, server, users)
        new, sums = call("collect", "(new states of these users, sums)", upload)
        _check_state("collect", new, users)
        _check_state("collect", sums)
    if own.change is not None:
        mean, server = call("change", "(change of every weight, new server state)", mean, sums, server)
        _check_tensors("change", mean, weights)
        _check_state("change", server)
    if own.server_step is not None:
        found, server = call("server_step", "(new weights, new server state)", weights, mean, server)
        _check_tensors("server_step", found, weights)
        _check_state("server_step", server)


def _check_tensors(function: str, found: Any, like: Tensors | None = None) -> None:
    """Check that a function has returned a list of finite tensors, of the shapes of others if these are given."""
    assert isinstance(found, list | tuple), f"{function} returns a {type(found).__name__}; expected a list of tensors"
    for tensor in found:
        kind = type(tensor).__name__
        assert isinstance(tensor, Tensor), f"{function} returns a list with a {kind}; expected a list of tensors"
        assert tensor.isfinite().all(), (
            f"{function} returns NaN or infinity from finite arguments; expected finite values"
        )
    if like is not None:
        shapes, expected = ([list(tensor.shape) for tensor in tensors] for tensors in (found, like))
        assert shapes == expected, f"{function} returns shapes {shapes}; expected {expected}, one for each weight"


def _check_state(function: str, found: Any, like: State | None = None) -> None:
    """Check that a function has returned a state, with names and shapes of another if that is given."""
    assert isinstance(found, dict), f"{function} returns a {type(found).__name__}; expected a dict of lists of tensors"
    for name, tensors in found.items():
        assert like is None or name in like, f"{function} returns a state {name!r}; expected one of {list(like or ())}"
        _check_tensors(f"{function}, state {name!r},", tensors, like[name] if like is not None else None)


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
    declares_options, declares_uploads, returns_finite_tensors, declares_states, changes_no_argument,
    engines_agree, repeats_exactly, resumes_exactly, handles_absent_users,
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
    returns_finite_tensors(algorithm)  # before errors of PyTorch that say less
    federation = federation_of(sample_data(torch.arange(sum(_SIZES)) % _CLASSES), _SIZES)
    model, settings = build_model("mlp", (1, 8, 8), _CLASSES, seed=1), _settings(algorithm, **changes)
    outcome, error = attempt("training", "no error", lambda: train(federation, model, settings, **extra))
    assert not error, error
    trained: Outcome = outcome
    return trained


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
