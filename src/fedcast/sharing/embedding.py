r"""Public features of samples, noisy class means of them, and samples that agree with these: (ε, δ)-DP.

Features are a public function of a sample: random Fourier features, whose means are those of DP-MERF (Harder,
Adamczewski, Park 2021), or the last layer of a frozen network, random or one that the user pretrained on public data. A
sample adds the vector (φ(x), w) to the cell of its class, with a norm of φ of at most 1. Replacing it changes two cells
by at most :math:`\sqrt{1 + w^2}` each, or one by :math:`\lVert\varphi - \varphi'\rVert`, at most 2, and at most
√2 if features are not negative. Samples are then moved by gradient steps until the means of their features are the
noisy ones; that looks at nothing but the release.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from fedcast.errors import FedcastError
from fedcast.sharing.features import gaussian_release, limited
from fedcast.sharing.gaussian_noise import Noise
from fedcast.typing import Floats, Ints

_STEPS, _RATE = 100, 0.2
_DECAYS, _TINY = (0.9, 0.999), 1e-8  # of Adam
_SIZE = 1000  # random features
_SEED = 0  # public, and the same for all

Pull = Callable[[Floats], Floats]


@dataclass(frozen=True, eq=False)
class Fourier:
    """√(2/f)·(cos Wx, sin Wx), whose inner products are about exp(−‖x − x'‖²/(2ℓ²)) for rows of W ~ N(0, 1/ℓ²)."""

    matrix: Floats  #: W, [f/2, d]
    not_negative: bool = False  #: whether no feature is ever below 0

    def evaluated(self, inputs: Floats) -> tuple[Floats, Pull]:
        """Return features [n, f] of norm 1 of inputs [n, d], and a map of gradients by features to those by inputs."""
        turns, half = inputs @ self.matrix.T, len(self.matrix)
        values = np.concatenate([np.cos(turns), np.sin(turns)], axis=1) / math.sqrt(half)

        def pull(gradient: Floats) -> Floats:
            by_turns: Floats = values[:, :half] * gradient[:, half:] - values[:, half:] * gradient[:, :half]
            return by_turns @ self.matrix

        return values, pull

    def within(self, basis: Floats) -> Fourier:
        """Return the same as a function of coordinates [n, k] in a basis [k, d]."""
        return Fourier(self.matrix @ basis.T)


@dataclass(frozen=True, eq=False)
class Network:
    """The last of some layers max(0, Wh + b), scaled to norm 1."""

    layers: tuple[tuple[Floats, Floats], ...]  #: W, [out, in], and b, [out], of each
    not_negative: bool = True

    def evaluated(self, inputs: Floats) -> tuple[Floats, Pull]:
        """Return features of norm 1, or 0 where all are 0, and how gradients follow."""
        hidden = [inputs]
        for matrix, bias in self.layers:
            hidden.append(np.maximum(hidden[-1] @ matrix.T + bias, 0.0))
        norms = np.maximum(np.linalg.norm(hidden[-1], axis=1, keepdims=True), _TINY)
        unit: Floats = hidden[-1] / norms

        def pull(gradient: Floats) -> Floats:
            back: Floats = (gradient - unit * (gradient * unit).sum(axis=1, keepdims=True)) / norms
            for (matrix, _), above in zip(reversed(self.layers), reversed(hidden[1:]), strict=True):
                back = (back * (above > 0)) @ matrix
            return back

        return unit, pull

    def within(self, basis: Floats) -> Network:
        """Return the same as a function of coordinates in a basis."""
        (matrix, bias), *others = self.layers
        return Network(((matrix @ basis.T, bias), *others))


# Public functions of samples, with a norm of at most 1.
Features = Fourier | Network


@lru_cache(maxsize=4)
def fourier(size: int, length: float) -> Fourier:
    """Return random Fourier features of vectors of a size, for distances of about `length`."""
    matrix = np.random.default_rng([_SEED, size]).standard_normal((_SIZE // 2, size)) / length
    return Fourier(matrix)


@lru_cache(maxsize=4)
def random_network(size: int) -> Network:
    """Return a network of two random layers (He et al. 2015)."""
    rng, widths = np.random.default_rng([_SEED, size]), (size, _SIZE // 2, _SIZE // 2)
    layers = [
        (rng.standard_normal((out, into)) * math.sqrt(2 / into), np.zeros(out))
        for into, out in itertools.pairwise(widths)
    ]
    return Network(tuple(layers))


def network_of_file(path: str, size: int) -> Network:
    """Read a network of dense layers: arrays weight_0 [out, in], bias_0 [out], weight_1, … of a .npz file."""
    try:
        with np.load(Path(path), allow_pickle=False) as found:
            arrays = {name: np.asarray(found[name], dtype=np.float64) for name in found.files}
    except (OSError, ValueError) as error:
        raise FedcastError(f"{path}: no readable network: {error}; expected a .npz file") from None
    layers, width = [], size
    for number in range(len(arrays) // 2):
        matrix, bias = (arrays.get(f"{name}_{number}") for name in ("weight", "bias"))
        if matrix is None or bias is None or matrix.ndim != 2 or bias.shape != matrix.shape[:1]:
            raise FedcastError(f"{path}: layer {number}: expected weight_{number} [out, in] and bias_{number} [out]")
        if matrix.shape[1] != width:
            raise FedcastError(f"{path}: weight_{number} takes {matrix.shape[1]} values, and there are {width}")
        if not (np.isfinite(matrix).all() and np.isfinite(bias).all()):
            raise FedcastError(f"{path}: layer {number} contains NaN or infinity")
        layers.append((matrix, bias))
        width = len(bias)
    if not layers or len(arrays) % 2:
        raise FedcastError(f"{path}: expected arrays weight_0, bias_0, weight_1, bias_1 and so on")
    return Network(tuple(layers))


def noisy_embedding(
    inputs: Floats, labels: Ints, num_classes: int, features: Features, mu: float, noise: Noise
) -> Floats:
    """Release the means of features of classes, [Y, f], μ-GDP."""
    weight = 0.5 if features.not_negative else 1.0
    sensitivity = max(math.sqrt(2 * (1 + weight**2)), math.sqrt(2) if features.not_negative else 2.0)
    vectors = limited(features.evaluated(inputs)[0], 1.0)
    vectors = np.concatenate([vectors, np.full((len(inputs), 1), weight)], axis=1)
    noisy = gaussian_release([(vectors, labels)], (num_classes, vectors.shape[1]), sensitivity, mu, noise)
    counts, sigma = noisy[:, -1] / weight, sensitivity / mu / weight
    return noisy[:, :-1] / np.maximum(counts, sigma)[:, None]


def matched(wanted: Floats, labels: Ints, places: Floats, features: Features) -> Floats:
    """Move samples [n, k] of classes by steps of Adam until the means of their features are those wanted, [Y, f]."""
    classes, of_sample = np.unique(labels, return_inverse=True)
    members = (of_sample == np.arange(len(classes))[:, None]).astype(np.float64)
    members /= members.sum(axis=1, keepdims=True)
    first, second = np.zeros_like(places), np.zeros_like(places)
    for step in range(1, _STEPS + 1):
        values, pull = features.evaluated(places)
        gradient = pull(2 * (members @ values - wanted[classes])[of_sample])
        first = _DECAYS[0] * first + (1 - _DECAYS[0]) * gradient
        second = _DECAYS[1] * second + (1 - _DECAYS[1]) * gradient**2
        unbiased = [each / (1 - decay**step) for each, decay in zip((first, second), _DECAYS, strict=True)]
        rate = _RATE * (1 - (step - 1) / _STEPS)
        places = places - rate * unbiased[0] / (np.sqrt(unbiased[1]) + _TINY)
    return places
