"""Training with deadlines, over-selection and asynchronous steps, against itself written out in plain PyTorch."""

import numpy as np
import pytest
import torch

from fedcast.errors import FedcastError
from fedcast.training import Clock, History, TrainingSettings, load_history, settings_text
from tests.training.conftest import federation, run
from tests.training.test_algorithms import assert_same, gradient, start
from tests.training.test_engines import assert_equal

SIZES = [12, 5, 8, 20, 3, 0]
TIMES = (1.0, 2.0**0.5, 10.0**0.5, 19.0**0.5, 5.0**0.5, 0.0)  # no two users ever arrive at the same time
JOULES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.0)
CLOCK = Clock(10.0, 5.0, 1.0, 1.5, 100.0, 60.0, TIMES, JOULES, upload_bytes=10.0, download_bytes=4.0)
# Without batches to draw, the same can be written in a few lines.
WHOLE = {"batch_size": 100, "local_epochs": 2}


def trained(**options):
    return run(federation(sizes=SIZES), clock=CLOCK, **(WHOLE | options))


def local_change(world, user, model, names, weights, steps=2, rate=0.1):
    """The change of two steps of gradient descent on all of a user's samples."""
    now = weights
    for _ in range(steps):
        slopes = gradient(world, world.users.of(user), model, names, now)
        now = [w - rate * g for w, g in zip(now, slopes, strict=True)]
    return [after - before for after, before in zip(now, weights, strict=True)]


def test_a_deadline_leaves_out_who_is_slower():
    """Users 2 and 3 take more than 3 s: their energy and uploads are spent, their updates are not in the mean."""
    outcome = trained(rounds=3, deadline_s=3.0)
    world = federation(sizes=SIZES)
    model, names, server = start()
    for _ in range(3):
        changes = {user: local_change(world, user, model, names, server) for user in (0, 1, 4)}
        total = sum(world.users.sizes[user] for user in changes)
        shares = {user: world.users.sizes[user] / total for user in changes}
        server = [w + sum(shares[user] * changes[user][i] for user in changes) for i, w in enumerate(server)]
    assert_same(outcome.weights, server)
    last = outcome.history.records[-1]
    assert (last.participants, last.missed, last.surplus, last.dropped_out) == (3, 2, 0, 0)
    assert last.seconds == pytest.approx(10.0 + 3 * 3.0)
    assert last.energy_j == pytest.approx(1.0 + 3 * 1.5)
    assert last.bytes_sent == pytest.approx(100.0 + 3 * 60.0)


def test_the_first_to_finish_count():
    """Of five users four are invited and the two fastest of them count."""
    outcome = trained(rounds=6, participation=0.4, over_selection=1.0)
    world = federation(sizes=SIZES)
    model, names, server = start()
    clock = energy = 0.0
    for number, record in enumerate(outcome.history.records[1:], start=1):
        # Who is invited is the draw of participation 0.8, which a run of another kind shows by its energy.
        same = trained(rounds=number, participation=0.8).history.records
        spent = round(same[-1].energy_j - same[-2].energy_j, 9)
        (left_out,) = [user for user in range(5) if round(1.5 - JOULES[user], 9) == spent]
        first = sorted((user for user in range(5) if user != left_out), key=lambda user: TIMES[user])[:2]
        changes = {user: local_change(world, user, model, names, server) for user in first}
        total = sum(world.users.sizes[user] for user in first)
        server = [
            w + sum(world.users.sizes[user] / total * changes[user][i] for user in first) for i, w in enumerate(server)
        ]
        clock, energy = clock + max(TIMES[user] for user in first), energy + spent
        assert (record.participants, record.surplus, record.missed) == (2, 2, 0)
        assert record.seconds == pytest.approx(10.0 + clock)
        assert record.energy_j == pytest.approx(1.0 + energy)
    assert_same(outcome.weights, server)


def test_a_round_that_nobody_finishes_in_time_passes():
    away = {(2, 0), (2, 1), (2, 4)}
    outcome = trained(rounds=3, deadline_s=3.0, dropped=away)
    _, first, second, third = outcome.history.records
    assert (second.participants, second.missed, second.dropped_out, second.train_loss) == (0, 2, 3, None)
    assert second.test_loss == first.test_loss != third.test_loss
    assert second.seconds - first.seconds == pytest.approx(3.0)
    assert second.energy_j - first.energy_j == pytest.approx(0.7)


def fedbuff(steps, size, exponent, shares=None):
    """FedBuff with everybody training all the time: user k arrives at t_k, 2 t_k, … and starts again at once."""
    world = federation(sizes=SIZES)
    model, names, server = start()
    next_at, began_with = {user: TIMES[user] for user in range(5)}, dict.fromkeys(range(5), (0, server))
    version, buffer, clock, energy, records = 0, [], 0.0, 0.0, []
    while version < steps:
        user = min(next_at, key=lambda user: next_at[user])
        clock, energy = next_at[user], energy + JOULES[user]
        old, weights = began_with[user]
        change = local_change(world, user, model, names, weights)
        weight = 1.0 if shares is None else shares[user]
        buffer.append((version - old, weight, change))
        if len(buffer) == size:
            total = sum(weight for _, weight, _ in buffer)
            server = [
                w + sum(weight * (1 + late) ** -exponent * moved[i] for late, weight, moved in buffer) / total
                for i, w in enumerate(server)
            ]
            version += 1
            records.append((clock, energy, np.mean([late for late, _, _ in buffer]), max(b[0] for b in buffer)))
            buffer = []
        next_at[user], began_with[user] = clock + TIMES[user], (version, server)
    return server, records


@pytest.mark.parametrize("engine", ["loop", "stacked"])
@pytest.mark.parametrize(
    ("options", "shares"),
    [({"aggregation": "uniform"}, None), ({"staleness_exponent": 1.0}, np.array([12, 5, 8, 25, 3]))],
)
def test_fedbuff_written_out(engine, options, shares):
    outcome = trained(rounds=12, buffer_size=3, engine=engine, **options)
    world = federation(sizes=SIZES)
    assert shares is None or world.users.sizes[:5].tolist() == shares.tolist()
    server, records = fedbuff(12, 3, options.get("staleness_exponent", 0.5), shares)
    assert_same(outcome.weights, server, atol=1e-11)
    for record, (clock, energy, mean, most) in zip(outcome.history.records[1:], records, strict=True):
        assert record.seconds == pytest.approx(10.0 + clock)
        assert record.energy_j == pytest.approx(1.0 + energy)
        assert record.bytes_sent == pytest.approx(100.0 + 14.0 * 3 * record.round)
        assert (record.staleness, record.max_staleness) == (pytest.approx(mean), most)
        assert (record.participants, record.drift) == (3, None)
    assert max(most for *_, most in records) > 1


ASYNCHRONOUS = {
    "few at once": {"buffer_size": 2, "concurrency": 3},
    "batches": {"buffer_size": 4, "batch_size": 4, "learning_rate_decay": 0.9, "momentum": 0.5},
    "large buffer": {"buffer_size": 11, "batch_size": 4, "dropout_probability": 0.3},
    "fedprox": {"buffer_size": 2, "algorithm": "fedprox", "batch_size": 4},
    "fedadam": {"buffer_size": 2, "algorithm": "fedadam"},
    "server momentum": {"buffer_size": 2, "server_optimizer": "momentum", "server_learning_rate": 0.5},
    "quantized": {"buffer_size": 3, "upload": "quantized"},
    "top_k": {"buffer_size": 7, "upload": "top_k", "top_k": {"share": 0.2}},
    "late": {"deadline_s": 3.0, "batch_size": 4},
    "first": {"participation": 0.6, "over_selection": 0.5, "deadline_s": 3.2, "algorithm": "scaffold"},
}


@pytest.mark.parametrize("name", ASYNCHRONOUS)
def test_both_engines_agree(name):
    assert_equal(*(trained(rounds=5, engine=engine, **ASYNCHRONOUS[name]) for engine in ("loop", "stacked")))


@pytest.mark.parametrize("name", ASYNCHRONOUS)
def test_resume_gives_the_same_bytes(name, tmp_path):
    path, options = tmp_path / "c.pt", ASYNCHRONOUS[name]
    whole = trained(rounds=7, **options)
    trained(rounds=7, checkpoint=path, should_stop=iter([False, False, True]).__next__, **options)
    resumed = trained(rounds=7, checkpoint=path, **options)
    assert all(torch.equal(a, b) for a, b in zip(whole.weights, resumed.weights, strict=True))
    assert whole.history.to_json() == resumed.history.to_json()
    further = trained(rounds=9, checkpoint=path, **options)
    assert further.history.records[:8] == whole.history.records


def test_users_of_equal_speed_in_one_buffer_are_fedavg():
    """Everybody arrives at the same time with the newest weights: a step is a round, batch by batch."""
    equal = Clock(0.0, 2.0, user_s=(2.0,) * 6, user_j=(0.1,) * 6)
    options = {"rounds": 4, "clock": equal, "batch_size": 4, "aggregation": "uniform"}
    world = federation(sizes=SIZES)
    rounds, steps = run(world, **options), run(world, buffer_size=5, **options)
    assert_same(steps.weights, rounds.weights)
    assert steps.history.column("accuracy") == rounds.history.column("accuracy")
    assert steps.history.column("seconds") == rounds.history.column("seconds")


def test_a_history_tells_what_happened_and_can_be_read_again(tmp_path):
    for options in ({"deadline_s": 3.0}, {"buffer_size": 2}):
        history = trained(rounds=2, **options).history
        assert load_history(history.save(tmp_path / "h.json")) == history
    assert "staleness" in history.columns()
    assert "missed" not in history.columns()


def test_a_history_without_these_options_is_as_before():
    history = trained(rounds=2).history
    assert "missed" not in history.to_json()
    assert not {"missed", "surplus", "dropped_out", "staleness"} & history.columns().keys()
    assert History(history.records).records[-1].missed == 0


def test_hashes_are_as_before_they_existed():
    """Keys of checkpoints and runs have no new part while the new settings are the defaults."""
    assert not {"deadline_s", "over_selection", "buffer_size"} & settings_text(TrainingSettings()).keys()
    assert settings_text(TrainingSettings(deadline_s=2.5))["deadline_s"] == "2.5"
    assert "download_bytes" not in repr(CLOCK)


@pytest.mark.parametrize("algorithm", ["scaffold", "feddyn", "fednova"])
def test_algorithms_of_rounds_are_refused(algorithm):
    with pytest.raises(FedcastError, match=f"training.algorithm = {algorithm}: it reads the updates or states of one"):
        TrainingSettings(algorithm=algorithm, buffer_size=3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"deadline_s": 0.5}, "invalid value 0.5 for training.deadline_s: every user takes longer, the fastest 1 s"),
        ({"over_selection": 0.5}, "for training.over_selection: 8 users would be invited, and 5 hold samples"),
        ({"buffer_size": 2, "concurrency": 6}, "invalid value 6 for training.concurrency: 5 users hold samples"),
        ({"deadline_s": 2.0, "clock": Clock(round_s=1.0)}, "need the time of each user; give a clock with user_s"),
    ],
)
def test_errors_before_training(options, message):
    with pytest.raises(FedcastError, match=message):
        run(federation(sizes=SIZES), **({"clock": CLOCK} | options))
