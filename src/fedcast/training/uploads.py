r"""Kinds of upload: the change of the weights in full, or compressed.

``quantized`` is QSGD (Alistarh et al. 2017, NeurIPS) with buckets: the change of all weights is cut into buckets of
consecutive values, each with its largest magnitude m as scale, and a value v becomes a whole number of steps
:math:`m/s`, :math:`s = 2^{b-1} - 1`, rounded up or down at random such that its mean is v. ``top_k`` keeps the values
of largest magnitude (Stich et al. 2018, NeurIPS); what it leaves out is added to the user's next upload (error
feedback, Karimireddy et al. 2019, ICML).

Nothing here imports PyTorch: planning reads the bits of an upload without it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fedcast.errors import FedcastError
from fedcast.registry import NoOptions, option

if TYPE_CHECKING:
    from torch import Tensor

    from fedcast.training.algorithms import Algorithm


@dataclass(frozen=True)
class UploadKind:
    """A kind of upload: the encoding of the change of a user's weights. Functions take the kind's options first."""

    summary: str  #: what it does, in one line
    #: (options, number of weights, bits of an uncompressed value) → bits that one value for each weight takes
    bits: Callable[[Any, int, int], int]
    #: (options, changes [U, n], uniform numbers in [0, 1) of the same shape, or None) → what the server decodes,
    #: [U, n]; a user's row depends on no other. None: changes are uploaded as they are
    compress: Callable[[Any, Tensor, Tensor | None], Tensor] | None = None
    options: type[Any] = NoOptions
    draws: bool = False  #: whether `compress` gets uniform numbers, keyed by (seed, round, user)
    unbiased: bool = True  #: whether the mean of what the server decodes, over the draws, is the change
    #: options → whether users add to their next upload what this one leaves out
    feedback: Callable[[Any], bool] = lambda _: False

    def check_algorithm(self, name: str, algorithm_name: object, algorithm: Algorithm) -> None:
        """Raise an error if an algorithm cannot be used with this kind.

        States of users follow from their uploads, so that user and server know the same: a control variate of SCAFFOLD
        is a change over the steps. A value that was not sent would count as a gradient of 0 there.
        """
        if not self.unbiased and algorithm.user_state is not None:
            raise FedcastError(
                f"invalid value {name!r} for training.upload: algorithm {algorithm_name}: it keeps states of users "
                "that follow from their uploads, and needs unbiased ones; use full or quantized"
            )


def full_bits(_: NoOptions, weights: int, bits_per_weight: int) -> int:
    """Return the bits of all weights."""
    return weights * bits_per_weight


@dataclass(frozen=True)
class QuantizedOptions:
    """The table [training.quantized]."""

    bits: int = option(8, "bits of a value, one of them its sign", ge=2, le=16)
    bucket: int = option(512, "consecutive values with a scale of their own", ge=1)


def quantized_bits(options: QuantizedOptions, weights: int, bits_per_weight: int) -> int:
    """Return the bits of all values, and of the scales of all buckets.

    Example:
        >>> quantized_bits(QuantizedOptions(), weights=1898, bits_per_weight=32)
        15312
    """
    return weights * options.bits + -(-weights // options.bucket) * bits_per_weight


def quantize(options: QuantizedOptions, changes: Tensor, draws: Tensor | None) -> Tensor:
    """Round every value up or down to a whole number of steps of its bucket, at random with the value as mean."""
    assert draws is not None, "quantized draws"
    levels, (users, weights) = 2 ** (options.bits - 1) - 1, changes.shape
    buckets = -(-weights // options.bucket)
    padded = changes.new_zeros(users, buckets * options.bucket)
    padded[:, :weights] = changes
    values = padded.view(users, buckets, options.bucket)
    scale = values.abs().amax(2, keepdim=True)
    # Divided first: the largest value of a bucket is then exactly `levels` steps.
    steps = values.abs() / scale.where(scale > 0, scale.new_ones(())) * levels
    whole = steps.floor()
    step = (scale / levels).expand_as(values)
    down, rest, step = (each.reshape(users, -1)[:, :weights] for each in (whole, steps - whole, step))
    decoded: Tensor = ((down + (draws < rest)) * step).copysign(changes)
    return decoded


@dataclass(frozen=True)
class TopKOptions:
    """The table [training.top_k]."""

    share: float = option(0.01, "share of the values that are uploaded, those of largest magnitude", gt=0, le=1)
    error_feedback: bool = option(True, "add what an upload leaves out to the user's next upload")


def kept_values(options: TopKOptions, weights: int) -> int:
    """Return k, the number of values that are uploaded, at least one."""
    return max(1, round(options.share * weights))


def top_k_bits(options: TopKOptions, weights: int, bits_per_weight: int) -> int:
    """Return the bits of k values and of their places, as numbers or as a mask, whichever is shorter.

    Example:
        >>> top_k_bits(TopKOptions(share=0.01), weights=1898, bits_per_weight=32)
        817
    """
    kept = kept_values(options, weights)
    return kept * bits_per_weight + min(kept * (weights - 1).bit_length(), weights)


def keep_largest(options: TopKOptions, changes: Tensor, _: Tensor | None) -> Tensor:
    """Set all but the k values of largest magnitude of each user to 0."""
    places = changes.abs().topk(kept_values(options, changes.shape[1]), dim=1, sorted=False).indices
    return changes.new_zeros(changes.shape).scatter(1, places, changes.gather(1, places))


FULL = UploadKind("the change of every weight as it is", full_bits)
QUANTIZED = UploadKind(
    "QSGD: a few bits for each value, rounded at random without bias",
    quantized_bits,
    quantize,
    QuantizedOptions,
    draws=True,
)
TOP_K = UploadKind(
    "the values of largest magnitude; what is left out is added to the next upload",
    top_k_bits,
    keep_largest,
    TopKOptions,
    unbiased=False,
    feedback=lambda options: options.error_feedback,
)
