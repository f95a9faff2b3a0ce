"""Public features against finite differences and kernels, and what is generated to agree with noisy means of them."""

import itertools

import numpy as np
import pytest

from fedcast.errors import FedcastError
from fedcast.sharing import Held, Request, find_sharing, gaussian_mu, seeded_noise
from fedcast.sharing.embedding import Network, fourier, matched, network_of_file, noisy_embedding, random_network
from fedcast.sharing.features import smooth_basis
from fedcast.sharing.synthetic import SyntheticOptions, make_synthetic
from fedcast.testing.sharing import CHECKS

ALMOST_EXACT = 400.0  # ε


def write_network(path, sizes=(64, 20, 8), seed=0):
    rng = np.random.default_rng(seed)
    arrays = {}
    for place, (into, out) in enumerate(itertools.pairwise(sizes)):
        arrays |= {f"weight_{place}": rng.standard_normal((out, into)), f"bias_{place}": rng.standard_normal(out)}
    np.savez(path, **arrays)
    return str(path)


def features_of(name, size, tmp_path):
    if name == "file":
        return network_of_file(write_network(tmp_path / "layers.npz", (size, 20, 8)), size)
    return fourier(size, 2.0) if name == "fourier" else random_network(size)


@pytest.mark.parametrize("name", ["fourier", "network", "file"])
def test_gradients_are_those_of_finite_differences(name, tmp_path):
    features, rng = features_of(name, 6, tmp_path), np.random.default_rng(1)
    inputs = rng.random((4, 6))
    values, pull = features.evaluated(inputs)
    assert np.linalg.norm(values, axis=1) == pytest.approx(1.0)
    assert not features.not_negative or (values >= 0).all()
    direction, way = rng.standard_normal(values.shape), rng.standard_normal(inputs.shape)
    step = 1e-6
    ends = [(features.evaluated(inputs + sign * step * way)[0] * direction).sum() for sign in (1, -1)]
    assert (pull(direction) * way).sum() == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-4)
    basis = np.linalg.qr(rng.standard_normal((6, 3)))[0].T
    places = rng.standard_normal((4, 3))
    assert features.within(basis).evaluated(places)[0] == pytest.approx(features.evaluated(places @ basis)[0])


def test_fourier_features_have_the_gaussian_kernel():
    features, rng = fourier(30, 3.0), np.random.default_rng(0)
    inputs = rng.random((6, 30)) * 2
    values = features.evaluated(inputs)[0]
    distances = np.square(inputs[:, None] - inputs[None]).sum(axis=2)
    assert np.abs(values @ values.T - np.exp(-distances / (2 * 3.0**2))).max() < 0.12


def test_noisy_means_of_features_are_those_of_the_samples(tmp_path):
    rng = np.random.default_rng(0)
    inputs, labels = rng.random((500, 64)), rng.integers(0, 3, 500)
    for name in ("fourier", "network", "file"):
        features = features_of(name, 64, tmp_path)
        found = noisy_embedding(
            inputs, labels, 4, features, gaussian_mu(ALMOST_EXACT, 1e-5), seeded_noise(np.random.default_rng(1))
        )
        values = features.evaluated(inputs)[0]
        for label in range(3):
            assert np.abs(found[label] - values[labels == label].mean(axis=0)).max() < 0.01
        assert np.isfinite(found[3]).all(), "noise alone"


def test_generated_samples_agree_with_the_means_and_look_like_the_class():
    """A class of one image: its features are met by that image, and noise-free matching finds it."""
    rng, basis = np.random.default_rng(0), smooth_basis((1, 8, 8), 10)
    images = 0.5 + 0.2 * rng.standard_normal((2, 10)) @ basis
    features, labels = fourier(64, 3.0).within(basis), np.array([0, 0, 1, 1, 1])
    inside = images @ basis.T
    wanted = features.evaluated(inside)[0]
    made = matched(wanted, labels, 0.3 * rng.standard_normal((5, 10)), features) @ basis
    for label, sample in zip(labels, made, strict=True):
        gaps = np.sqrt(np.square(inside @ basis - sample).mean(axis=1))
        assert gaps.argmin() == label
        assert gaps[label] < 0.1


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("features", ["fourier", "network"])
def test_the_conformance_kit(check, features):
    check(find_sharing("synthetic"), SyntheticOptions(features=features, frequencies=8))


def test_a_network_of_a_file_is_used(tmp_path):
    rng = np.random.default_rng(0)
    held = Held(rng.random((40, 1, 8, 8), dtype=np.float32), np.arange(40) % 2, 2)

    def made(seed):
        file = write_network(tmp_path / f"{seed}.npz", seed=seed)
        options = SyntheticOptions(features="network", network_file=file, epsilon=ALMOST_EXACT)
        rngs = [np.random.default_rng(part) for part in range(2)]
        return make_synthetic(held, Request(6, True, rngs[0], seeded_noise(rngs[1])), options).inputs

    assert np.array_equal(made(0), made(0))
    assert not np.array_equal(made(0), made(1))


@pytest.mark.parametrize(("arrays", "message"), [
    ({}, "weight_0"), ({"weight_0": np.zeros((3, 64))}, "weight_0, bias_0"),
    ({"weight_0": np.zeros((3, 5)), "bias_0": np.zeros(3)}, "takes 5 values, and there are 64"),
    ({"weight_0": np.zeros((3, 64)), "bias_0": np.zeros(4)}, "bias_0"),
    ({"weight_0": np.full((3, 64), np.nan), "bias_0": np.zeros(3)}, "NaN"),
])  # fmt: skip
def test_files_that_are_no_network(tmp_path, arrays, message):
    np.savez(tmp_path / "layers.npz", **arrays)
    with pytest.raises(FedcastError, match=message):
        network_of_file(str(tmp_path / "layers.npz"), 64)
    with pytest.raises(FedcastError, match="no readable network"):
        network_of_file(str(tmp_path / "none.npz"), 64)


def test_a_network_whose_features_are_all_zero_moves_nothing():
    dead = Network(((-np.ones((4, 3)), np.zeros(4)),))
    values, pull = dead.evaluated(np.ones((2, 3)))
    assert (values == 0).all()
    assert np.isfinite(pull(np.ones((2, 4)))).all()
