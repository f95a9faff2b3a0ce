r"""Share noisy class means: (ε, δ)-differentially private.

All classes are released, also those that a head does not hold. A sample in group g of class y adds the vector (x, w) to
cell (y, g), where x ≥ 0 is its input, scaled down to a norm of at most C, and w the weight of the count. Replacing a
sample, input and label, changes two cells by at most :math:`\sqrt{C^2 + w^2}` each, or one cell by
:math:`\lVert x - x'\rVert \le \sqrt 2\,C`, since inputs are not negative: the sensitivity is
:math:`\sqrt{2(C^2 + w^2)}` in both cases (it would be 2C for inputs of any sign). Groups are drawn by a sample's place,
not by what it contains. Sums are then divided by counts, and smoothed, from what was released alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fedcast.registry import option
from fedcast.sharing.features import gaussian_release, limited, smooth_basis, within_unit
from fedcast.sharing.gaussian_noise import Noise
from fedcast.sharing.generate import PrivacyOptions, generating, shares_of_classes
from fedcast.sharing.ledger import Held, Made, Request
from fedcast.sharing.privacy import gaussian_mu
from fedcast.typing import Floats, Ints

# Weight of a count in units of C: it takes 12 % of the precision of sums and makes σ of a count 3.2/μ.
_COUNT_WEIGHT = 0.5
_SENSITIVITY = math.sqrt(2 * (1 + _COUNT_WEIGHT**2))  # in units of C
_SIGMA_OF_COUNT = _SENSITIVITY / _COUNT_WEIGHT  # times 1/μ
# A class counts as held if its noisy count is so many σ above 0: one of 700 classes without samples does.
_HELD_SIGMAS = 3.0


@dataclass(frozen=True)
class PrototypesOptions(PrivacyOptions):
    """Options of kind ``prototypes``."""

    groups: int = option(1, "means of a class, each of a random part of its samples", ge=1, le=1000)
    clip: float = option(0.33, "largest root mean square of an input; a public number", gt=0, le=1)
    frequencies: int = option(100, "means of images keep so many of their lowest frequencies", ge=1)


def make_prototypes(held: Held, request: Request, options: PrototypesOptions) -> Made:
    """Return means, each as often as its class has a share in the volume."""
    groups, mu = options.groups, gaussian_mu(options.epsilon, options.delta)
    cells = held.labels * groups + request.rng.permutation(len(held.labels)) % groups
    shape, inputs = held.inputs.shape[1:], within_unit(held.inputs)
    means, counts = noisy_means(inputs, cells, held.num_classes * groups, options.clip, mu, request.noise)
    basis = smooth_basis(shape, options.frequencies)
    means = (means @ basis.T) @ basis
    labels, chosen = spread(counts.reshape(-1, groups), request)
    return Made(means[chosen].reshape(-1, *shape), labels, mu=mu)


def noisy_means(
    inputs: Floats, cells: Ints, num_cells: int, clip: float, mu: float, noise: Noise
) -> tuple[Floats, Floats]:
    """Release the means, [cells, d], and counts, [cells], of cells, μ-GDP; see `noisy_sums`.

    A count is 0 where noise alone explains it; if it explains all, the largest stays.
    """
    sums, counts = noisy_sums(inputs, cells, num_cells, clip, mu, noise)
    sigma = _SIGMA_OF_COUNT / mu
    certain = np.where(counts >= _HELD_SIGMAS * sigma, counts, 0.0)
    if not certain.any():
        certain[counts.argmax()] = max(float(counts.max()), 1.0)
    return sums / np.maximum(counts, sigma)[:, None], certain


def noisy_sums(
    inputs: Floats, cells: Ints, num_cells: int, clip: float, mu: float, noise: Noise
) -> tuple[Floats, Floats]:
    """Release the sums, [cells, d], and counts, [cells], of cells, μ-GDP; `clip` is the largest RMS of an input."""
    norm = clip * math.sqrt(inputs.shape[1])
    weight = _COUNT_WEIGHT * norm
    bounded = limited(within_unit(inputs), norm)
    vectors = np.concatenate([bounded, np.full((len(inputs), 1), weight)], axis=1)
    noisy = gaussian_release([(vectors, cells)], (num_cells, vectors.shape[1]), _SENSITIVITY * norm, mu, noise)
    return noisy[:, :-1], noisy[:, -1] / weight


def spread(counts: Floats, request: Request) -> tuple[Ints, Ints]:
    """Return classes and cells of the samples to send, from counts [Y, groups]: the groups of a class in turn."""
    per_class = shares_of_classes(counts.sum(axis=1), request.volume, request.balanced)
    chosen = [
        np.resize(label * counts.shape[1] + np.flatnonzero(counts[label]), count)
        for label, count in enumerate(per_class)
        if count
    ]
    cells = np.concatenate([np.zeros(0, dtype=np.int64), *chosen])
    return cells // counts.shape[1], cells


SHARING = generating(
    make_prototypes, "heads send noisy class means; differentially private", PrototypesOptions, private=True
)
