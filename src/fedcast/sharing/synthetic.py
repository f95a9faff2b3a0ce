r"""Share samples of a generator that is fitted to noisy moments: (ε, δ)-differentially private.

First the class means are released, as in ``prototypes``, then the covariance of what differs from them in the lowest
frequencies of the images. With a residual r scaled down to a norm of at most R, replacing a sample moves
:math:`\sum r r^T` by :math:`\lVert r r^T - r' r'^T\rVert_F \le \sqrt 2\,R^2`, whatever the labels. The parts of ε that
they take are chosen before anything is looked at. The generator draws from a normal distribution around each class mean
whose covariance is the noisy one without what noise alone would explain; variance that is lost in noise is given back
to frequencies by a public spectrum. Everything after the two releases reveals nothing more. With `features` other than
pixels there is one release instead, see `fedcast.sharing.embedding`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedcast.registry import option
from fedcast.sharing.embedding import Features, fourier, matched, network_of_file, noisy_embedding, random_network
from fedcast.sharing.features import gaussian_release, limited, smooth_basis, within_unit
from fedcast.sharing.gaussian_noise import Noise
from fedcast.sharing.generate import PrivacyOptions, generating
from fedcast.sharing.ledger import Held, Made, Request
from fedcast.sharing.privacy import gaussian_mu
from fedcast.sharing.prototypes import noisy_means, spread
from fedcast.typing import Floats

_BLOCK = 1000
_SENSITIVITY = math.sqrt(2)  # in units of R²


@dataclass(frozen=True)
class SyntheticOptions(PrivacyOptions):
    """Options of kind ``synthetic``."""

    clip: float = option(0.33, "largest root mean square of an input; a public number", gt=0, le=1)
    spread: float = option(0.2, "largest root mean square of what differs from the class mean; public", gt=0, le=1)
    frequencies: int = option(100, "lowest frequencies of images that are generated", ge=1, le=1000)
    means_share: float = option(0.5, "part of the privacy budget, as μ², for the class means", gt=0, lt=1)
    tail: float = option(0.5, "part of the variance that noise hides to be given back", ge=0, le=1)
    features: Literal["pixels", "fourier", "network"] = option(
        "pixels", "what is released: means and covariance, or means of random Fourier or of a network's features"
    )
    network_file: str | None = option(
        None, "features = network: layers of a network that was trained on public data (.npz); unset: a random one"
    )


def make_synthetic(held: Held, request: Request, options: SyntheticOptions) -> Made:
    """Draw samples around noisy class means: with a noisy covariance, or moved until their public features agree."""
    mu, classes = gaussian_mu(options.epsilon, options.delta), held.num_classes
    mu_means, mu_rest = mu * math.sqrt(options.means_share), mu * math.sqrt(1 - options.means_share)
    shape, inputs = held.inputs.shape[1:], within_unit(held.inputs)
    means, counts = noisy_means(inputs, held.labels, classes, options.clip, mu_means, request.noise)
    basis = smooth_basis(shape, options.frequencies)
    means, (labels, _) = means @ basis.T, spread(counts[:, None], request)
    drawn = request.rng.standard_normal((len(labels), len(basis)))
    if options.features == "pixels":
        residuals = inputs @ basis.T - means[held.labels]
        covariance, sigma = noisy_covariance(residuals, options.spread**2 * inputs.shape[1], mu_rest, request.noise)
        root = root_without_noise(covariance, sigma, options.tail * public_spectrum(shape, len(basis)))
        places = means[labels] + drawn @ root
    else:
        features = _public_features(inputs.shape[1], options)
        wanted = noisy_embedding(inputs, held.labels, classes, features, mu_rest, request.noise)
        radius = options.spread * math.sqrt(inputs.shape[1] / len(basis))
        places = matched(wanted, labels, means[labels] + radius * drawn, features.within(basis))
    return Made((places @ basis).reshape(-1, *shape), labels, mu=mu)


def _public_features(size: int, options: SyntheticOptions) -> Features:
    if options.features == "fourier":
        # Two samples of one class differ by about √2 times what one differs from their mean.
        return fourier(size, math.sqrt(2 * size) * options.spread)
    return random_network(size) if options.network_file is None else network_of_file(options.network_file, size)


def noisy_covariance(residuals: Floats, most: float, mu: float, noise: Noise) -> tuple[Floats, float]:
    """Release the mean of r rᵀ, [k, k], μ-GDP, and σ of its noise; residuals are limited to a squared norm of `most`.

    σ is that of the noise on the diagonal; beside it, where a number stands for two, it is smaller by √2.
    """
    count, size = residuals.shape
    rows, columns = np.triu_indices(size)
    blocks = (triangles(residuals[start : start + _BLOCK], most) for start in range(0, count, _BLOCK))
    together = ((some, np.zeros(len(some), dtype=np.int64)) for some in blocks)
    (triangle,) = gaussian_release(together, (1, len(rows)), _SENSITIVITY * most, mu, noise) / count
    covariance = np.zeros((size, size))
    covariance[rows, columns] = covariance[columns, rows] = triangle / _weights(size)
    return covariance, _SENSITIVITY * most / mu / count


def triangles(residuals: Floats, most: float) -> Floats:
    """Return r rᵀ of each residual as a vector of the same norm, [n, k(k + 1)/2]: beside the diagonal times √2."""
    rows, columns = np.triu_indices(residuals.shape[1])
    bounded = limited(residuals, math.sqrt(most))
    return bounded[:, rows] * bounded[:, columns] * _weights(residuals.shape[1])


def _weights(size: int) -> Floats:
    rows, columns = np.triu_indices(size)
    return np.where(rows == columns, 1.0, math.sqrt(2))


def root_without_noise(covariance: Floats, sigma: float, spectrum: Floats) -> Floats:
    """Return the symmetric root of a covariance without what noise alone would explain.

    Noise alone has eigenvalues up to e = σ√(2k), and raises one of λ > e/2 to λ + e²/(4λ) (Benaych-Georges, Nadakuditi
    2011): larger ones are corrected, others dropped. `spectrum`, [k], is the part of the lost variance that each
    coordinate gets back.
    """
    values, vectors = np.linalg.eigh(covariance)
    edge = sigma * math.sqrt(2 * len(values))
    kept = np.where(values > edge, values + np.sqrt(np.maximum(values**2 - edge**2, 0.0)), 0.0) / 2
    lost = max(float(np.trace(covariance)) - float(kept.sum()), 0.0)
    variances, axes = np.linalg.eigh((vectors * kept) @ vectors.T + np.diag(lost * spectrum))
    root: Floats = (axes * np.sqrt(np.maximum(variances, 0.0))) @ axes.T
    return root


def public_spectrum(shape: tuple[int, ...], size: int) -> Floats:
    """Return the part of the variance of each coordinate of the basis, [k]: that of natural images, 1/frequency².

    The j-th lowest frequency of a channel grows with √j. Coordinates of vectors have equal parts.
    """
    order = np.arange(size // shape[0]) if len(shape) == 3 else np.zeros(size)
    parts = np.tile(1 / (1 + order), shape[0] if len(shape) == 3 else 1)
    spectrum: Floats = parts / parts.sum()
    return spectrum


SHARING = generating(
    make_synthetic, "heads send samples of a generator fitted to noisy moments; differentially private",
    SyntheticOptions, private=True,
)  # fmt: skip
