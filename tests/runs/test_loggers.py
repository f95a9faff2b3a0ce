"""Test the logs of runs, read with the trackers' own readers."""

import shutil
import sqlite3
import subprocess
import sys
from dataclasses import replace

import pytest

from fedcast.errors import FedcastError
from fedcast.runs import trackers as loggers
from fedcast.runs.store import run_scenario
from fedcast.runs.stored_run import load_run
from fedcast.runs.trackers import log_run, log_runs, log_targets
from fedcast.scenario import load_scenario


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    store = tmp_path_factory.mktemp("runs")
    few = ["data.num_users=20", "training.rounds=2", "training.local_epochs=1", "allocation.method=fixed"]
    scenarios = [load_scenario(base="digits", overrides=[*few, f"clustering.rule={rule}"]) for rule in ("none", "daca")]
    return [load_run(run_scenario(scenario, store)) for scenario in scenarios]


@pytest.fixture
def run(runs):
    return runs[1]


@pytest.fixture(scope="module")
def empty_database(tmp_path_factory):
    """Making MLflow's tables takes seconds; done once."""
    folder = tmp_path_factory.mktemp("mlflow")
    log_runs([], "mlflow", folder)
    return folder / "mlflow.db"


@pytest.fixture
def place(empty_database, tmp_path):
    shutil.copy(empty_database, tmp_path)
    return tmp_path


def read_events(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    reader = EventAccumulator(str(folder), size_guidance={"scalars": 0, "tensors": 0})
    reader.Reload()
    return reader


def read_mlflow(place):
    from mlflow.tracking import MlflowClient

    client = MlflowClient(place if "://" in str(place) else f"sqlite:///{place / 'mlflow.db'}")
    (experiment,) = [one for one in client.search_experiments() if one.name == "fedcast"]
    return client, client.search_runs([experiment.experiment_id])


class TestTensorBoard:
    def test_curves_stand_against_rounds_and_the_simulated_clock(self, run, tmp_path):
        log_run(run, "tensorboard", tmp_path)
        reader, records = read_events(tmp_path / run.folder.name), run.history.records
        by_round = reader.Scalars("by_round/accuracy")
        assert [event.step for event in by_round] == [0, 1, 2]
        assert [event.wall_time for event in by_round] == [record.seconds for record in records]
        assert [event.value for event in by_round] == pytest.approx([record.accuracy for record in records])
        by_time = reader.Scalars("by_millisecond/test_loss")
        assert [event.step for event in by_time] == [round(1e3 * record.seconds) for record in records]
        assert [event.value for event in by_time] == pytest.approx([record.test_loss for record in records])

    def test_what_is_not_known_before_training_has_no_point_there(self, run, tmp_path):
        log_run(run, "tensorboard", tmp_path)
        steps = [event.step for event in read_events(tmp_path / run.folder.name).Scalars("by_round/train_loss")]
        assert steps == [1, 2]

    def test_scenario_facts_and_score_are_there(self, run, tmp_path):
        from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

        log_run(run, "tensorboard", tmp_path)
        reader = read_events(tmp_path / run.folder.name)
        plugin = reader.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
        parameters = HParamsPluginData.FromString(plugin).session_start_info.hparams
        assert parameters["data.num_users"].number_value == 20
        assert parameters["clustering.rule"].string_value == "daca"
        assert parameters["trust.links_file"].string_value == "unset"
        assert reader.Scalars("facts/emd_after")[0].value == pytest.approx(run.facts.emd_after)
        assert reader.Scalars("score/reached")[0].value == 0
        assert b"num_users = 20" in reader.Tensors("scenario/text_summary")[0].tensor_proto.string_val[0]

    def test_logged_again_it_is_the_same_file(self, runs, tmp_path):
        log_runs(runs, "tensorboard", tmp_path)
        files = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
        log_runs(runs, "tensorboard", tmp_path)
        assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == files
        assert len(files) == 2


class TestMLflow:
    def test_curves_parameters_facts_and_tags(self, run, place):
        log_run(run, "mlflow", place)
        client, (logged,) = read_mlflow(place)
        records = run.history.records
        history = sorted(client.get_metric_history(logged.info.run_id, "by_round/accuracy"), key=lambda one: one.step)
        assert [point.step for point in history] == [0, 1, 2]
        assert [point.value for point in history] == [record.accuracy for record in records]
        assert [point.timestamp for point in history] == [round(1e3 * record.seconds) for record in records]
        by_time = client.get_metric_history(logged.info.run_id, "by_millisecond/energy_j")
        assert {point.step for point in by_time} == {round(1e3 * record.seconds) for record in records}
        assert logged.info.status == "FINISHED"
        assert logged.info.run_name == run.folder.name
        assert logged.data.params["clustering.rule"] == "daca"
        assert logged.data.params["data.num_users"] == "20"
        assert len(logged.data.params) == 2 + sum(
            len(section.model_dump()) for name, section in run.scenario if name not in ("seed", "plugins")
        )
        assert logged.data.metrics["facts/emd_before"] == run.facts.emd_before
        assert logged.data.metrics["score/rounds"] == 2
        assert logged.data.tags["fedcast.strategy"] == "daca fixed"
        assert logged.data.tags["version.torch"] == run.versions["torch"]

    def test_logged_again_it_is_left_as_it_is(self, runs, place):
        log_runs(runs, "mlflow", place)
        before = {one.info.run_id for one in read_mlflow(place)[1]}
        log_runs(runs, "mlflow", place)
        assert {one.info.run_id for one in read_mlflow(place)[1]} == before
        assert len(before) == 2

    @pytest.mark.parametrize("half_done", [True, False])
    def test_a_half_logged_or_changed_run_is_replaced(self, run, place, monkeypatch, half_done):
        if half_done:
            monkeypatch.setattr(loggers, "points", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                log_run(run, "mlflow", place)
            monkeypatch.undo()
        else:
            log_run(replace(run, facts=replace(run.facts, emd_after=0.5)), "mlflow", place)
        log_run(run, "mlflow", place)
        _, (logged,) = read_mlflow(place)
        assert logged.data.metrics["facts/emd_after"] == run.facts.emd_after

    def test_an_address_is_used_as_it_is(self, run, place):
        address = f"sqlite:///{(place / 'mlflow.db').rename(place / 'own.db')}"
        log_run(run, "mlflow", address)
        assert [one.info.run_name for one in read_mlflow(address)[1]] == [run.folder.name]

    def test_what_mlflow_refuses_is_one_line(self, run, tmp_path):
        (tmp_path / "mlflow.db").write_text("not a database, and long enough to be seen as none" * 100)
        with pytest.raises(FedcastError, match=r"MLflow says: .*not a database") as caught:
            log_run(run, "mlflow", tmp_path)
        assert "\n" not in str(caught.value)

    def test_no_telemetry_and_no_word_on_the_screen(self, run, tmp_path):
        code = (
            "import sys, threading; from fedcast.runs import trackers as loggers;"
            "from fedcast.runs.stored_run import load_run;"
            "loggers.log_run(load_run(sys.argv[1]), 'mlflow', sys.argv[2]);"
            "from mlflow.telemetry import get_telemetry_client;"
            "assert get_telemetry_client() is None and threading.active_count() == 1"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, str(run.folder), str(tmp_path)], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        with sqlite3.connect(tmp_path / "mlflow.db") as database:
            assert database.execute("select count(*) from runs").fetchone() == (1,)
        database.close()


class TestTargets:
    def test_a_place_may_be_given(self, tmp_path):
        assert log_targets(["mlflow", "tensorboard=events"], tmp_path) == [
            ("mlflow", str(tmp_path / "mlflow")),
            ("tensorboard", "events"),
        ]

    def test_an_unknown_tracker_is_refused(self, tmp_path):
        with pytest.raises(FedcastError, match="invalid value 'wandb' for --log: expected tensorboard or mlflow"):
            log_targets(["wandb"], tmp_path)

    @pytest.mark.parametrize(("kind", "module"), [("tensorboard", "tensorboard"), ("mlflow", "alembic")])
    def test_a_missing_package_is_named_before_any_work(self, monkeypatch, tmp_path, kind, module):
        found = loggers.find_spec
        monkeypatch.setattr(loggers, "find_spec", lambda name: None if name == module else found(name))
        with pytest.raises(FedcastError, match=rf'--log {kind}: needs {module}; pip install "fedcast\[{kind}\]"'):
            log_targets([kind], tmp_path)
