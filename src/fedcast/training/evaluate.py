"""Score the server's model on the test set: loss, accuracy, and accuracy under each user's label distribution."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import nn

from fedcast.training.algorithms import Tensors
from fedcast.training.device_data import DeviceData
from fedcast.training.model_checks import without_dropout
from fedcast.typing import Floats

_BATCH = 2000


@dataclass(frozen=True)
class Score:
    """Mean cross-entropy and accuracy on a test set, overall and by class.

    A class that the test set does not have (`tested` is false) gets the overall accuracy.
    """

    loss: float
    accuracy: float
    class_accuracy: Floats
    tested: NDArray[np.bool_]


def score(model: nn.Module, weights: Tensors, test: DeviceData, num_classes: int) -> Score:
    """Return the scores of the model with the given weights on the test set."""
    names = [name for name, _ in model.named_parameters()]
    loss = torch.zeros((), dtype=torch.float64, device=test.labels.device)
    right = torch.zeros(num_classes, dtype=torch.int64, device=test.labels.device)
    with torch.no_grad(), without_dropout(model):
        for start in range(0, len(test), _BATCH):
            picked = torch.arange(start, min(start + _BATCH, len(test)), device=test.labels.device)
            inputs, labels = test.pick(picked)
            logits = torch.func.functional_call(model, dict(zip(names, weights, strict=True)), (inputs,))
            loss += F.cross_entropy(logits, labels, reduction="sum").double()
            right.scatter_add_(0, labels, (logits.argmax(1) == labels).long())
    per_class = torch.bincount(test.labels, minlength=num_classes).cpu().numpy()
    hits = right.cpu().numpy()
    accuracy = float(hits.sum() / len(test))
    by_class = np.divide(hits, per_class, out=np.full(num_classes, accuracy), where=per_class > 0)
    return Score(float(loss) / len(test), accuracy, by_class, per_class > 0)


def user_accuracies(class_accuracy: Floats, distributions: Floats, sizes: NDArray[np.int64]) -> tuple[float, float]:
    """Return the mean of users' accuracies under their own label distributions, and the mean of the worst tenth.

    Users without samples are left out.

    Example:
        >>> mean, worst = user_accuracies(np.array([1.0, 0.5]), np.eye(2), np.array([3, 3]))
        >>> mean, worst
        (0.75, 0.5)
    """
    own = np.sort((distributions @ class_accuracy)[sizes > 0])
    tenth = max(1, len(own) // 10)
    return float(own.mean()), float(own[:tenth].mean())
