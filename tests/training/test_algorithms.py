"""Algorithms against themselves written out here, without any part of the package but the model."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from fedcast.training import build_model
from tests.training.conftest import federation, run


def start():
    """The model that `run` begins with, its names and its weights."""
    model = build_model("mlp", (1, 8, 8), 4, seed=1).double()
    return model, [name for name, _ in model.named_parameters()], [w.detach().clone() for w in model.parameters()]


def gradient(world, samples, model, names, weights):
    """Of the mean loss over the samples."""
    inputs = torch.from_numpy(world.dataset.inputs[samples].astype(np.float64))
    labels = torch.from_numpy(world.dataset.labels[samples])
    leaves = [weight.clone().requires_grad_() for weight in weights]
    output = torch.func.functional_call(model, dict(zip(names, leaves, strict=True)), inputs)
    return torch.autograd.grad(F.cross_entropy(output, labels), leaves)


def assert_same(ours, theirs, atol=1e-12):
    for one, other in zip(ours, theirs, strict=True):
        assert torch.allclose(one, other, atol=atol)


def test_one_user_with_one_epoch_of_full_batches_is_gradient_descent():
    world = federation(sizes=[12, 0, 0, 0, 0, 0])
    # User 3 received samples in this world; with aggregation by own size it weighs nothing.
    outcome = run(world, batch_size=50, local_epochs=1, rounds=3, aggregation="own")
    model, names, weights = start()
    for _ in range(3):
        slopes = gradient(world, world.users.of(0), model, names, weights)
        weights = [w - 0.1 * g for w, g in zip(weights, slopes, strict=True)]
    assert_same(outcome.weights, weights)


def test_full_batches_and_one_epoch_of_fedavg_is_central_gradient_descent():
    """With one local step the weighted average of users is a step on all data."""
    world = federation()
    outcome = run(world, batch_size=100, local_epochs=1, rounds=2)
    model, names, weights = start()
    for _ in range(2):
        slopes = gradient(world, world.users.samples, model, names, weights)
        weights = [w - 0.1 * g for w, g in zip(weights, slopes, strict=True)]
    assert_same(outcome.weights, weights)


@pytest.mark.parametrize("dropped", [set(), {(1, 0), (2, 1), (2, 3), (4, 2)}])
def test_scaffold_of_unequal_users(dropped):
    """Option II, the server's variate weighted as the server's model is; who is absent keeps its own."""
    world = federation(sizes=[12, 5, 8, 20, 3, 0])
    outcome = run(world, batch_size=100, local_epochs=2, rounds=4, algorithm="scaffold", dropped=dropped)
    model, names, server = start()
    shares = world.users.sizes / world.users.sizes.sum()
    zeros = [torch.zeros_like(weight) for weight in server]
    common, own = zeros, {int(user): zeros for user in np.flatnonzero(shares)}
    for number in (1, 2, 3, 4):
        present = [user for user in own if (number, user) not in dropped]
        local, new = {}, {}
        for user in present:
            weights = server
            for _ in range(2):
                slopes = gradient(world, world.users.of(user), model, names, weights)
                steps = zip(weights, slopes, own[user], common, strict=True)
                weights = [w - 0.1 * (g - c_k + c) for w, g, c_k, c in steps]
            local[user] = weights
            parts = zip(own[user], common, server, weights, strict=True)
            new[user] = [c_k - c + (w - w_k) / (2 * 0.1) for c_k, c, w, w_k in parts]
        there = shares[present].sum()
        server = [sum(shares[u] / there * local[u][i] for u in present) for i in range(len(server))]
        common = [c + sum(shares[u] * (new[u][i] - own[u][i]) for u in present) for i, c in enumerate(common)]
        own |= new
    assert_same(outcome.weights, server, atol=1e-11)


def test_scaffold_and_fednova_with_equal_users_are_fedavg():
    """Users with the same data have no drift to correct, and equal steps need no normalising."""
    world = federation(sizes=[8, 8])
    same = replace(
        world, users=replace(world.users, samples=np.tile(np.sort(world.users.of(0)), 2), offsets=np.array([0, 8, 16]))
    )
    plain = run(same, batch_size=50)
    nova = run(same, batch_size=50, algorithm="fednova")
    scaffold = run(same, batch_size=50, algorithm="scaffold")
    for a, b, c in zip(plain.weights, nova.weights, scaffold.weights, strict=True):
        assert torch.allclose(a, b, atol=1e-12)
        assert torch.allclose(a, c, atol=1e-10)
    assert plain.history.records[-1].drift < 1e-7


def test_fednova_does_not_favour_users_with_many_steps():
    """With small steps FedAvg is pulled to the user that takes more of them; FedNova is not (Wang et al. 2020)."""
    world = federation(sizes=[4, 40])
    labels = np.zeros_like(world.dataset.labels)
    labels[world.users.of(1)] = 1
    images = np.ones_like(world.dataset.inputs)
    bowl = replace(world, dataset=replace(world.dataset, inputs=images, labels=labels))
    results = {}
    for algorithm in ("fedavg", "fednova"):
        outcome = run(
            bowl,
            batch_size=4,
            local_epochs=1,
            rounds=800,
            algorithm=algorithm,
            aggregation="uniform",
            learning_rate=0.001,
        )
        model = build_model("mlp", (1, 8, 8), 4).double()
        names = [name for name, _ in model.named_parameters()]
        logits = torch.func.functional_call(
            model, dict(zip(names, outcome.weights, strict=True)), (torch.ones(1, 1, 8, 8, dtype=torch.float64),)
        )
        results[algorithm] = F.softmax(logits, 1)[0, 1].item()
    assert results["fedavg"] > 0.8  # 10/11 in the limit of small steps
    assert abs(results["fednova"] - 0.5) < 0.1


def test_uniform_aggregation_takes_every_user_alike():
    world = federation()
    outcome = run(world, batch_size=100, local_epochs=1, rounds=2, aggregation="uniform")
    model, names, weights = start()
    able = np.flatnonzero(world.users.sizes)
    for _ in range(2):
        each = [gradient(world, world.users.of(user), model, names, weights) for user in able]
        weights = [w - 0.1 * sum(parts) / len(able) for w, *parts in zip(weights, *each, strict=True)]
    assert_same(outcome.weights, weights)


def test_fedprox_pulls_every_local_step_back():
    world = federation()
    outcome = run(world, batch_size=100, local_epochs=4, rounds=2, algorithm="fedprox", prox_weight=0.7)
    model, names, server = start()
    shares = world.users.sizes / world.users.sizes.sum()
    for _ in range(2):
        mean = [torch.zeros_like(weight) for weight in server]
        for user in np.flatnonzero(world.users.sizes):
            local = server
            for _ in range(4):
                slopes = gradient(world, world.users.of(user), model, names, local)
                local = [w - 0.1 * (g + 0.7 * (w - w0)) for w, g, w0 in zip(local, slopes, server, strict=True)]
            mean = [m + shares[user] * w for m, w in zip(mean, local, strict=True)]
        server = mean
    assert_same(outcome.weights, server)


@pytest.mark.parametrize("optimizer", ["momentum", "adam"])
def test_server_optimisers(optimizer):
    """One local step on full batches: the users' average change is minus the gradient over all data, times the step."""
    world = federation()
    changes = {"server_optimizer": optimizer, "server_learning_rate": 0.3, "server_momentum": 0.8, "server_beta2": 0.95}
    outcome = run(world, batch_size=100, local_epochs=1, rounds=4, server_epsilon=0.01, **changes)
    model, names, weights = start()
    by_pytorch = torch.optim.SGD(weights, lr=0.3, momentum=0.8)
    first, second = ([torch.zeros_like(weight) for weight in weights] for _ in range(2))
    for _ in range(4):
        slopes = [0.1 * part for part in gradient(world, world.users.samples, model, names, weights)]
        if optimizer == "momentum":
            for weight, slope in zip(weights, slopes, strict=True):
                weight.grad = slope
            by_pytorch.step()
        else:  # Reddi et al. 2021, Algorithm 2: without the correction of bias that PyTorch's Adam has.
            first = [0.8 * m + 0.2 * g for m, g in zip(first, slopes, strict=True)]
            second = [0.95 * v + 0.05 * g**2 for v, g in zip(second, slopes, strict=True)]
            moved = [m / (v.sqrt() + 0.01) for m, v in zip(first, second, strict=True)]
            weights = [w - 0.3 * step for w, step in zip(weights, moved, strict=True)]
    assert_same(outcome.weights, weights)
