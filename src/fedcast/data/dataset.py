"""Datasets: inputs, labels and a test set, as stored."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from fedcast.errors import DataError
from fedcast.random import generator
from fedcast.typing import Ints

HELD_OUT_SHARE = 0.2
_USUAL_CHANNELS = (1, 3, 4)
# More than any dataset has: every class and owner takes memory and time, also if it has no sample.
MOST_CLASSES = 100_000
_MOST_OWNERS = 1_000_000


class SampleSpec(NamedTuple):
    """Shape of the samples and number of classes that a model is built for."""

    shape: tuple[int, ...]  #: of one sample: (channels, height, width), (features,) or, for text, (characters,)
    num_classes: int


@dataclass(frozen=True, eq=False)
class TextWindows:
    """Sequences of characters of one long text, stored as their start positions without copying the text."""

    codes: NDArray[np.uint8]  #: uint8[n_characters], the text
    starts: Ints  #: int64[n], start of each sequence
    length: int  #: number of characters of a sequence

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, samples: Any) -> NDArray[np.uint8]:
        windows: NDArray[np.uint8] = self.codes[self.starts[samples][..., None] + np.arange(self.length)]
        return windows

    @property
    def nbytes(self) -> int:
        """Memory use in bytes."""
        return self.codes.nbytes + self.starts.nbytes


@dataclass(frozen=True, eq=False)
class Dataset:
    """Training and test samples with labels 0 … num_classes − 1.

    Inputs keep their stored type (bytes of images, characters of text); ``inputs * scale`` is in [0, 1].
    """

    name: str  #: name in the scenario
    #: [n, channels, height, width] for images, [n, features] for vectors, `TextWindows` for text
    inputs: NDArray[Any] | TextWindows
    labels: Ints  #: int64[n]
    test_inputs: NDArray[Any] | TextWindows  #: as inputs
    test_labels: Ints  #: int64[n_test]
    num_classes: int  #: number of classes Y
    bits_per_sample: float  #: bits sent to share one sample; for images without the label
    scale: float | None = 1.0  #: factor that scales inputs to [0, 1]; None for text
    class_names: tuple[str, ...] = ()  #: one per class
    groups: Ints | None = None  #: int64[n], natural owner of each sample (role, writer); None if there is none
    test_groups: Ints | None = None  #: natural owner of each test sample
    group_names: tuple[str, ...] = field(default=(), repr=False)  #: one per owner
    #: test inputs with the noise of the users, for a second evaluation; None without noise
    noisy_test_inputs: NDArray[np.float32] | None = None
    #: float32[n, Y], label distribution of each training sample; None: each has one class
    soft_labels: NDArray[np.float32] | None = None

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def is_text(self) -> bool:
        """Return whether samples are sequences of characters."""
        return isinstance(self.inputs, TextWindows)

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """Shape of one sample: (channels, height, width), (features,) or, for text, (characters,)."""
        return (self.inputs.length,) if isinstance(self.inputs, TextWindows) else self.inputs.shape[1:]

    @property
    def spec(self) -> SampleSpec:
        """Shape of one sample, and the number of classes."""
        return SampleSpec(tuple(self.sample_shape), self.num_classes)

    @property
    def class_sizes(self) -> Ints:
        """Number of training samples of each class, int64[Y]."""
        return np.bincount(self.labels, minlength=self.num_classes)

    def features(self, samples: Any) -> NDArray[np.float32]:
        """Return the inputs of the given training samples, float32, scaled to [0, 1]; characters of text as numbers."""
        return scaled(self.inputs[samples], self.scale)


# Images [n, channels, height, width] and labels [n].
Part = tuple[NDArray[np.uint8], Ints]


@dataclass(frozen=True, eq=False)
class Generated:
    """Training samples that users made of their own: sample ``len(dataset) + i`` is row i."""

    inputs: NDArray[Any]  #: [G, ...], of the type in which the dataset stores its inputs
    labels: Ints  #: int64[G], of soft labels the most probable
    soft_labels: NDArray[np.float32] | None = None  #: float32[G, Y]; None: each sample has one class

    def __len__(self) -> int:
        return len(self.labels)


def extend(dataset: Dataset, generated: Generated | None) -> Dataset:
    """Return a dataset with generated training samples after its own."""
    if generated is None:
        return dataset
    if isinstance(dataset.inputs, TextWindows):
        raise DataError(f"{dataset.name}: a dataset of text takes no generated samples")
    soft = generated.soft_labels
    if soft is not None:
        soft = np.concatenate([np.eye(dataset.num_classes, dtype=np.float32)[dataset.labels], soft])
    inputs = np.concatenate([dataset.inputs, generated.inputs])
    return replace(dataset, inputs=inputs, labels=np.concatenate([dataset.labels, generated.labels]), soft_labels=soft)


def stored(values: NDArray[Any], dtype: DTypeLike, scale: float | None) -> NDArray[Any]:
    """Return inputs in [0, 1] as a dataset of that type and scale stores its own: the reverse of `scaled`, rounded."""
    values, kind = np.clip(values, 0, 1) / (scale or 1.0), np.dtype(dtype)
    return (np.rint(values) if kind.kind in "ui" else values).astype(kind)


def scaled(inputs: NDArray[Any], scale: float | None) -> NDArray[np.float32]:
    """Return stored inputs as float32, multiplied by their scale."""
    values = inputs.astype(np.float32)
    return values if scale is None or scale == 1.0 else values * np.float32(scale)


def byte_images(name: str, train: Part, test: Part, class_names: Sequence[str], **more: Any) -> Dataset:
    """Return images of bytes and their labels, for training and test, as a dataset; `more` are other fields of it."""
    names, bits = tuple(class_names), 8 * train[0][0].size
    return Dataset(name, *train, *test, len(names), bits, scale=1 / 255, class_names=names, **more)


def dataset_from_arrays(
    inputs: NDArray[Any],
    labels: NDArray[Any],
    test_inputs: NDArray[Any] | None = None,
    test_labels: NDArray[Any] | None = None,
    *,
    name: str = "arrays",
    groups: NDArray[Any] | None = None,
    class_names: tuple[str, ...] = (),
    bits_per_sample: float | None = None,
    scale: float | None = None,
) -> Dataset:
    """Return a dataset of images [n, h, w] or [n, c, h, w], or vectors [n, features], with labels 0 … Y − 1.

    Bytes are scaled from 0 … 255 to [0, 1]. Other numbers are used unchanged if they are in [0, 1], otherwise scaled
    linearly by the minimum and maximum of the training set; test inputs have the same type. With `scale`, inputs of any
    range are multiplied by it instead. Without a test set every fifth sample of each class is held out.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> mine = dataset_from_arrays(rng.random((50, 8, 8)), np.arange(50) % 5)
        >>> len(mine), len(mine.test_labels), mine.num_classes, mine.inputs.shape[1:]
        (40, 10, 5, (1, 8, 8))
    """
    inputs, labels = _checked("", inputs, labels)
    owners = None if groups is None else _check_labels("groups", groups, len(inputs), _MOST_OWNERS)
    test_owners = None
    if test_inputs is None or test_labels is None:
        if test_inputs is not None or test_labels is not None:
            raise DataError(f"{name}: expected both test_inputs and test_labels, or neither")
        if len(labels) == 1:
            hint = "provide more samples, or test_inputs and test_labels"
            raise DataError(f"{name}: the only sample would be held out for the test; {hint}")
        train, test = stratified_split(labels, math.ceil(HELD_OUT_SHARE * len(labels)))
        test_inputs, test_labels = inputs[test], labels[test]
        inputs, labels = inputs[train], labels[train]
        if owners is not None:
            owners, test_owners = owners[train], owners[test]
    test_inputs, test_labels = _checked("test_", test_inputs, test_labels)
    if test_inputs.shape[1:] != inputs.shape[1:]:
        raise DataError(f"{name}: test_inputs have shape {test_inputs.shape[1:]}, inputs {inputs.shape[1:]}")
    if test_inputs.dtype.kind != inputs.dtype.kind:
        found = f"test_inputs are of type {test_inputs.dtype}, inputs {inputs.dtype}"
        raise DataError(f"{name}: {found}; expected the same type and range, since both are scaled by the same factor")
    num_classes = int(max(labels.max(), test_labels.max())) + 1
    if class_names and len(class_names) != num_classes:
        raise DataError(f"{name}: {len(class_names)} class names for {num_classes} classes")
    bits = bits_per_sample or float(inputs[0].size * inputs.dtype.itemsize * 8)
    if scale is None:
        inputs, test_inputs, scale = _to_unit_range(inputs, test_inputs)
    arrays = inputs, labels, test_inputs, test_labels
    check_class_names(class_names)
    classes = class_names or tuple(str(label) for label in range(num_classes))
    group_names = () if owners is None else tuple(str(group) for group in range(int(owners.max()) + 1))
    return Dataset(name, *arrays, num_classes, bits, scale, classes, owners, test_owners, group_names)


def stratified_split(labels: Ints, num_test: int) -> tuple[Ints, Ints]:
    """Return a deterministic stratified split: sorted indices of the training and of the test samples.

    The samples are shuffled and sorted by class, and evenly spaced ones are held out, so that the fraction held out of
    every class is exact to within one sample.
    """
    order = generator(0, "held-out").permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    due = np.floor(np.arange(1, len(labels) + 1) * num_test / len(labels) + 0.5)
    is_test = np.diff(due, prepend=0) > 0
    return np.sort(order[~is_test]), np.sort(order[is_test])


def _checked(prefix: str, inputs: NDArray[Any], labels: NDArray[Any]) -> tuple[NDArray[Any], Ints]:
    """Return validated inputs, images with channels, and labels; messages give their names the prefix."""
    inputs, inputs_name = np.asarray(inputs), f"{prefix}inputs"
    if inputs.ndim not in (2, 3, 4) or inputs.size == 0:
        raise DataError(f"{inputs_name}: shape {inputs.shape}; expected [n, features], [n, h, w] or [n, c, h, w]")
    if inputs.ndim == 4 and inputs.shape[1] == inputs.shape[2] > inputs.shape[3] in _USUAL_CHANNELS:
        hint = f"pass {inputs_name}.transpose(0, 3, 1, 2)"
        raise DataError(f"{inputs_name}: shape {inputs.shape} has its channels last; expected [n, c, h, w]: {hint}")
    if inputs.dtype.kind not in "uifb":
        raise DataError(f"{inputs_name}: type {inputs.dtype}; expected integers or floats")
    if inputs.dtype.kind == "f" and not np.isfinite(inputs).all():
        sample = int(np.argwhere(~np.isfinite(inputs))[0][0])
        raise DataError(f"{inputs_name}: sample {sample} contains NaN or infinity")
    labels = _check_labels(f"{prefix}labels", labels, len(inputs))
    return inputs[:, None] if inputs.ndim == 3 else inputs, labels


def check_class_names(names: Sequence[str]) -> None:
    """Raise an error if a class name is empty or has control characters, which would act on a terminal."""
    for name in names:
        if not name.strip() or not name.isprintable():
            raise DataError(f"invalid class name {name!r}: expected printable characters; rename the class")


def _check_labels(name: str, labels: NDArray[Any], expected: int, most: int = MOST_CLASSES) -> Ints:
    labels = np.asarray(labels)
    if labels.shape != (expected,):
        raise DataError(f"{name}: shape {labels.shape}; expected ({expected},), one for each input")
    if labels.dtype.kind not in "uib":
        whole_floats = labels.dtype.kind == "f" and np.isfinite(labels).all() and (labels == np.rint(labels)).all()
        hint = f": pass {name}.astype(int)" if whole_floats else ""
        raise DataError(f"{name}: type {labels.dtype}; expected whole numbers 0, 1, 2, …{hint}")
    whole = labels.astype(np.int64)
    if (outside := (whole < 0) | (whole >= most)).any():
        sample = int(np.argmax(outside))
        raise DataError(
            f"{name}: sample {sample} has {labels[sample]}; expected whole numbers 0, 1, 2, …, below {most:,}"
        )
    return whole


def _to_unit_range(train: NDArray[Any], test: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any], float]:
    if train.dtype == np.uint8:
        return train, test, 1 / 255
    low, high = float(train.min()), float(train.max())
    if low >= 0 and high <= 1:
        return train.astype(np.float32), test.astype(np.float32), 1.0
    width = (high - low) or 1.0
    return ((train - low) / width).astype(np.float32), ((test - low) / width).astype(np.float32), 1.0
