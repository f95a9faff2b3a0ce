import json
import multiprocessing
import signal
import time
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from fedcast.errors import FedcastError
from fedcast.participation import Participation, participants
from fedcast.training import Clock, History, Record, build_model, load_history, mean_and_worst, train
from fedcast.training.device_data import own_accuracies
from tests.training.conftest import federation, run, settings


def test_a_round_of_some_users_costs_what_they_cost():
    """By hand: the slowest of those present, the sum of their energy, and no upload of those absent."""
    world = federation(sizes=[12, 5, 8, 20, 3, 0])
    seconds, joules = (1.0, 2.0, 3.0, 4.0, 5.0, 0.0), (0.1, 0.2, 0.3, 0.4, 0.5, 0.0)
    clock = Clock(10.0, 5.0, 1.0, 1.5, 100.0, 60.0, seconds, joules, upload_bytes=10.0)
    outcome = run(world, rounds=3, clock=clock, dropped={(2, 4), (2, 2), *((3, user) for user in range(5))})
    start, first, second, third = outcome.history.records
    assert (start.seconds, start.energy_j, start.bytes_sent) == (10.0, 1.0, 100.0)
    assert (first.seconds, first.energy_j, first.bytes_sent) == (15.0, 2.5, 160.0)
    # Users 0, 1 and 3 are there: user 3 takes 4 s, together 0.7 J, two uploads of 10 bytes are missing.
    assert (second.seconds, second.energy_j, second.bytes_sent) == (19.0, pytest.approx(3.2), 200.0)
    # Nobody answers: only the broadcast is sent.
    assert (third.seconds, third.energy_j, third.bytes_sent) == (19.0, pytest.approx(3.2), 210.0)


def test_a_model_with_an_lstm_of_pytorch_trains_by_the_loop():
    """`nn.LSTM` returns a tuple, and many users' cannot be stepped at once."""

    class Rows(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = torch.nn.LSTM(8, 5, batch_first=True)
            self.out = torch.nn.Linear(5, 4)

        def forward(self, images):
            return self.out(self.lstm(images.flatten(1, 2))[0][:, -1])

    outcome = train(federation(), Rows(), settings(rounds=2))
    assert outcome.engine == "LoopEngine"
    with pytest.raises(
        FedcastError,
        match="'stacked' for training.engine: users of this model cannot be stepped at once: nn.LSTM takes",
    ):
        train(federation(), Rows(), settings(rounds=2, engine="stacked"))


def test_history_and_simulated_clock():
    clock = Clock(sharing_s=5.0, round_s=2.0, sharing_j=1.0, round_j=0.5, sharing_bytes=100, round_bytes=10)
    seen = []
    outcome = run(clock=clock, progress=seen.append, rounds=4)
    history = outcome.history
    assert history.column("round") == [0, 1, 2, 3, 4]
    assert history.column("seconds") == [5, 7, 9, 11, 13]
    assert history.column("energy_j") == [1, 1.5, 2, 2.5, 3]
    assert history.column("bytes_sent") == [100, 110, 120, 130, 140]
    assert seen == history.records[1:]
    assert history.records[0].train_loss is None
    assert history.column("participants") == [0, 5, 5, 5, 5]
    assert history.records[-1].test_loss < history.records[0].test_loss


def test_scores_against_a_plain_evaluation():
    world = federation()
    outcome = run(world, rounds=5)
    last = outcome.history.records[-1]
    model = build_model("mlp", (1, 8, 8), 4).double()
    with torch.no_grad():
        for weight, trained in zip(model.parameters(), outcome.weights, strict=True):
            weight.copy_(trained)
    logits = model(torch.from_numpy(world.dataset.test_inputs.astype(np.float64))).detach()
    labels = world.dataset.test_labels
    right = logits.argmax(1).numpy() == labels
    assert last.accuracy == right.mean()
    assert last.test_loss == pytest.approx(F.cross_entropy(logits, torch.from_numpy(labels)).item())
    by_class = np.array([right[labels == label].mean() for label in range(4)])
    assert last.class_accuracy == pytest.approx(by_class)
    own = np.sort([by_class @ mix for mix, size in zip(world.distributions, world.own_sizes, strict=True) if size])
    assert last.user_accuracy == pytest.approx(own.mean())
    assert last.worst_accuracy == pytest.approx(own[0])


def test_the_worst_tenth_of_twenty_users_are_two():
    mixes = np.eye(20)
    mean, worst = mean_and_worst(own_accuracies(np.arange(20) / 20, mixes))
    assert (mean, worst) == (pytest.approx(0.475), pytest.approx(0.025))


def test_a_noisy_test_set_is_scored_beside_the_clean_one():
    world = federation()
    shuffled = np.random.default_rng(0).permutation(world.dataset.test_inputs).astype(np.float32)
    noisy = replace(world, dataset=replace(world.dataset, noisy_test_inputs=shuffled))
    in_its_place = replace(world, dataset=replace(world.dataset, test_inputs=shuffled))
    both, clean, only = (run(some, rounds=2).history for some in (noisy, world, in_its_place))
    assert both.column("accuracy") == clean.column("accuracy")
    assert both.column("noisy_accuracy") == only.column("accuracy") != clean.column("accuracy")
    assert both.columns()["noisy_accuracy"] == both.column("noisy_accuracy")
    assert "noisy_accuracy" not in clean.columns()


def test_drift_against_its_definition():
    world = federation()
    before = run(world, rounds=1)
    after = run(world, rounds=2)
    # Local models of round 2, one by one: a world in which only that user trains.
    locals_, sizes = [], world.users.sizes
    for user in np.flatnonzero(sizes):
        everyone_else = {(2, int(other)) for other in np.flatnonzero(sizes) if other != user}
        locals_.append(run(world, rounds=2, dropped=everyone_else).weights)
    share = sizes[sizes > 0] / sizes.sum()
    mean = [sum(p * model[i] for p, model in zip(share, locals_, strict=True)) for i in range(4)]
    square = sum(
        p * sum(((w - m) ** 2).sum() for w, m in zip(model, mean, strict=True))
        for p, model in zip(share, locals_, strict=True)
    )
    assert after.history.records[-1].drift == pytest.approx(float(square) ** 0.5, rel=1e-6)
    assert before.history.records[-1].drift != after.history.records[-1].drift


def test_same_seed_same_bytes():
    first, second, other = run(seed=5), run(seed=5), run(seed=6)
    assert all(torch.equal(a, b) for a, b in zip(first.weights, second.weights, strict=True))
    assert first.history == second.history
    assert first.history != other.history


def test_participants_are_sampled_and_drop_out():
    able, all_of_them = np.arange(100), Participation()

    def present(settings, number=1, users=able):
        return participants(users, settings, set(), seed=0, round_number=number)[0]

    some = present(Participation(participation=0.1))
    assert len(some) == 10
    assert present(all_of_them).tolist() == able.tolist()
    assert some.tolist() != present(Participation(participation=0.1), 2).tolist()
    counts = [len(present(Participation(dropout_probability=0.3), number)) for number in range(200)]
    assert np.mean(counts) == pytest.approx(70, abs=1.5)
    assert len(present(Participation(participation=0.01), users=able[:10])) == 1


def test_a_round_without_anybody_changes_nothing():
    everyone = {(2, user) for user in range(6)}
    outcome = run(rounds=3, dropped=everyone)
    second = outcome.history.records[2]
    assert (second.participants, second.train_loss, second.drift) == (0, None, None)
    assert second.test_loss == outcome.history.records[1].test_loss
    assert outcome.history.records[3].test_loss != second.test_loss


@pytest.mark.parametrize("engine", ["loop", "stacked"])
def test_divergence_names_round_and_user(engine):
    with pytest.raises(FedcastError, match=r"diverged in round \d+ at user \d.*lower training.learning_rate"):
        run(engine=engine, learning_rate=1e15, weight_decay=1e15, rounds=30)


def test_resume_gives_the_same_bytes(tmp_path):
    for extra in (
        {}, {"algorithm": "scaffold"}, {"algorithm": "feddyn", "participation": 0.5}, {"server_optimizer": "adam"},
        {"algorithm": "fedprox", "server_optimizer": "yogi"}, {"momentum": 0.9, "participation": 0.5},
    ):  # fmt: skip
        path = tmp_path / "c.pt"
        path.unlink(missing_ok=True)
        whole = run(rounds=6, **extra)
        part = run(rounds=6, checkpoint=path, should_stop=iter([False, False, True]).__next__, **extra)
        assert part.stopped == "stopped after round 3"
        resumed = run(rounds=6, checkpoint=path, **extra)
        assert all(torch.equal(a, b) for a, b in zip(whole.weights, resumed.weights, strict=True))
        assert whole.history.to_json() == resumed.history.to_json()
        further = run(rounds=8, checkpoint=path, **extra)
        assert len(further.history) == 9


def test_steps_shrink_from_the_second_round_on():
    world = federation()
    shrinking = run(world, rounds=3, learning_rate=0.2, learning_rate_decay=0.5).weights
    # One round at each step size by hand; batches of a round depend on its number, so users drop out of the others.
    model, everyone = build_model("mlp", (1, 8, 8), 4, seed=1), range(len(world.own_sizes))
    for number, rate in ((1, 0.2), (2, 0.1), (3, 0.05)):
        others = {(other, user) for other in (1, 2, 3) if other != number for user in everyone}
        model = train(world, model, settings(rounds=3, learning_rate=rate), dropped=others).model
    for ours, theirs in zip(shrinking, model.parameters(), strict=True):
        assert torch.allclose(ours, theirs, atol=1e-12)


def test_a_checkpoint_may_be_named_by_a_string(tmp_path):
    run(rounds=1, checkpoint=str(tmp_path / "c.pt"))
    assert (tmp_path / "c.pt").exists()


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    path = tmp_path / "c.pt"
    run(checkpoint=path)
    world = federation()
    darker = replace(world, dataset=replace(world.dataset, inputs=world.dataset.inputs / 2))
    tested = replace(world, dataset=replace(world.dataset, test_labels=world.dataset.test_labels[::-1].copy()))
    for other in (
        {"learning_rate": 0.2}, {"seed": 9}, {"world": federation(seed=1)}, {"world": darker}, {"world": tested},
        {"world": replace(world, own_sizes=world.own_sizes + 1)}, {"clock": Clock(round_s=3.0)}, {"dropped": {(2, 1)}},
    ):  # fmt: skip
        with pytest.raises(FedcastError, match="belongs to a run with other data, settings or weights"):
            run(checkpoint=path, **other)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(FedcastError, match="not a readable checkpoint"):
        run(checkpoint=path)


def test_a_checkpoint_that_was_altered_is_refused(tmp_path):
    path = tmp_path / "c.pt"
    run(rounds=1, checkpoint=path)
    content = torch.load(path, weights_only=True)
    changed = [weight.clone() for weight in content["weights"]]
    changed[0].view(-1)[0] += 1e-6
    record = content["records"][-1] | {"accuracy": 1.0}
    for part in ({"weights": changed}, {"completed": 0}, {"records": [*content["records"][:-1], record]}, {"more": 1}):
        torch.save(content | part, path)
        with pytest.raises(FedcastError, match=r"c.pt: a checkpoint that was altered or damaged .*; delete it"):
            run(rounds=1, checkpoint=path)
    torch.save(content, path)
    run(rounds=1, checkpoint=path)


@pytest.mark.parametrize("content", [[1, 2], torch.zeros(3), {}, {"version": 2}])
def test_a_file_that_is_no_checkpoint_is_refused(tmp_path, content):
    torch.save(content, tmp_path / "c.pt")
    with pytest.raises(FedcastError, match=r"c.pt: (not a checkpoint of fedcast: it holds a|a checkpoint of version)"):
        run(checkpoint=tmp_path / "c.pt")


def train_with_checkpoints(folder):
    torch.set_num_threads(1)
    outcome = train(
        federation(),
        build_model("mlp", (1, 8, 8), 4, seed=1),
        settings(rounds=100, checkpoint_every=1, algorithm="scaffold", momentum=0.5),
        seed=2,
        checkpoint=folder / "c.pt",
    )
    outcome.history.save(folder / "history.json")
    torch.save(outcome.weights, folder / "weights.pt")


def test_kill_9_and_resume(tmp_path):
    """A process, killed at some moment after its first checkpoint, gives the bytes of an undisturbed one."""
    # Children of one fresh process that has imported PyTorch, which takes longer than their work.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])

    def start(folder):
        folder.mkdir(exist_ok=True)
        process = context.Process(target=train_with_checkpoints, args=(folder,))
        process.start()
        return process

    def finish(folder):
        process = start(folder)
        process.join(120)
        return process.exitcode

    calm, killed = tmp_path / "calm", tmp_path / "killed"
    assert finish(calm) == 0
    kills = 0
    for _ in range(3):
        before = (killed / "c.pt").stat().st_mtime_ns if (killed / "c.pt").exists() else 0
        process = start(killed)
        deadline = time.time() + 60
        while process.is_alive() and time.time() < deadline:
            if (killed / "c.pt").exists() and (killed / "c.pt").stat().st_mtime_ns > before:
                break
            time.sleep(0.002)
        time.sleep(0.05)
        process.kill()
        process.join(60)
        kills += process.exitcode == -signal.SIGKILL
    assert kills >= 1
    assert finish(killed) == 0
    assert (calm / "history.json").read_bytes() == (killed / "history.json").read_bytes()
    ours, theirs = torch.load(calm / "weights.pt"), torch.load(killed / "weights.pt")
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


def test_history_files(tmp_path):
    outcome = run()
    saved = outcome.history.save(tmp_path / "h.json")
    assert load_history(saved) == outcome.history
    lines = outcome.history.save(tmp_path / "h.csv").read_text().splitlines()
    assert lines[0].startswith("round,train_loss,test_loss,accuracy")
    assert lines[0].endswith("accuracy_of_class_3")
    assert len(lines) == 5
    pyarrow = pytest.importorskip("pyarrow.parquet")
    table = pyarrow.read_table(outcome.history.save(tmp_path / "h.parquet"))
    assert table["accuracy"].to_pylist() == outcome.history.column("accuracy")
    with pytest.raises(FedcastError, match="unknown kind of file '.txt'"):
        outcome.history.save(tmp_path / "h.txt")
    (tmp_path / "bad.json").write_text("[]")
    with pytest.raises(FedcastError, match="not a history"):
        load_history(tmp_path / "bad.json")
    content = json.loads(saved.read_text())
    content["version"] = 99
    saved.write_text(json.dumps(content))
    with pytest.raises(FedcastError, match="version 99"):
        load_history(saved)


def history_of(*accuracies):
    return History(
        [
            Record(number, 1.0, 1.0, value, value, value, 0.0, 1, 0.0, 0.0, 0.0)
            for number, value in enumerate(accuracies)
        ]
    )


def test_rounds_to_a_target():
    history = history_of(0.1, 0.5, 0.92, 0.7, 0.91, 0.92, 0.93)
    assert history.rounds_to(0.9) == 2
    assert history.rounds_to(0.99) is None


def test_cuda_without_a_gpu_is_refused():
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(FedcastError, match="PyTorch sees no GPU"):
        run(device="cuda")


def test_auto_engine_stacks_small_models_and_loops_over_large_ones():
    assert run(engine="auto").engine == "StackedEngine"
    large = train(
        federation((3, 32, 32), sizes=[2, 2]), build_model("vgg16", (3, 32, 32), 4), settings(engine="auto", rounds=1)
    )
    assert large.engine == "LoopEngine"
