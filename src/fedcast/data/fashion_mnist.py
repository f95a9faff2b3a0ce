"""Fashion-MNIST: 70,000 images of clothing, 28×28 grey values, in four idx files as MNIST."""

from __future__ import annotations

from fedcast.data.catalogue import DatasetEntry, SourceFile
from fedcast.data.dataset import SampleSpec
from fedcast.data.mnist import load_idx

_ADDRESS = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
_CLASSES = (
    "T-shirt/top", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot",
)  # fmt: skip
# As published in the README of github.com/zalandoresearch/fashion-mnist.
_MD5 = {
    "train-images-idx3-ubyte.gz": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
    "train-labels-idx1-ubyte.gz": "25c81989df183df01b3e8a0aad5dffbe",
    "t10k-images-idx3-ubyte.gz": "bef4ecab320f06d8554ea6380940ec79",
    "t10k-labels-idx1-ubyte.gz": "bb300cfdad3c16e7a12a480ee83cd310",
}
# Of the files in Debian's package dataset-fashion-mnist 0.0~git20200523.55506a9-1, which are compressed anew.
_DEBIAN_SHA256 = {
    "train-images-idx3-ubyte.gz": "b0564c3eedabfbf835052cff8503ea422014ce006caf5b757f851416ee8300c7",
    "train-labels-idx1-ubyte.gz": "0ae29f65d86684f32d1b9c85147786c547b9c6aebcaf235f0400a0cce308b056",
    "t10k-images-idx3-ubyte.gz": "cc1d090a38ace84dfa1aa66e3ada7c336ef481a96936906477e6dd344da56eaa",
    "t10k-labels-idx1-ubyte.gz": "8d3605d196f4be44669e46906da9733c8131fef761fdbfec72c424d5222f1a05",
}
SOURCES = (
    tuple(SourceFile(f"fashion_mnist/{name}", "", _ADDRESS + name, md5=md5) for name, md5 in _MD5.items()),
    tuple(SourceFile(f"fashion-mnist/{name}", sha256) for name, sha256 in _DEBIAN_SHA256.items()),
)

DATASET = DatasetEntry(
    lambda _, data_dir: load_idx("fashion_mnist", SOURCES, _CLASSES, data_dir),
    "60,000 + 10,000 images 28×28 of clothing, 10 classes",
    "Zalando SE; MIT",
    SOURCES,
    spec=lambda _: SampleSpec((1, 28, 28), 10),
)
