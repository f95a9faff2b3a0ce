"""Crops and flips of training images: against PyTorch's padding, in both engines, and drawn per user and epoch."""

import numpy as np
import pytest
import torch

from fedcast.data import Assignment
from fedcast.errors import FedcastError
from fedcast.training import build_model, train
from fedcast.training.device_data import VIEWS, to_device
from fedcast.training.engines.schedule import batches_of
from tests.training.conftest import federation, settings, text_federation
from tests.training.test_engines import assert_equal


def test_views_are_crops_of_the_image_padded_by_reflection_flipped_or_not():
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (5, 3, 12, 9), dtype=np.uint8)
    data = to_device(images, np.arange(5), 1 / 255, torch.device("cpu"), torch.float64, "crop_flip")
    views = np.arange(VIEWS["crop_flip"])
    samples = rng.integers(0, 5, len(views))
    found, labels = data.pick(torch.from_numpy(samples + 5 * views).view(2, -1))
    padded = torch.nn.functional.pad(torch.from_numpy(images).double() / 255, (4, 4, 4, 4), mode="reflect")
    expected = {
        (sample, row, column, flip): crop.flip(2) if flip else crop
        for sample in range(5)
        for row in range(9)
        for column in range(9)
        for crop in [padded[sample, :, row : row + 12, column : column + 9]]
        for flip in (0, 1)
    }
    places = [(int(sample), view % 9, view // 9 % 9, view // 81) for sample, view in zip(samples, views, strict=True)]
    assert len({place[1:] for place in places}) == 162
    assert torch.allclose(found.flatten(0, 1), torch.stack([expected[place] for place in places]), atol=1e-12)
    assert labels.flatten().tolist() == samples.tolist()


def test_views_are_drawn_for_each_user_and_epoch():
    data = Assignment(np.arange(40, 100), np.array([0, 30, 60]))

    def drawn(users, round_number=1, seed=0):
        order = {"seed": seed, "round_number": round_number, "views": 162, "num_samples": 100}
        return batches_of(data, np.array(users), 30, 2, **order)[0]

    plain = batches_of(data, np.array([0, 1]), 30, 2, seed=0, round_number=1)[0]
    both = drawn([0, 1])
    assert np.array_equal(both % 100, plain), "the order of samples is that without views"
    assert np.array_equal(both[:, 1:], drawn([1])), "other users change nothing"
    views = both // 100
    assert 0 <= views.min() <= views.max() < 162
    assert len(np.unique(views)) > 60
    for other in (drawn([0, 1], round_number=2), drawn([0, 1], seed=1)):
        assert not np.array_equal(other // 100, views)
    assert not np.array_equal(views[0], views[1])


@pytest.mark.parametrize("algorithm", ["fedavg", "scaffold"])
def test_both_engines_see_the_same_views(algorithm):
    outcomes = []
    for engine in ("loop", "stacked"):
        chosen = settings(engine=engine, algorithm=algorithm, augmentation="crop_flip", momentum=0.9, rounds=2)
        outcomes.append(train(federation(), build_model("small_cnn", (1, 8, 8), 4, seed=1), chosen, seed=3))
    assert_equal(*outcomes)
    plain = settings(momentum=0.9, rounds=2, algorithm=algorithm)
    unchanged = train(federation(), build_model("small_cnn", (1, 8, 8), 4, seed=1), plain, seed=3)
    assert not torch.allclose(unchanged.weights[0], outcomes[0].weights[0], atol=1e-6)


@pytest.mark.parametrize("world", [federation(shape=(1, 4, 8)), text_federation()])
def test_only_images_can_be_augmented(world):
    with pytest.raises(FedcastError, match=r"'crop_flip' for training\.augmentation: expected images.*use none"):
        train(world, build_model("mlp", (1, 4, 8), 4), settings(augmentation="crop_flip"))
