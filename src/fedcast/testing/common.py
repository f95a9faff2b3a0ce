"""Code shared by the conformance kits: comparing values, expecting errors, checking options, sample data."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from fedcast import registry
from fedcast.data import Assignment, Dataset, dataset_from_arrays
from fedcast.errors import FedcastError

if TYPE_CHECKING:
    from fedcast.training import Federation, Tensors


def contents(value: Any, name: str = "") -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    """Return type, shape and bytes of all arrays and tensors in dataclasses, dicts and sequences, by name."""
    if hasattr(value, "__array__"):
        array = np.asarray(value)
        return {name: (array.dtype.str, array.shape, array.tobytes())}
    parts: dict[Any, Any] = value if isinstance(value, dict) else {}
    if isinstance(value, list | tuple):
        parts = dict(enumerate(value))
    elif dataclasses.is_dataclass(value):
        parts = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    named = [contents(part, f"{name} {key}".strip()) for key, part in parts.items()]
    return {key: found for each in named for key, found in each.items()}


@contextmanager
def unchanged(*values: Any, message: str = "an argument was changed in place") -> Iterator[None]:
    """Fail if an array in the values has changed at the end of the block."""
    before = contents(values)
    yield
    assert contents(values) == before, message


def attempt(what: str, expected: str, function: Callable[..., Any], *arguments: Any) -> tuple[Any, str]:
    """Return the result of a call and "", or None and the message of its `FedcastError`; other errors are failures."""
    try:
        return function(*arguments), ""
    except FedcastError as error:
        return None, str(error)
    except AssertionError:
        raise
    except Exception as error:
        raise AssertionError(f"{what} gives {type(error).__name__}: {error}; expected {expected}") from error


def check_declaration(value: registry.Plugin, options: Any) -> None:
    """Check that a plug-in has a summary, and that options are of the class that it declares."""
    assert value.summary, "the summary is empty"
    assert isinstance(options, value.options), f"options are {options!r}; expected {value.options.__name__}"
    check_options(value.options)


def check_options(options: type[Any]) -> None:
    """Check that options are a frozen dataclass of described fields with defaults within their limits."""
    frozen = dataclasses.is_dataclass(options) and options.__dataclass_params__.frozen  # type: ignore[attr-defined]
    assert frozen, f"options are {options!r}; expected a frozen dataclass"
    for name, field in registry.option_fields(options).items():
        assert field.metadata.get("description"), f"option {name!r} has no description; declare it by registry.option"
        value = getattr(options(), name)
        for limit, bound in field.metadata["limits"].items():
            kept = getattr(operator, limit)(value, bound)
            assert kept, f"option {name!r}: default {value!r} breaks its limit {limit}={bound}"


def sample_data(labels: ArrayLike, shape: Sequence[int] = (1, 8, 8), **more: Any) -> Dataset:
    """Return random inputs from 0 to 1 with these labels; the first of them are also the test set."""
    labels = np.asarray(labels)
    inputs = np.random.default_rng(0).random((len(labels), *shape), dtype=np.float32)
    return dataset_from_arrays(inputs, labels, inputs[:5], labels[:5], **more)


def federation_of(dataset: Dataset, sizes: Sequence[int]) -> Federation:
    """Return users that hold so many of the first samples each."""
    from fedcast.training import Federation

    users = Assignment(np.arange(sum(sizes)), np.concatenate([[0], np.cumsum(sizes)]))
    return Federation(dataset, users, users.sizes, np.full((len(sizes), dataset.num_classes), 1 / dataset.num_classes))


def largest_gap(ones: Tensors, others: Tensors) -> float:
    """Return the largest difference between the values of two models."""
    return max(float((one - other).abs().max()) for one, other in zip(ones, others, strict=True))
