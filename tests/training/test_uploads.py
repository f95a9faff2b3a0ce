"""Compressed uploads against themselves written out here, in NumPy and with plain gradients."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from fedcast.cost import model_bits, upload_bits
from fedcast.errors import FedcastError, ScenarioError
from fedcast.plan import make_plan
from fedcast.random import generator
from fedcast.registry import find, names
from fedcast.scenario import load_scenario
from fedcast.testing.uploads import CHECKS
from fedcast.training import (
    Clock,
    RemoteUsers,
    TrainingSettings,
    settings_from_dict,
    settings_text,
    settings_to_dict,
    train_remotely,
    training_settings,
)
from fedcast.training.engines import BlockResult
from fedcast.training.trainer import Trainer
from fedcast.training.uploads import QuantizedOptions, TopKOptions, UploadKind, keep_largest, quantize
from tests.training.conftest import federation, run, settings
from tests.training.test_algorithms import assert_same, gradient, start

SIZES = [12, 5, 8, 20, 3, 0]
COMPOSED = [
    ("quantized", {"algorithm": name}) for name in ("fedprox", "fedavgm", "fedadam", "fednova", "scaffold", "feddyn")
] + [("top_k", {"algorithm": name}) for name in ("fedprox", "fedavgm", "fedadam", "fednova")]


def quantized_by_hand(change, number, user, bits=8, bucket=512, seed=0):
    """Bucket by bucket; the draws alone are fedcast's."""
    levels, draws = 2 ** (bits - 1) - 1, generator(seed, "upload", round=number, user=user).random(len(change), "f4")
    decoded = np.zeros_like(change)
    for place in (slice(begin, begin + bucket) for begin in range(0, len(change), bucket)):
        scale = np.abs(change[place]).max()
        if scale > 0:
            steps = np.abs(change[place]) / scale * levels
            rounded = np.where(draws[place] < steps % 1, np.ceil(steps), np.floor(steps))
            decoded[place] = np.sign(change[place]) * rounded * scale / levels
    return decoded


def largest_by_hand(change, share):
    kept = sorted(range(len(change)), key=lambda place: -abs(change[place]))[: max(1, round(share * len(change)))]
    decoded = np.zeros_like(change)
    decoded[kept] = change[kept]
    return decoded


def flat(tensors):
    return np.concatenate([tensor.numpy().ravel() for tensor in tensors])


def split(vector, like):
    parts = np.split(vector, np.cumsum([tensor.numel() for tensor in like])[:-1])
    return [torch.from_numpy(part).reshape(tensor.shape) for part, tensor in zip(parts, like, strict=True)]


def local_change(world, user, server, epochs, correction=None):
    """Of gradient descent with full batches."""
    model, names_, _ = start()
    weights = server
    for _ in range(epochs):
        slopes = gradient(world, world.users.of(user), model, names_, weights)
        added = correction or [torch.zeros_like(weight) for weight in weights]
        weights = [w - 0.1 * (g + c) for w, g, c in zip(weights, slopes, added, strict=True)]
    return flat([w - w0 for w, w0 in zip(weights, server, strict=True)])


@pytest.mark.parametrize("engine", ["loop", "stacked"])
def test_quantized_fedavg_by_hand(engine):
    world = federation(sizes=SIZES)
    table = {"quantized": {"bits": 5, "bucket": 100}}
    outcome = run(world, batch_size=100, local_epochs=2, rounds=3, upload="quantized", engine=engine, seed=4, **table)
    server, shares = start()[2], world.users.sizes / world.users.sizes.sum()
    for number in (1, 2, 3):
        moved = sum(
            shares[user] * quantized_by_hand(local_change(world, user, server, 2), number, user, 5, 100, seed=4)
            for user in np.flatnonzero(shares).tolist()
        )
        server = [w + part for w, part in zip(server, split(moved, server), strict=True)]
    assert_same(outcome.weights, server)


@pytest.mark.parametrize("engine", ["loop", "stacked"])
@pytest.mark.parametrize("feedback", [True, False])
def test_top_k_with_error_feedback_by_hand(engine, feedback):
    """An absent user keeps what it left out until its next upload."""
    world, dropped = federation(sizes=SIZES), {(1, 0), (2, 1), (2, 3), (4, 2)}
    table = {"top_k": {"share": 0.05, "error_feedback": feedback}}
    changes = {"batch_size": 100, "local_epochs": 2, "rounds": 4, "upload": "top_k", "engine": engine}
    outcome = run(world, dropped=dropped, **changes, **table)
    server, weights = start()[2], world.users.sizes.astype(float)
    left = {int(user): 0.0 for user in np.flatnonzero(weights)}
    for number in (1, 2, 3, 4):
        present = [user for user in left if (number, user) not in dropped]
        mean = 0.0
        for user in present:
            change = local_change(world, user, server, 2) + left[user]
            sent = largest_by_hand(change, 0.05)
            left[user] = change - sent if feedback else 0.0
            mean = mean + weights[user] / weights[present].sum() * sent
        server = [w + part for w, part in zip(server, split(mean, server), strict=True)]
    assert_same(outcome.weights, server)


def test_control_variates_of_quantized_scaffold_follow_from_what_is_uploaded():
    """As FedCOMGATE does (Haddadpour et al. 2021): user and server know the same change."""
    world = federation(sizes=SIZES)
    outcome = run(world, batch_size=100, local_epochs=2, rounds=3, algorithm="scaffold", upload="quantized", seed=1)
    server, shares = start()[2], world.users.sizes / world.users.sizes.sum()
    common, own = 0.0 * flat(server), {int(user): 0.0 * flat(server) for user in np.flatnonzero(shares)}
    for number in (1, 2, 3):
        moved, grown = 0.0, 0.0
        for user, variate in own.items():
            correction = split(common - variate, server)
            sent = quantized_by_hand(local_change(world, user, server, 2, correction), number, user, seed=1)
            own[user] = variate - common - sent / (2 * 0.1)
            moved, grown = moved + shares[user] * sent, grown + shares[user] * (own[user] - variate)
        common = common + grown
        server = [w + part for w, part in zip(server, split(moved, server), strict=True)]
    assert_same(outcome.weights, server, atol=1e-11)


@pytest.mark.parametrize(("upload", "changes"), COMPOSED, ids=lambda value: str(value))
def test_engines_agree_and_a_resumed_run_has_the_same_bytes(upload, changes, tmp_path):
    more = {"participation": 0.6, "momentum": 0.3, "rounds": 4, "upload": upload, "quantized": {"bits": 4}, **changes}
    more["top_k"] = {"share": 0.1}
    loop, stacked = (run(engine=engine, **more) for engine in ("loop", "stacked"))
    for one, other in zip(loop.weights, stacked.weights, strict=True):
        assert torch.allclose(one, other, rtol=0, atol=1e-9)
    file = tmp_path / "checkpoint.pt"
    part = run(engine="stacked", checkpoint=file, should_stop=iter([False, True]).__next__, **more)
    resumed = run(engine="stacked", checkpoint=file, **more)
    assert part.stopped == "stopped after round 2"
    assert resumed.history == stacked.history
    assert all(torch.equal(a, b) for a, b in zip(resumed.weights, stacked.weights, strict=True))


@given(arrays.arrays(np.float64, st.integers(1, 40), elements=st.floats(-10, 10)), st.integers(2, 9), st.integers(1, 9))
def test_quantized_values_are_unbiased_and_a_step_away_at_most(values, bits, bucket):
    """The mean over an even grid of N draws differs by a step/N at most: each value is rounded up by its own chance."""
    options, grid = QuantizedOptions(bits, bucket), (np.arange(500) + 0.5) / 500
    changes = torch.from_numpy(np.tile(values, (500, 1)))
    draws = torch.from_numpy(np.tile(grid[:, None], (1, len(values))))
    found = quantize(options, changes, draws).numpy()
    begins = [place - place % bucket for place in range(len(values))]
    step = np.array([np.abs(values[begin : begin + bucket]).max() for begin in begins]) / (2 ** (bits - 1) - 1)
    assert (np.abs(found - values) <= step * (1 + 1e-9)).all()
    assert (np.abs(found.mean(0) - values) <= step / 500 * (1 + 1e-6) + 1e-12).all()


@given(
    arrays.arrays(np.float64, st.tuples(st.integers(1, 5), st.just(30)), elements=st.floats(-10, 10)),
    st.floats(0.01, 1),
)
def test_what_was_sent_and_what_is_left_are_all_changes(changes, share):
    """Error feedback loses nothing, and each upload is at least the share k/n of its square (Stich et al. 2018)."""
    options, left, sent = TopKOptions(share), torch.zeros(1, 30, dtype=torch.float64), 0.0
    for change in torch.from_numpy(changes):
        wanted = change[None] + left
        decoded = keep_largest(options, wanted, None)
        sent, left = sent + decoded, wanted - decoded
        kept = max(1, round(share * 30))
        assert int((decoded != 0).sum()) <= kept
        assert left.square().sum() <= (1 - kept / 30) * wanted.square().sum() + 1e-9
    assert torch.allclose(sent + left, torch.from_numpy(changes).sum(0), atol=1e-9)


def test_residuals_of_a_run_are_what_its_users_left_out():
    """The trainer's own state, over rounds in which users take turns."""
    given_ = settings(upload="top_k", top_k={"share": 0.02})
    trainer = Trainer(federation(), start()[0], training_settings(given_), 0, Clock(), set())
    _, state, _ = trainer.start(None)
    total, sent, rng = np.zeros((6, 2212)), np.zeros((6, 2212)), np.random.default_rng(0)
    for number, users in enumerate(([0, 1], [1, 3], [0, 5], [1]), 1):
        drawn = rng.normal(size=(len(users), 2212))
        parts = [split(row, state.weights) for row in drawn]
        change = [torch.stack(tensors) for tensors in zip(*parts, strict=True)]
        block = BlockResult(np.array(users), change, torch.zeros(len(users)), np.ones(len(users), dtype=np.int64))
        found = trainer._uploaded(block, number, state.residuals)
        total[users] += drawn
        sent[users] += np.stack([flat([tensor[row] for tensor in found.change]) for row in range(len(users))])
    np.testing.assert_allclose(sent + state.residuals[0].numpy(), total, atol=1e-12)
    assert not state.residuals[0][[2, 4]].any()
    assert state.residuals[0][[0, 1, 3, 5]].any(dim=1).all()


def test_compression_changes_training_and_full_uploads_do_not():
    plain, full = run(), run(upload="full")
    assert plain.history == full.history
    coarse = run(upload="quantized", quantized={"bits": 2})
    fine = run(upload="quantized", quantized={"bits": 16})
    gaps = [
        max(float((a - b).abs().max()) for a, b in zip(plain.weights, other.weights, strict=True))
        for other in (coarse, fine)
    ]
    assert gaps[0] > 1e-2 > 1e-4 > gaps[1] > 0
    everything = run(upload="top_k", top_k={"share": 1.0})
    assert_same(everything.weights, plain.weights)


def test_bits_are_those_of_an_encoding():
    """Packed as a device would: codes of 8 bits and a scale per bucket; values and the places of the kept ones."""
    weights, rng = 1_898, np.random.default_rng(0)
    codes, scales = rng.integers(-127, 128, weights).astype(np.int8), np.zeros(-(-weights // 512), np.float32)
    values, places = np.zeros(19, np.float32), np.unpackbits(np.arange(19, dtype=">u2").view(np.uint8)).reshape(19, 16)
    scenario = load_scenario(base="digits", overrides=["training.upload=quantized"])
    assert upload_bits(scenario) == 8 * len(codes.tobytes() + scales.tobytes())
    sparse = load_scenario(base="digits", overrides=["training.upload=top_k"])
    assert upload_bits(sparse) == 8 * len(values.tobytes()) + places[:, -11:].size  # 2¹¹ > 1,898
    # With many values a mask of a bit for each weight is shorter than their places.
    half = load_scenario(base="digits", overrides=["training.upload=top_k", "training.top_k.share=0.5"])
    assert upload_bits(half) == 949 * 32 + weights
    assert model_bits(scenario) == model_bits(sparse) == weights * 32
    twice = load_scenario(base="digits", overrides=["training.upload=quantized", "training.algorithm=scaffold"])
    assert upload_bits(twice) == 2 * upload_bits(scenario)


def test_a_plan_counts_fewer_bits_on_the_uplink_alone():
    fixed = {"clustering.rule": "none", "training.local_epochs": 1}
    plain, small = (
        make_plan(load_scenario(base="digits", overrides=fixed | {"training.upload": upload}))
        for upload in ("full", "quantized")
    )
    ratio = upload_bits(small.scenario) / model_bits(small.scenario)
    assert ratio == pytest.approx(0.2521, abs=1e-4)
    assert small.download_s == plain.download_s
    uploads = [plan.round_bytes - model_bits(plan.scenario) / 8 for plan in (plain, small)]  # one cell, one broadcast
    assert uploads[1] == pytest.approx(ratio * uploads[0])
    assert small.upload_s < plain.upload_s
    assert small.round_j < plain.round_j
    assert any("predicted for full uploads" in note for note in small.notes)
    assert not any("uploads" in note for note in plain.notes)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["training.upload=quantised"], "invalid value 'quantised'.*no such kind of upload.*did you mean quantized"),
        (["training.top_k.share=0"], "training.top_k.share.*> 0"),
        (["training.quantized.bits=1"], "training.quantized.bits.*>= 2"),
        (["training.quantized.step=1"], "training.quantized.step"),
    ],
)
def test_what_is_wrong_with_an_upload_is_said(overrides, message):
    with pytest.raises(ScenarioError, match=message):
        load_scenario(base="digits", overrides=overrides)


def test_uploads_that_do_not_fit_are_errors():
    message = "invalid value 'top_k' for training.upload: algorithm scaffold: it keeps states of users"
    scenario = load_scenario(base="digits", overrides=["training.upload=top_k", "training.algorithm=scaffold"])
    with pytest.raises(FedcastError, match=message):
        upload_bits(scenario)
    with pytest.raises(FedcastError, match=message):
        run(upload="top_k", algorithm="scaffold")
    small = load_scenario(base="digits", overrides=["training.upload=quantized", "training.bits_per_weight=8"])
    with pytest.raises(ScenarioError, match="an upload takes 15,216 bits, more than the 15,184 of all weights"):
        upload_bits(small)


def test_settings_keep_their_hash_and_survive_a_pack():
    assert "upload" not in settings_text(TrainingSettings())
    given_ = TrainingSettings(upload="top_k", upload_options=TopKOptions(0.3))
    assert settings_text(given_)["upload"] == "'top_k'"
    assert settings_from_dict(settings_to_dict(given_)) == given_
    older = {name: value for name, value in settings_to_dict(TrainingSettings()).items() if "upload" not in name}
    assert settings_from_dict(older) == TrainingSettings()


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("name", names("upload"))
def test_every_kind_of_upload_passes_the_kit(name, check):
    check(name)


@pytest.mark.parametrize(
    ("broken", "check"),
    [
        ({"bits": lambda *_: 1.5}, "declares_itself"),
        ({"compress": lambda _, x, __: x.float()}, "decodes_finite_changes"),
        ({"compress": lambda _, x, __: x - x.mean(0)}, "keeps_users_apart"),
        ({"compress": lambda _, x, __: 0.99 * x}, "loses_little"),
        ({"compress": lambda _, x, __: -x, "unbiased": False}, "loses_little"),
    ],
)
def test_the_kit_finds_what_is_wrong(broken, check):
    kind: UploadKind = replace(find("upload", "quantized").value, **broken)
    with pytest.raises(AssertionError):
        next(one for one in CHECKS if one.__name__ == check)(kind)


def test_devices_upload_all_weights():
    world = federation()
    users = RemoteUsers(world.users.sizes, world.own_sizes, world.distributions)
    given_ = TrainingSettings(upload="quantized", device="cpu")
    with pytest.raises(FedcastError, match="invalid value 'quantized' for training.upload: devices upload all"):
        train_remotely(lambda *_: {}, users, world.dataset, start()[0], given_)
