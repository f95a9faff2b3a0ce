"""Algorithms against themselves written out here, without any part of the package but the model."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from fedcast.cost import model_bits
from fedcast.errors import FedcastError
from fedcast.registry import find, load_file, names
from fedcast.scenario import load_scenario
from fedcast.testing.algorithms import ALGORITHM_CHECKS, check_algorithm
from fedcast.training import Algorithm, TrainingSettings, build_model, train, training_settings
from fedcast.training.algorithms.feddyn import FedDynOptions
from tests.training.conftest import federation, run, settings


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
            rounds=150,
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


@pytest.mark.parametrize("optimizer", ["momentum", "adam", "yogi"])
def test_server_optimisers(optimizer):
    """One local step on full batches: the users' average change is minus the gradient over all data, times the step."""
    world = federation()
    changes = {"server_optimizer": optimizer, "server_learning_rate": 0.3, "server_momentum": 0.8, "server_beta2": 0.95}
    outcome = run(world, batch_size=100, local_epochs=1, rounds=4, server_epsilon=0.01, **changes)
    model, names, weights = start()
    by_pytorch = torch.optim.SGD(weights, lr=0.3, momentum=0.8)
    first, second = ([torch.zeros_like(weight) for weight in weights] for _ in range(2))
    if optimizer == "yogi":
        second = [torch.full_like(weight, 0.01**2) for weight in weights]
    for _ in range(4):
        slopes = [0.1 * part for part in gradient(world, world.users.samples, model, names, weights)]
        if optimizer == "momentum":
            for weight, slope in zip(weights, slopes, strict=True):
                weight.grad = slope
            by_pytorch.step()
        else:  # Reddi et al. 2021, Algorithm 2: without the correction of bias that PyTorch's Adam has.
            first = [0.8 * m + 0.2 * g for m, g in zip(first, slopes, strict=True)]
            if optimizer == "adam":
                second = [0.95 * v + 0.05 * g**2 for v, g in zip(second, slopes, strict=True)]
            else:
                second = [v - 0.05 * g**2 * torch.sign(v - g**2) for v, g in zip(second, slopes, strict=True)]
            moved = [m / (v.sqrt() + 0.01) for m, v in zip(first, second, strict=True)]
            weights = [w - 0.3 * step for w, step in zip(weights, moved, strict=True)]
    assert_same(outcome.weights, weights)


@pytest.mark.parametrize("dropped", [set(), {(1, 0), (2, 1), (2, 3), (4, 2)}])
def test_feddyn_of_unequal_users(dropped):
    """Algorithm 1 of Acar et al. 2021, with users weighted by size; who is absent keeps its own gradient."""
    world = federation(sizes=[12, 5, 8, 20, 3, 0])
    options, alpha = FedDynOptions(alpha=0.3), 0.3
    training = settings_of("feddyn", options, batch_size=100, local_epochs=3, rounds=4, learning_rate=0.1)
    outcome = train(world, start()[0], training, dropped=dropped)
    model, names, server = start()
    shares = world.users.sizes / world.users.sizes.sum()
    zeros = [torch.zeros_like(weight) for weight in server]
    h, own = zeros, {int(user): zeros for user in np.flatnonzero(shares)}
    for number in (1, 2, 3, 4):
        present = [user for user in own if (number, user) not in dropped]
        local = {}
        for user in present:
            weights = server
            for _ in range(3):
                slopes = gradient(world, world.users.of(user), model, names, weights)
                steps = zip(weights, slopes, own[user], server, strict=True)
                weights = [w - 0.1 * (g - g_k + alpha * (w - w0)) for w, g, g_k, w0 in steps]
            local[user] = weights
            own[user] = [g - alpha * (w - w0) for g, w, w0 in zip(own[user], weights, server, strict=True)]
        moved = [sum(shares[u] * (local[u][i] - w) for u in present) for i, w in enumerate(server)]
        h = [part - alpha * m for part, m in zip(h, moved, strict=True)]
        there = shares[present].sum()
        mean = [sum(shares[u] / there * local[u][i] for u in present) for i in range(len(server))]
        server = [w - part / alpha for w, part in zip(mean, h, strict=True)]
    assert_same(outcome.weights, server, atol=1e-11)
    # What the server remembers is the mean of what users remember.
    sums = [sum(shares[u] * own[u][i] for u in own) for i in range(len(server))]
    assert_same(h, sums)


def settings_of(algorithm, options=None, **changes):
    base = {"batch_size": 4, "local_epochs": 2, "rounds": 3, "precision": "float64", "device": "cpu"}
    return TrainingSettings(algorithm=algorithm, options=options, **(base | changes))


@pytest.mark.parametrize(
    ("name", "optimizer", "options"),
    [
        ("fedavgm", "momentum", {"momentum": 0.8}),
        ("fedadam", "adam", {"beta1": 0.8, "beta2": 0.95, "epsilon": 0.01}),
        ("fedyogi", "yogi", {"beta1": 0.8, "beta2": 0.95, "epsilon": 0.01}),
    ],
)
def test_named_server_optimisers_are_fedavg_with_that_optimiser(name, optimizer, options):
    options = find("algorithm", name).options(learning_rate=0.3, **options)
    flat = {"server_momentum": 0.8, "server_beta2": 0.95, "server_epsilon": 0.01, "server_learning_rate": 0.3}
    named = train(federation(), start()[0], settings_of(name, options, learning_rate=0.1), seed=2)
    wrapped = run(federation(), server_optimizer=optimizer, seed=2, **flat)
    assert all(torch.equal(a, b) for a, b in zip(named.weights, wrapped.weights, strict=True))
    assert named.history == wrapped.history


@pytest.mark.parametrize("changes", [{"server_optimizer": "adam"}, {"server_learning_rate": 0.5}])
def test_two_server_steps_are_an_error(changes):
    with pytest.raises(FedcastError, match="training.algorithm = fedadam has a server step of its own: remove"):
        settings_of("fedadam", **changes)


def test_an_unknown_algorithm_or_option_is_an_error():
    with pytest.raises(FedcastError, match="invalid value 'fedprx' for training.algorithm: .*did you mean fedprox"):
        run(algorithm="fedprx")
    with pytest.raises(FedcastError, match="training.options: .* are the options of another choice"):
        settings_of("fedprox", FedDynOptions())
    with pytest.raises(FedcastError, match="invalid value 'stackd' for training.engine: expected one of auto, loop"):
        settings_of("fedprox", engine="stackd")


def test_flat_keys_of_a_scenario_become_options():
    found = training_settings(settings(algorithm="fedprox", prox_weight=0.7, server_optimizer="adam", server_beta2=0.9))
    assert found.options.prox_weight == 0.7
    assert found.server_options == find("algorithm", "fedadam").options(1.0, 0.9, 0.9, 1e-3)
    assert (found.batch_size, found.precision, found.engine) == (4, "float64", "auto")
    assert training_settings(found) is found


BUILT_IN = names("algorithm")


@pytest.mark.parametrize("check", ALGORITHM_CHECKS)
@pytest.mark.parametrize("name", BUILT_IN)
def test_every_algorithm_passes_the_kit(name, check):
    check(name)


def test_only_scaffold_uploads_more_than_the_change():
    assert {name: find("algorithm", name).value.uploads for name in BUILT_IN if name != "my_feddyn"} == {
        "fedavg": 1, "fedprox": 1, "scaffold": 2, "fednova": 1, "feddyn": 1, "fedavgm": 1, "fedadam": 1, "fedyogi": 1,
    }  # fmt: skip
    bits = {
        name: model_bits(load_scenario(overrides=[f"training.algorithm={name}"])) for name in ("fedavg", "scaffold")
    }
    assert bits["scaffold"] == 2 * bits["fedavg"]


def test_feddyn_as_a_plug_in_equals_the_built_in_one():
    load_file(Path(__file__).parents[2] / "examples" / "feddyn_plugin.py")
    assert find("algorithm", "my_feddyn").origin.startswith("file ")
    for engine in ("stacked", "loop"):
        own, built_in = (
            train(federation(), start()[0], settings_of(name, engine=engine, participation=0.6), seed=2)
            for name in ("my_feddyn", "feddyn")
        )
        assert own.engine == {"stacked": "StackedEngine", "loop": "LoopEngine"}[engine]
        assert all(torch.equal(a, b) for a, b in zip(own.weights, built_in.weights, strict=True))
    check_algorithm("my_feddyn")


def _halved(_, gradients, *__):
    return [0.5 * gradient for gradient in gradients]


@pytest.mark.parametrize("engine", ["loop", "stacked"])
def test_an_algorithm_may_replace_gradients(engine):
    """Half the gradient is half the learning rate, without momentum or decay."""
    halved = Algorithm("half", local_gradients=_halved)
    ours = train(federation(), start()[0], settings_of(halved, engine=engine, learning_rate=0.2))
    plain = train(federation(), start()[0], settings_of("fedavg", engine=engine, learning_rate=0.1))
    assert_same(ours.weights, plain.weights)
    check_algorithm(halved)


def test_an_algorithm_for_the_loop_alone_is_not_stacked():
    alone = Algorithm("one user at a time", engines=("loop",))
    assert train(federation(), start()[0], settings_of(alone)).engine == "LoopEngine"
    with pytest.raises(FedcastError, match="'stacked' for training.engine: the algorithm .* runs in loop"):
        train(federation(), start()[0], settings_of(alone, engine="stacked"))


def _nan(_, mean, __, server):
    return [tensor * float("nan") for tensor in mean], server


@pytest.mark.parametrize("engine", ["loop", "stacked"])
@pytest.mark.parametrize("rounds", [1, 3])
def test_weights_that_are_not_finite_name_the_algorithm_and_its_round(engine, rounds):
    nan = settings_of(Algorithm("nan", change=_nan), engine=engine, rounds=rounds)
    with pytest.raises(FedcastError, match="^algorithm nan: the weights after aggregation of round 1 are not finite"):
        train(federation(), start()[0], nan)


def test_a_test_loss_that_is_not_finite_is_an_error():
    far = Algorithm("far", change=lambda _, mean, __, server: ([tensor + 1e200 for tensor in mean], server))
    with pytest.raises(FedcastError, match="diverged in round 1: the test loss"):
        train(federation(), start()[0], settings_of(far, rounds=1))


def _changed_state(_, mean, __, ___):
    return mean, {"other": [mean[0].new_zeros(1)]}


def _own_rows(_, upload):
    return {"seen": [upload.users["seen"][0] + 1]}, {}


def _one(_, weights):
    return {"seen": [weights[0].new_zeros(())]}


BROKEN = {
    "server state has": Algorithm(
        "names", server_state=lambda _, w: {"count": [w[0].new_zeros(1)]}, change=_changed_state
    ),
    "the engines differ": Algorithm("sums", local_gradients=lambda _, g, *__: [each / len(each) for each in g]),
    "in place": Algorithm(
        "in place", server_step=lambda _, w, c, s: ([a.add_(b) for a, b in zip(w, c, strict=True)], s)
    ),
    "at least 1": Algorithm("no upload", uploads=0),
    "engines is empty": Algorithm("no engine", engines=()),
    "change returns NaN or infinity from finite arguments": Algorithm("nan", change=_nan),
    "local_context returns a Tensor; expected a list of tensors": Algorithm(
        "no list", server_state=_one, local_context=lambda _, server, __: server["seen"][0]
    ),
    r"local_context returns a shape \[\]; expected \[3, ...\] for 3 users, or \[1, ...\]": Algorithm(
        "no users", server_state=_one, local_context=lambda _, server, __: server["seen"]
    ),
    "local_terms returns a factor tensor.*; expected a Python number": Algorithm(
        "factor", local_terms=lambda _, weights, __, ___: [(weights[0].new_ones(()), weights)]
    ),
    "local_terms returns shapes .*; expected .* one for each weight": Algorithm(
        "shapes", local_terms=lambda _, __, start, ___: [(1.0, start)]
    ),
    "local_terms gives TypeError: .*; expected pairs": Algorithm("raises", local_terms=lambda _: []),
    "change returns a list; expected .change of every weight, new server state": Algorithm(
        "no pair", change=lambda _, mean, __, ___: mean
    ),
    "collect returns a state 'other'; expected one of": Algorithm(
        "other state", collect=lambda _, upload: ({"other": upload.change}, {})
    ),
    "user_state returns a list; expected a dict of lists of tensors": Algorithm("list", user_state=lambda _, w: w),
    "the weights after aggregation of round 3 are not finite": Algorithm(
        "late", server_state=_one, change=lambda _, mean, __, server: _late(mean, server["seen"][0] + 1)
    ),
}


def _late(mean, seen):
    return [tensor / (seen < 3) for tensor in mean], {"seen": [seen]}


@pytest.mark.parametrize("fault", BROKEN)
def test_the_kit_finds_faults(fault):
    with pytest.raises(AssertionError, match=fault):
        check_algorithm(BROKEN[fault])


@pytest.mark.parametrize("check", ALGORITHM_CHECKS[2:])
def test_every_check_that_trains_says_what_is_wrong_with_the_terms(check):
    with pytest.raises(AssertionError, match="expected a list of pairs"):
        check(Algorithm("no pairs", local_terms=lambda _, weights, __, ___: weights))


def test_the_kit_accepts_states_of_any_shape():
    check_algorithm(Algorithm("counts", user_state=_one, collect=_own_rows))


@pytest.mark.parametrize("module", ["fedcast.training.algorithms.scaffold", "fedcast.training.models"])
def test_options_and_uploads_are_read_without_pytorch(module):
    code = f"import sys, {module}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
