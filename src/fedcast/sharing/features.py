"""Building blocks of private kinds: vectors of limited norm, the Gaussian release of their sums, and a public basis."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fedcast.errors import FedcastError
from fedcast.sharing.gaussian_noise import SIGMA_STEPS, Noise
from fedcast.typing import Floats, Ints


def within_unit(inputs: NDArray[np.floating]) -> Floats:
    """Return inputs as vectors [n, d] in [0, 1]; NaN counts as 0, since a bound must hold for whatever a sample is."""
    return np.clip(np.nan_to_num(inputs.reshape(len(inputs), -1).astype(np.float64), posinf=1.0, neginf=0.0), 0.0, 1.0)


def limited(vectors: NDArray[np.floating], norm: float) -> Floats:
    """Return finite vectors, scaled down to a norm of at most `norm` where theirs is larger."""
    wide = vectors.astype(np.float64)
    norms = np.linalg.norm(wide, axis=1, keepdims=True)
    bounded: Floats = wide * np.minimum(1.0, norm / np.maximum(norms, np.finfo(np.float64).tiny))
    return bounded


def gaussian_release(
    blocks: Iterable[tuple[Floats, Ints]], shape: tuple[int, int], sensitivity: float, mu: float, noise: Noise
) -> Floats:
    """Return the sums of vectors by cell, [cells, d], with Gaussian noise: μ-GDP.

    `blocks` are some vectors each with their cells, and `sensitivity` bounds how far the sums move if one sample is
    replaced, its vector and its cell. Vectors are rounded towards 0 to a grid before they are added, so that sums and
    noise are whole numbers.
    """
    # Rounding moves each of two vectors by less than a step in every coordinate.
    rounding = 2 * math.sqrt(shape[1])
    if SIGMA_STEPS * mu <= 2 * rounding:
        raise FedcastError(f"invalid value for epsilon: too small for sums of {shape[1]:,} coordinates")
    step = sensitivity / (SIGMA_STEPS * mu - rounding)
    sums = np.zeros(shape, dtype=np.int64)
    for vectors, cells in blocks:
        order = np.argsort(cells, kind="stable")
        held, first = np.unique(cells[order], return_index=True)
        sums[held] += np.add.reduceat(np.trunc(vectors[order] / step).astype(np.int64), first, axis=0)
    return noise(sums).astype(np.float64) * step


@lru_cache(maxsize=8)
def smooth_basis(shape: tuple[int, ...], most: int) -> Floats:
    """Return orthonormal rows [k, d] that span smooth images: the `most` lowest frequencies of the cosine transform.

    They are the same for all data, so that they cost no privacy. Images have a shape (channels, height, width); vectors
    keep all their coordinates.
    """
    size = math.prod(shape)
    if len(shape) != 3 or most >= size:
        return np.eye(size)
    channels, height, width = shape
    rows, columns = _cosines(height), _cosines(width)
    squares = (np.arange(height)[:, None] / height) ** 2 + (np.arange(width) / width) ** 2
    order = np.argsort(squares.ravel(), kind="stable")[: max(1, most // channels)]
    images = np.einsum("ui,uj->uij", rows[order // width], columns[order % width]).reshape(len(order), -1)
    return np.kron(np.eye(channels), images)


def _cosines(size: int) -> Floats:
    """Return the orthonormal matrix of the discrete cosine transform (DCT-II), [frequency, place]."""
    places = np.arange(size)
    waves = np.cos(np.pi * np.outer(places, 2 * places + 1) / (2 * size)) * math.sqrt(2 / size)
    waves[0] /= math.sqrt(2)
    return waves
