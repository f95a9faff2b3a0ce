"""Run folders: what decides their names, what they hold, and that nothing half-done or mixed ever counts."""

import csv
import errno
import hashlib
import json
import multiprocessing
import os
import shutil
import sys
from dataclasses import replace

import numpy as np
import pytest

import fedcast
from fedcast import Scenario, load_scenario, make_world, with_overrides
from fedcast.errors import FedcastError
from fedcast.runs import store as store_module
from fedcast.runs.facts import facts_of
from fedcast.runs.prepare import prepare_run, train_scenario
from fedcast.runs.store import reset_run, run_folder, run_key, run_scenario
from fedcast.runs.stored_run import is_done, load_run, load_runs
from fedcast.training import Algorithm, build_model


@pytest.fixture(scope="module")
def finished(small, tmp_path_factory):
    """A finished run with sharing; tests copy it before they change it."""
    return run_scenario(with_overrides(small, {"clustering.rule": "daca"}), tmp_path_factory.mktemp("store"))


@pytest.fixture
def copied(finished, tmp_path):
    return shutil.copytree(finished, tmp_path / finished.name)


def test_every_parameter_decides_the_key_but_how_often_checkpoints_are_written(small):
    others = {
        "seed": 1,
        "clustering.rule": "blend",
        "training.rounds": 5,
        "devices.power_w": 0.02,
        "data.label_skew.single_class_share": 0.3,
    }
    keys = {run_key(with_overrides(small, {name: value})) for name, value in others.items()} | {run_key(small)}
    assert len(keys) == len(others) + 1
    assert run_key(with_overrides(small, {"training.checkpoint_every": 7})) == run_key(small)


def named_files():
    """Every parameter that names a file: by its name, or because a known one does."""
    for section, field in Scenario.model_fields.items():
        for key in getattr(field.annotation, "model_fields", ()):
            if key == "file" or key.endswith("_file") or (section, key) == ("rounds", "fit"):
                yield f"{section}.{key}"


@pytest.mark.parametrize("name", list(named_files()))
def test_the_content_of_named_files_decides_the_key(small, tmp_path, name):
    path = tmp_path / "some.csv"
    path.write_text("round,user\n1,0\n")
    scenario = with_overrides(small, {name: str(path)})
    before = run_key(scenario)
    path.write_text("round,user\n1,1\n")
    assert run_key(scenario) != before


def test_a_failure_is_in_the_log_of_its_run(small, tmp_path):
    bad = with_overrides(small, {"training.learning_rate": 1e15})
    with pytest.raises(FedcastError, match="training diverged"):
        run_scenario(bad, tmp_path)
    assert "failed: training diverged in round 1" in (run_folder(tmp_path, bad) / "log.txt").read_text()


def test_a_run_that_ends_with_nan_is_not_stored(small, tmp_path, registered):
    def change(_, mean, __, server):
        return [tensor * float("nan") for tensor in mean], server

    registered("algorithm", "nan", Algorithm("nan", change=change))
    bad = with_overrides(small, {"training.algorithm": "nan", "training.rounds": 1})
    with pytest.raises(FedcastError, match="algorithm nan: the weights after aggregation of round 1 are not finite"):
        run_scenario(bad, tmp_path)
    assert not {"history.json", "done.json"} & {path.name for path in run_folder(tmp_path, bad).iterdir()}


def test_a_history_holds_no_nan(copied, monkeypatch):
    history = load_run(copied).history
    history.records[-1] = replace(history.records[-1], test_loss=float("nan"))
    with pytest.raises(FedcastError, match="it holds NaN or infinity"):
        history.save(copied / "history.json")
    path = copied / "history.json"
    path.write_text(path.read_text().replace('"drift": null', '"drift": NaN', 1))
    monkeypatch.setattr("fedcast.runs.stored_run._check_unchanged", lambda _: None)  # as stored by an older version
    with pytest.raises(FedcastError, match=f"{copied.name}/history.json: holds NaN: .*delete its folder and repeat"):
        load_runs(copied)


def test_a_run_folder_holds_all_that_is_needed(finished):
    names = {path.name for path in finished.iterdir()}
    assert names >= {
        "scenario.toml", "versions.json", "plan.json", "facts.json", "tables.json", "ledger.csv", "history.json",
        "history.csv", "checkpoint.pt", "log.txt", "done.json",
    }  # fmt: skip


def test_a_stored_run_equals_the_one_in_memory(small, finished):
    run = load_run(finished)
    memory = train_scenario(with_overrides(small, {"clustering.rule": "daca"}))
    assert run.scenario == with_overrides(small, {"clustering.rule": "daca"})
    assert run.history.records == memory.history.records
    assert run.facts.received_samples == len(memory.ledger)
    assert run.plan is not None
    np.testing.assert_array_equal(run.plan.head_of, memory.clustering.head_of)


def test_facts_against_the_ledger_and_plain_counting(small, finished):
    """Counted again from ledger.csv and the labels, with nothing of fedcast's own arithmetic."""
    run = load_run(finished)
    world = make_world(with_overrides(small, {"clustering.rule": "daca"}))
    labels, own = world.population.dataset.labels, world.population.assignment
    held = [list(own.of(user)) for user in range(20)]
    with (finished / "ledger.csv").open() as stream:
        rows = [{key: int(value) for key, value in row.items()} for row in csv.DictReader(stream)]
    assert rows
    for row in rows:
        assert row["sample"] in held[row["sender"]]
        held[row["receiver"]].append(row["sample"])
    for user in range(20):
        counts = [sum(labels[sample] == label for sample in held[user]) for label in range(10)]
        assert counts == [run.tables["classes"][f"after_{label}"][user] for label in range(10)]
    assert run.facts.received_samples == len(rows)
    assert run.facts.distinct_samples == len({row["sample"] for row in rows})
    assert run.facts.heads == len({row["sender"] for row in rows})
    whole = np.bincount(labels[np.concatenate([own.of(user) for user in range(20)])], minlength=10)
    distances = [np.abs(np.bincount(labels[h], minlength=10) / len(h) - whole / whole.sum()).sum() for h in held]
    sizes = np.array([len(samples) for samples in held])
    # The plan counts on a head's mix; which samples are drawn from it moves the truth a little.
    assert run.facts.emd_after_b == pytest.approx(float(sizes @ distances / sizes.sum()), rel=5e-3)
    assert run.facts.emd_after_b < 0.99 * run.facts.emd_before


def test_the_clock_of_a_run_is_that_of_its_plan(finished):
    run = load_run(finished)
    last, plan = run.history.records[-1], run.plan
    per_round = (plan.delay.total_s - plan.delay.sharing_s) / plan.rounds
    assert last.seconds == pytest.approx(plan.delay.sharing_s + 4 * per_round, rel=1e-9)
    assert run.facts.round_s == pytest.approx(per_round, rel=1e-9)


def test_volumes_of_the_plan_are_what_is_shared():
    """JFVO's volumes, which differ from head to head, reach the members."""
    few = ["clustering.rule=blend", "data.num_users=40", "allocation.jfvo.steps=3"]
    prepared = prepare_run(load_scenario(base="digits", overrides=few))
    heads = prepared.plan.heads
    ledger = prepared.shared.ledger
    assert len(set(prepared.plan.shared[heads])) > 1
    for head in heads:
        members = np.flatnonzero(prepared.plan.head_of == head)
        for member in members:
            assert ((ledger.senders == head) & (ledger.receivers == member)).sum() == prepared.plan.shared[head]
    assert len(ledger) == sum(prepared.plan.shared[prepared.plan.head_of[prepared.plan.head_of >= 0]])


def test_users_left_out_by_the_plan_do_not_train(small):
    scenario = with_overrides(
        small, {"allocation.infeasible_users": "exclude", "devices.energy_budget_j": 0.003, "clustering.rule": "daca"}
    )
    prepared = prepare_run(scenario)
    left_out = ~prepared.plan.trained
    assert 0 < left_out.sum() < 20
    assert prepared.shared.assignment.sizes[left_out].sum() == 0
    assert (prepared.shared.assignment.sizes[~left_out] > 0).all()
    assert np.isfinite(prepared.clock.round_s)
    facts, plan = facts_of(prepared), prepared.plan
    assert (facts.emd_before, facts.emd_after, facts.shift) == (plan.emd_before, plan.emd_after, plan.shift)
    # A user uploads 32 bits for each weight, however many others do not train.
    assert prepared.clock.upload_bytes == pytest.approx(
        4 * sum(w.numel() for w in build_model("mlp", (1, 8, 8), 10).parameters())
    )


def test_what_the_server_sends_is_counted(small):
    prepared = prepare_run(with_overrides(small, {"clustering.rule": "central"}))
    facts, volume = facts_of(prepared), int(prepared.clustering.broadcast.volume)
    assert volume > 0
    assert (facts.sent_samples, facts.received_samples, facts.distinct_samples) == (volume, 20 * volume, volume)


def test_a_folder_of_an_older_version_without_a_plan_is_read(copied):
    (copied / "plan.json").unlink()
    done = json.loads((copied / "done.json").read_text())
    del done["files"]["plan.json"]
    (copied / "done.json").write_text(json.dumps(done))
    assert load_run(copied).plan is None


def test_a_fixed_ratio_trains_where_the_fit_does_not_reach(small):
    far = {"rounds.fit": "paper-0.95", "rounds.target_accuracy": 0.95, "data.label_skew.single_class_share": 1.0}
    prepared = prepare_run(with_overrides(small, {**far, "clustering.rule": "daca"}))
    assert prepared.plan.rounds is None
    assert "rounds.fit 'paper-0.95': the average EMD is" in prepared.plan.not_predicted
    assert len(prepared.shared.ledger) > 0
    with pytest.raises(FedcastError, match="rounds.fit"):
        prepare_run(with_overrides(small, {**far, "clustering.rule": "daca", "allocation.method": "jfvo"}))


def test_a_finished_run_is_not_touched_again(small, copied):
    before = {path.name: path.stat().st_mtime_ns for path in copied.iterdir() if path.name != ".lock"}
    assert run_scenario(with_overrides(small, {"clustering.rule": "daca"}), copied.parent) == copied
    assert {path.name: path.stat().st_mtime_ns for path in copied.iterdir() if path.name != ".lock"} == before


def test_stopped_and_gone_on_with_gives_the_same_bytes(small, finished, tmp_path):
    scenario = with_overrides(small, {"clustering.rule": "daca"})
    assert run_scenario(scenario, tmp_path, should_stop=lambda: True) is None
    folder = run_folder(tmp_path, scenario)
    assert not is_done(folder)
    with pytest.raises(FedcastError, match="no finished run in this folder; repeat the command that started it"):
        load_run(folder)
    assert run_scenario(scenario, tmp_path) == folder
    assert (folder / "history.json").read_bytes() == (finished / "history.json").read_bytes()


def test_a_run_with_a_table_from_the_working_folder_goes_on(small, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gone.csv").write_text("round,user\n1,0\n")
    scenario = with_overrides(small, {"training.dropout_file": "./gone.csv"})
    assert run_scenario(scenario, tmp_path / "runs", should_stop=lambda: True) is None
    assert load_run(run_scenario(scenario, tmp_path / "runs")).scenario == scenario


def test_a_scenario_changed_under_its_folder_is_refused(small, copied):
    (copied / "done.json").unlink()
    path = copied / "scenario.toml"
    path.write_text(path.read_text().replace("learning_rate = 0.4 ", "learning_rate = 0.2 "))
    with pytest.raises(FedcastError, match="scenario.toml: was changed after the run started"):
        run_scenario(with_overrides(small, {"clustering.rule": "daca"}), copied.parent)


@pytest.mark.parametrize("name", ["history.json", "facts.json", "tables.json"])
def test_missing_files_are_named(copied, name):
    (copied / name).unlink()
    with pytest.raises(FedcastError, match=f"{name}: is missing; delete the folder"):
        load_run(copied)


def forge(folder, name, content):
    """Replace a file of a finished run together with its digest."""
    (folder / name).write_text(json.dumps(content))
    done = json.loads((folder / "done.json").read_text())
    done["files"][name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    (folder / "done.json").write_text(json.dumps(done))


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (None, "another format version"),
        ({}, "done.json: no digest of facts.json"),
        ({"../../etc/passwd": "00"}, r"done.json: '../../etc/passwd' is not a file of the run"),
        ({"/etc/passwd": "00"}, r"done.json: '/etc/passwd' is not a file of the run"),
        ({"facts.json": 3}, "facts.json: was changed or damaged"),
    ],
)
def test_a_forged_done_json_is_refused(copied, files, message):
    kept = json.loads((copied / "done.json").read_text())
    (copied / "done.json").write_text(json.dumps(kept | {"files": files and kept["files"] | files}))
    if files == {}:
        (copied / "done.json").write_text(json.dumps(kept | {"files": {}}))
    with pytest.raises(FedcastError, match=message):
        load_run(copied)


@pytest.mark.parametrize("content", [[], {}, {"heads": 3}, 7])
def test_forged_facts_and_tables_are_refused(copied, content):
    forge(copied, "tables.json", content)
    with pytest.raises(FedcastError, match="tables.json: not the tables of a run; delete the folder"):
        _ = load_run(copied).tables
    forge(copied, "facts.json", content)
    with pytest.raises(FedcastError, match="facts.json: not the facts of a run; delete the folder"):
        load_run(copied)


def test_a_fact_that_is_no_number_is_refused(copied):
    forge(copied, "facts.json", json.loads((copied / "facts.json").read_text()) | {"heads": "many"})
    with pytest.raises(FedcastError, match="facts.json: heads is 'many', expected a number"):
        load_run(copied)


def test_damaged_files_are_named(copied):
    (copied / "facts.json").write_text("[]")
    with pytest.raises(FedcastError, match="facts.json: was changed or damaged; delete the folder"):
        load_run(copied)


def test_a_finished_run_whose_scenario_was_edited_is_not_used(copied):
    path = copied / "scenario.toml"
    path.write_text(path.read_text().replace("target_accuracy = 0.85", "target_accuracy = 0.15"))
    with pytest.raises(FedcastError, match="scenario.toml: was changed or damaged"):
        load_run(copied)


def test_runs_of_another_format_are_refused(copied):
    done = json.loads((copied / "done.json").read_text())
    (copied / "done.json").write_text(json.dumps({**done, "format": 0}))
    with pytest.raises(FedcastError, match="the run has another format version"):
        load_run(copied)


def test_forgotten_runs_are_done_anew(small, copied):
    reset_run(copied)
    run_scenario(with_overrides(small, {"clustering.rule": "daca"}), copied.parent)
    assert (copied / "log.txt").read_text().count("finished") == 2


def test_load_runs_of_folders_and_stores(copied):
    assert [run.folder for run in load_runs([copied, copied.parent])] == [copied, copied]
    with pytest.raises(FedcastError, match="no finished run in this folder"):
        load_runs([copied.parent / "nothing"])


def test_a_full_disk_leaves_no_half_written_file(small, tmp_path, monkeypatch):
    """The disk is full when history.json is to be written: the run is not done, and resumes when there is room."""
    scenario = with_overrides(small, {"clustering.rule": "daca"})
    save = store_module.History.save

    def full(self, path):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr(store_module.History, "save", full)
    with pytest.raises(OSError, match="No space left"):
        run_scenario(scenario, tmp_path)
    folder = run_folder(tmp_path, scenario)
    assert not is_done(folder)
    assert not (folder / "history.json").exists()
    monkeypatch.setattr(store_module.History, "save", save)
    assert is_done(run_scenario(scenario, tmp_path))


def _do(scenario, folder, barrier):
    barrier.wait(60)
    run_scenario(scenario, folder)
    # Importing these takes longer than a small run: a process that only trains must not.
    assert not {"sklearn", "torch._dynamo", "matplotlib"} & set(sys.modules)


def test_two_processes_on_one_folder_do_the_run_once(small, finished, tmp_path):
    scenario = with_overrides(small, {"clustering.rule": "daca"})
    context = multiprocessing.get_context("forkserver")  # the one from which sweeps fork their workers
    context.set_forkserver_preload(["fedcast.runs.executors"])
    barrier = context.Barrier(2)
    processes = [context.Process(target=_do, args=(scenario, tmp_path, barrier)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0, 0]
    folder = run_folder(tmp_path, scenario)
    assert (folder / "log.txt").read_text().count("started") == 1
    assert (folder / "history.json").read_bytes() == (finished / "history.json").read_bytes()


def test_the_old_name_of_run_scenario_still_works():
    with pytest.warns(DeprecationWarning, match=r"fedcast\.do_run was renamed; use fedcast\.run_scenario"):
        assert fedcast.do_run is run_scenario
