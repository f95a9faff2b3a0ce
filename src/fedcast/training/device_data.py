"""A dataset held once on the device; batches are selected by index, and nothing is copied per user."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from fedcast.typing import Ints

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedcast.data import TextWindows

_CONVERTED_BYTES = 2**30


@dataclass(frozen=True)
class DeviceData:
    """Samples and labels on a device.

    `inputs` are stored inputs [n, ...], which `scale` brings to [0, 1], or the characters of a text, of which a sample
    is a sequence of `length` from its place in `starts`.
    """

    inputs: Tensor
    labels: Tensor
    scale: float | None
    dtype: torch.dtype
    starts: Tensor | None = None
    length: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one sample."""
        return (self.length,) if self.starts is not None else tuple(self.inputs.shape[1:])

    def __len__(self) -> int:
        return len(self.labels)

    def pick(self, samples: Tensor) -> tuple[Tensor, Tensor]:
        """Return inputs and labels of the samples, in the shape of the index."""
        flat = samples.flatten()
        labels = self.labels.index_select(0, flat).view(samples.shape)
        if self.starts is not None:
            places = self.starts.index_select(0, flat)[:, None] + torch.arange(self.length, device=samples.device)
            codes = self.inputs.index_select(0, places.flatten())
            return codes.long().view(*samples.shape, self.length), labels
        inputs = self.inputs.index_select(0, flat).to(self.dtype).view(*samples.shape, *self.shape)
        return (inputs if self.scale in (None, 1.0) else inputs * self.scale), labels


def to_device(
    inputs: NDArray[Any] | TextWindows, labels: Ints, scale: float | None, device: torch.device, dtype: torch.dtype
) -> DeviceData:
    """Copy samples to a device."""
    on_device = torch.from_numpy(np.array(labels)).to(device)
    if isinstance(inputs, np.ndarray):
        stored = torch.from_numpy(np.array(inputs)).to(device)
        if device.type == "cpu" and stored.numel() * dtype.itemsize <= _CONVERTED_BYTES:
            # Converted once instead of in every step; a GPU converts faster than it reads.
            stored, scale = stored.to(dtype) * (scale or 1.0), 1.0
        return DeviceData(stored, on_device, scale, dtype)
    codes, starts = (torch.from_numpy(np.array(each)).to(device) for each in (inputs.codes, inputs.starts))
    return DeviceData(codes, on_device, None, dtype, starts, inputs.length)
