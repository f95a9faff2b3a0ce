"""Partitions of a dataset over users, one file each."""

from fedcast.data.partitions.partition import Partition
from fedcast.registry import Values

PARTITIONS: Values[Partition] = Values("partition")

__all__ = ["PARTITIONS", "Partition"]
