"""The domain of a fit: the data, the model and the training of its runs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedcast.data import Dataset
from fedcast.scenario import Scenario, Training, model_name

# Parameters of training that decide the rounds, beside those that runs of a fit vary; left out where they are default.
TRAINING = (
    "algorithm", "learning_rate_decay", "momentum", "weight_decay", "clip_norm", "augmentation", "server_optimizer",
    "server_learning_rate", "server_momentum", "server_beta2", "server_epsilon", "aggregation", "participation",
    "over_selection", "deadline_s", "dropout_probability", "buffer_size", "concurrency", "staleness_exponent",
)  # fmt: skip
RATE, EPOCHS, USERS = "training.learning_rate", "training.local_epochs", "data.num_users"
DATASET_DIGEST, MODEL_DIGEST = "SHA-256 of the dataset", "SHA-256 of training.model_file"


@dataclass(frozen=True)
class FitDomain:
    """Domain of a fit: its runs had these values.

    Parameters of training that are left out had their defaults.
    """

    values: Mapping[str, tuple[Any, ...]]  #: by name of a parameter, the values of it in ascending order
    skew_range: tuple[float, float]  #: least and largest average skew


def task_values(scenario: Scenario, digest: str = "") -> dict[str, Any]:
    """Return what decides the rounds of a scenario apart from skew, epochs and learning rate, by name of the parameter.

    `digest` is that of the dataset, see `dataset_digest`.

    Example:
        >>> task_values(Scenario())["training.model"]
        'small_cnn'
    """
    data, training = scenario.data, scenario.training
    values: dict[str, Any] = {
        "data.dataset": data.dataset,
        DATASET_DIGEST: digest,
        "data.partition": data.partition,
        USERS: data.num_users,
        "training.model": model_name(scenario),
        "training.batch_size": training.batch_size,
    }
    if training.model_file is not None and Path(training.model_file).is_file():
        values[MODEL_DIGEST] = hashlib.sha256(Path(training.model_file).read_bytes()).hexdigest()
    default = Training()
    changed = (name for name in TRAINING if getattr(training, name) != getattr(default, name))
    values |= {f"training.{name}": getattr(training, name) for name in changed}
    chosen = (name for name in (training.algorithm, values["training.model"]) if training.tables.get(name))
    return values | {f"training.{name}": dict(training.tables[name]) for name in chosen}


def dataset_digest(dataset: Dataset) -> str:
    """Return the SHA-256 of the samples and labels of a dataset."""
    digest = hashlib.sha256()
    for inputs in (dataset.inputs, dataset.test_inputs):
        arrays = (inputs.codes, inputs.starts) if dataset.is_text else (inputs,)  # type: ignore[union-attr]
        for array in arrays:
            digest.update(f"{array.shape}{array.dtype}".encode())  # type: ignore[union-attr]
            digest.update(array.tobytes())  # type: ignore[union-attr]
    for labels in (dataset.labels, dataset.test_labels):
        digest.update(labels.tobytes())
    return digest.hexdigest()
