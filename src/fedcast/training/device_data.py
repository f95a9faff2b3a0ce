"""A dataset held once on the device, batches selected by index, and the scores of a model on a test set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from fedcast.data import Dataset, TextWindows
from fedcast.training.algorithms import Tensors
from fedcast.training.model_checks import without_dropout
from fedcast.training.settings import MOST_SHIFT, TrainingSettings, check_augmentation
from fedcast.typing import Bools, Floats, Ints

_CONVERTED_BYTES = 2**30
_SCORED_AT_ONCE = 2000
# Views of an image: crops of the image padded by its reflection, 9 × 9, each as it is and flipped.
VIEWS = {"none": 1, "crop_flip": (2 * MOST_SHIFT + 1) ** 2 * 2}


@dataclass(frozen=True)
class DeviceData:
    """Samples and labels on a device.

    `inputs` are stored inputs [n, ...], which `scale` brings to [0, 1], or the characters of a text, of which a sample
    is a sequence of `length` from its place in `starts`. `labels` are classes [n], or label distributions [n, Y].
    An image has several views where training augments: i + n·v is view v of sample i, so that a number says all.
    """

    inputs: Tensor
    labels: Tensor
    scale: float | None
    dtype: torch.dtype
    starts: Tensor | None = None
    length: int = 0
    augmented: bool = False  #: whether samples are numbers of views

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one sample."""
        return (self.length,) if self.starts is not None else tuple(self.inputs.shape[1:])

    def __len__(self) -> int:
        return len(self.labels)

    def pick(self, samples: Tensor) -> tuple[Tensor, Tensor]:
        """Return inputs and labels of the samples, in the shape of the index."""
        flat = samples.flatten()
        if self.augmented:
            flat, views = flat % len(self), flat // len(self)
        labels = self.labels.index_select(0, flat).view(*samples.shape, *self.labels.shape[1:])
        if self.starts is not None:
            places = self.starts.index_select(0, flat)[:, None] + torch.arange(self.length, device=samples.device)
            codes = self.inputs.index_select(0, places.flatten())
            return codes.long().view(*samples.shape, self.length), labels
        picked = self._views(flat, views) if self.augmented else self.inputs.index_select(0, flat)
        inputs = picked.to(self.dtype).view(*samples.shape, *self.shape)
        return (inputs if self.scale in (None, 1.0) else inputs * self.scale), labels

    def _views(self, samples: Tensor, views: Tensor) -> Tensor:
        """Return one view of each image: its crop's rows and columns, reflected at the edges, maybe flipped."""
        height, width = self.shape[-2:]
        side = 2 * MOST_SHIFT + 1
        rows = _cropped(height, views % side)
        columns = _cropped(width, views // side % side)
        columns = torch.where((views // side**2 % 2 == 1)[:, None], columns.flip(1), columns)
        places = rows[:, :, None] * width + columns[:, None, :]
        images = self.inputs.index_select(0, samples).flatten(2)
        channels = images.shape[1]
        return images.gather(2, places.flatten(1)[:, None].expand(-1, channels, -1))


def _cropped(length: int, start: Tensor) -> Tensor:
    """Return the places of a line of pixels, int64[n, length], that a crop shows, which starts at 0 … 2·MOST_SHIFT."""
    place = torch.arange(length, device=start.device) + start[:, None] - MOST_SHIFT
    return length - 1 - (length - 1 - place.abs()).abs()


def to_device(
    inputs: NDArray[Any] | TextWindows,
    labels: Ints | NDArray[np.float32],
    scale: float | None,
    device: torch.device,
    dtype: torch.dtype,
    augmentation: str = "none",
) -> DeviceData:
    """Copy samples to a device; label distributions have the type of inputs."""
    check_augmentation(augmentation, inputs.shape[1:] if isinstance(inputs, np.ndarray) else (inputs.length,))
    on_device = torch.from_numpy(np.array(labels)).to(device)
    if on_device.is_floating_point():
        on_device = on_device.to(dtype)
    if isinstance(inputs, np.ndarray):
        stored = torch.from_numpy(np.array(inputs)).to(device)
        if device.type == "cpu" and stored.numel() * dtype.itemsize <= _CONVERTED_BYTES:
            # Converted once instead of in every step; a GPU converts faster than it reads.
            stored, scale = stored.to(dtype) * (scale or 1.0), 1.0
        return DeviceData(stored, on_device, scale, dtype, augmented=VIEWS[augmentation] > 1)
    codes, starts = (torch.from_numpy(np.array(each)).to(device) for each in (inputs.codes, inputs.starts))
    return DeviceData(codes, on_device, None, dtype, starts, inputs.length)


def training_data(dataset: Dataset, settings: TrainingSettings, device: torch.device) -> DeviceData:
    """Copy the training samples of a dataset to a device, in the precision and with the views of the settings."""
    dtype = torch.float64 if settings.precision == "float64" else torch.float32
    labels = dataset.labels if dataset.soft_labels is None else dataset.soft_labels
    return to_device(dataset.inputs, labels, dataset.scale, device, dtype, settings.augmentation)


@dataclass(frozen=True)
class ModelScores:
    """Mean cross-entropy and accuracy on a test set, overall and by class.

    A class that the test set does not have (`tested` is false) gets the overall accuracy.
    """

    loss: float
    accuracy: float
    class_accuracy: Floats
    tested: Bools
    correct: Tensor  #: bool[n_test], which test samples are classified correctly


def score(model: nn.Module, weights: Tensors, test: DeviceData, num_classes: int) -> ModelScores:
    """Return the scores of the model with the given weights on the test set."""
    names = [name for name, _ in model.named_parameters()]
    loss = torch.zeros((), dtype=torch.float64, device=test.labels.device)
    right = torch.zeros(num_classes, dtype=torch.int64, device=test.labels.device)
    correct = torch.zeros(len(test), dtype=torch.bool, device=test.labels.device)
    with torch.no_grad(), without_dropout(model):
        for start in range(0, len(test), _SCORED_AT_ONCE):
            picked = torch.arange(start, min(start + _SCORED_AT_ONCE, len(test)), device=test.labels.device)
            inputs, labels = test.pick(picked)
            logits = torch.func.functional_call(model, dict(zip(names, weights, strict=True)), (inputs,))
            loss += F.cross_entropy(logits, labels, reduction="sum").double()
            hits = logits.argmax(1) == labels
            correct[start : start + len(hits)] = hits
            right.scatter_add_(0, labels, hits.long())
    per_class = torch.bincount(test.labels, minlength=num_classes).cpu().numpy()
    of_class = right.cpu().numpy()
    accuracy = float(of_class.sum() / len(test))
    by_class = np.divide(of_class, per_class, out=np.full(num_classes, accuracy), where=per_class > 0)
    return ModelScores(float(loss) / len(test), accuracy, by_class, per_class > 0, correct)


def own_accuracies(class_accuracy: Floats, distributions: Floats) -> Floats:
    """Return the accuracy under each label distribution [K, Y], float64[K].

    Each class counts with its share in the distribution, whatever its share in the test set.

    Example:
        >>> own_accuracies(np.array([1.0, 0.5]), np.array([[0.5, 0.5], [0.0, 1.0]])).tolist()
        [0.75, 0.5]
    """
    return distributions @ class_accuracy
