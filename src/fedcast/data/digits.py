"""digits: 1,797 handwritten 8×8 images that are part of scikit-learn, so that no download is needed."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np

from fedcast.data.catalogue import DatasetEntry
from fedcast.data.dataset import Dataset, SampleSpec, stratified_split

_LARGEST_VALUE = 16
_BITS_PER_SAMPLE = 8 * 8 * 4
_NUM_TEST = 360


def load_digits() -> Dataset:
    """Load the dataset, split into 1,437 training and 360 test images, a fifth of each class.

    Example:
        >>> digits = load_digits()
        >>> len(digits), len(digits.test_labels), digits.inputs.shape[1:]
        (1437, 360, (1, 8, 8))
    """
    # The file that `sklearn.datasets.load_digits` reads: importing scikit-learn takes longer than a small run.
    package = find_spec("sklearn")
    assert package is not None
    assert package.origin is not None
    table = np.loadtxt(Path(package.origin).parent / "datasets" / "data" / "digits.csv.gz", delimiter=",")
    images, labels = table[:, :-1].astype(np.uint8).reshape(-1, 1, 8, 8), table[:, -1].astype(np.int64)
    train, test = stratified_split(labels, _NUM_TEST)
    samples = images[train], labels[train], images[test], labels[test]
    return Dataset("digits", *samples, 10, _BITS_PER_SAMPLE, scale=1 / _LARGEST_VALUE, class_names=tuple("0123456789"))


DATASET = DatasetEntry(
    lambda *_: load_digits(),
    "1,437 + 360 images 8×8, 10 classes",
    "CC BY 4.0 (UCI); part of scikit-learn",
    spec=lambda _: SampleSpec((1, 8, 8), 10),
)
