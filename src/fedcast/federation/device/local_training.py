"""Local training on a device, by installed code alone: a server names a model and an algorithm, it sends neither."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcast import registry
from fedcast.errors import FedcastError
from fedcast.federation.device.envelope import RejectedError
from fedcast.federation.device.samples import OwnSamples, training_dataset


class LocalTask:
    """Training task of a device in a run: its samples, and the model and settings that the server names."""

    def __init__(self, task: object, own: OwnSamples, received: Sequence[Path], min_batch_size: int) -> None:
        from fedcast.training import LocalTraining, build_model, check_model, settings_from_dict

        try:
            given = json.loads(str(task))
            settings = settings_from_dict(given["settings"])
            seed, user, num_users = (int(given[name]) for name in ("seed", "user", "num_users"))
            options = registry.find("model", given["model"]).options(**given["model_options"])
        except (ValueError, KeyError, TypeError, RecursionError, FedcastError) as error:
            raise RejectedError(f"invalid task: {error}") from None
        dataset = training_dataset(own, received)
        if not len(dataset):
            raise RejectedError("this device has no samples to train on")
        # The update of a small batch says much about its samples.
        if (batch := min(settings.batch_size, len(dataset))) < min_batch_size:
            raise RejectedError(f"batches of {batch} samples, but the consent file asks for {min_batch_size}")
        shape, classes = dataset.sample_shape, dataset.num_classes
        model = check_model(build_model(given["model"], shape, classes, seed, None, options))
        self.shapes = [tuple(weight.shape) for weight in model.parameters()]
        self.training = LocalTraining(dataset, model, settings, seed=seed, user=user, num_users=num_users)


def train_locally(task: LocalTask, request: Mapping[str, Any]) -> dict[str, Any]:
    """Train one round; the request has its number, the weights, and what the algorithm's local steps read."""
    number = request.get("number")
    if not isinstance(number, int) or number < 1:
        raise RejectedError(f"invalid value {number!r} for number: expected a round ≥ 1")
    weights, context = (_arrays(request.get(name)) for name in ("weights", "context"))
    if [array.shape for array in weights] != task.shapes:
        raise RejectedError("the weights are not those of the model")
    started = time.monotonic()
    result = task.training.round(number, weights, context)
    return {**result, "seconds": time.monotonic() - started}


def _arrays(content: object) -> list[NDArray[Any]]:
    if not isinstance(content, list | tuple) or not all(isinstance(array, np.ndarray) for array in content):
        raise RejectedError("invalid weights: expected a list of arrays")
    if not all(array.dtype.kind == "f" and np.isfinite(array).all() for array in content):
        raise RejectedError("invalid weights: expected finite numbers")
    return list(content)
