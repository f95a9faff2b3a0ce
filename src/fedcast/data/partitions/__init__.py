"""Partitions: how a dataset is spread over users. A new one is one file and one line in `PARTITIONS`."""

from fedcast.data.partitions import concept, dirichlet, iid, indices, label_skew, natural, noise, quantity, shards
from fedcast.data.partitions.base import Partition

PARTITIONS: dict[str, Partition] = {
    "label_skew": label_skew.PARTITION,
    "dirichlet": dirichlet.PARTITION,
    "shards": shards.PARTITION,
    "quantity": quantity.PARTITION,
    "natural": natural.PARTITION,
    "iid": iid.PARTITION,
    "indices": indices.PARTITION,
    "noise": noise.PARTITION,
    "concept": concept.PARTITION,
}

__all__ = ["PARTITIONS", "Partition"]
