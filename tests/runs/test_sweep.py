"""Sweeps: over processes, killed at random moments, over a real Ray cluster."""

import contextlib
import multiprocessing
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from fedcast import with_overrides
from fedcast.errors import FedcastError, SweepError
from fedcast.runs import executors
from fedcast.runs.store import run_folder
from fedcast.runs.stored_run import is_done, load_failures, load_run, load_runs
from fedcast.runs.sweeps import grid, sweep


@pytest.fixture(scope="module")
def scenarios(small):
    return grid(small, ["none", "daca"], seeds=[0, 1])


@pytest.fixture(scope="module")
def calm(scenarios, tmp_path_factory):
    """All runs, one after another, undisturbed: bytes of history by name of folder."""
    folders = sweep(scenarios, tmp_path_factory.mktemp("calm"))
    return histories(folders)


def histories(folders):
    return {folder.name: (folder / "history.json").read_bytes() for folder in folders}


def test_a_grid_has_every_combination_once(small):
    made = grid(small, ["none", "daca", "daca"], ["fixed", "saa"], ["fedavg", "fedprox"], [3, 4])
    found = [(one.clustering.rule, one.allocation.method, one.training.algorithm, one.seed) for one in made]
    assert len(found) == len(set(found)) == 2 * 2 * (1 + 2)
    assert ("none", "saa", "fedavg", 3) not in found


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rules": ["dacca"]}, "dacca"),
        ({"rules": ["daca"], "methods": ["foo"]}, "invalid value 'foo' for allocation.method"),
        ({"rules": ["daca"], "algorithms": ["sgd"]}, "invalid value 'sgd' for training.algorithm: no such algorithm"),
        ({"rules": ["daca"], "seeds": [-1]}, "seed: invalid value -1"),
        ({"rules": "daca"}, r"rules: expected a list such as \['daca'\], got 'daca'"),
        ({"rules": ["daca"], "seeds": 3}, r"seeds: expected a list such as range\(3\), got 3"),
    ],
)
def test_a_grid_refuses_unknown_names_before_any_work(small, arguments, message):
    with pytest.raises(FedcastError, match=message):
        grid(small, **arguments)


def test_processes_give_the_bytes_of_one_process(scenarios, calm, tmp_path):
    told = []
    folders = sweep(scenarios, tmp_path, workers=2, progress=lambda *message: told.append(message))
    assert histories(folders) == calm
    assert {place for place, _, _ in told} == {0, 1, 2, 3}
    assert max(number for _, number, _ in told) == 4
    told.clear()
    assert sweep(scenarios, tmp_path, workers=2, progress=lambda *message: told.append(message)) == folders
    assert not told


@pytest.mark.parametrize("workers", [1, 2])
def test_a_failing_run_is_named_and_the_others_go_on(small, scenarios, calm, tmp_path, workers):
    bad = with_overrides(small, {"training.learning_rate": 1e15})
    with pytest.raises(SweepError, match=f"^{run_folder(tmp_path, bad).name}: training diverged in round") as error:
        sweep([bad, *scenarios], tmp_path, workers=workers)
    assert [(one.scenario, one.folder) for one in error.value.failed] == [(bad, run_folder(tmp_path, bad))]
    assert histories(run_folder(tmp_path, scenario) for scenario in scenarios) == calm
    (stored,) = load_failures(tmp_path)
    assert stored.scenario == bad
    assert stored.reason.startswith("training diverged in round")
    # A pattern of folders names the failed one too; alone it is no run.
    assert len(load_runs(sorted(tmp_path.iterdir()))) == 4
    with pytest.raises(FedcastError, match="no finished run in this folder"):
        load_runs(stored.folder)


def test_whoever_asks_gets_each_failure_instead_of_an_error(small, scenarios, tmp_path):
    bad, told = with_overrides(small, {"training.learning_rate": 1e15}), []
    folders = sweep([scenarios[0], bad, scenarios[1]], tmp_path, on_failure=told.append)
    assert folders == [run_folder(tmp_path, scenario) for scenario in scenarios[:2]]
    assert [one.scenario for one in told] == [bad]
    # It is tried again, and no longer failed once it is done.
    (run_folder(tmp_path, bad) / "failed.json").rename(tmp_path / "failed.json")
    (tmp_path / "failed.json").rename(folders[0] / "failed.json")
    assert load_failures(tmp_path) == []


def test_what_is_no_fault_of_a_run_ends_the_sweep(scenarios, tmp_path, monkeypatch):
    """A full disk, or a bug: other runs would meet it too."""
    done = []

    def full(scenario, *_, **__):
        done.append(scenario)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("fedcast.runs.executors.run_scenario", full)
    with pytest.raises(OSError, match="No space left on device"):
        sweep(scenarios, tmp_path)
    assert len(done) == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data.dataset": "file", "data.file": "no.npz"}, r"^data.file.path: no such file: no.npz$"),
        ({"data.dataset": "file"}, r"^data.dataset is \"file\", but data.file is not set"),
        ({"data.partition": "indices", "data.indices.file": "far.json"}, "^far.json: user 0: sample 99999 does not"),
        ({"clustering.rule": "dacca"}, "^invalid value 'dacca' for clustering.rule"),
        ({"rounds.fit": "nofit"}, "^invalid value 'nofit' for rounds.fit: no shipped fit"),
    ],
)
def test_what_all_runs_would_stumble_over_is_found_before_any_has_a_folder(
    small, tmp_path, monkeypatch, changes, message
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "far.json").write_text(f"[[99999]{', [0]' * 19}]")
    with pytest.raises(FedcastError, match=message):
        sweep([with_overrides(small, changes)], tmp_path / "store", workers=2)
    assert not list((tmp_path / "store").iterdir())


def test_wrong_arguments_are_refused(small, tmp_path):
    with pytest.raises(FedcastError, match=r"scenarios: expected a list such as \[scenario\], got one scenario"):
        sweep(small, tmp_path)
    with pytest.raises(FedcastError, match="invalid value 0 for workers: expected 1 or more"):
        sweep([small], tmp_path, workers=0)


def test_a_file_in_the_place_of_the_store_is_refused(scenarios, tmp_path):
    path = tmp_path / "store"
    path.touch()
    with pytest.raises(FedcastError, match="is a file; expected a folder"):
        sweep(scenarios, path)


# A process started in the background of a shell ignores Ctrl-C; one at a terminal does not.
SWEEP = """
import signal
import sys
from pathlib import Path
from fedcast import load_scenario
from fedcast.runs.sweeps import grid, sweep
if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    scenario = load_scenario(sys.argv[1])
    sweep(grid(scenario, ["none", "daca"], seeds=[0, 1]), Path(sys.argv[2]), workers=2)
"""


def start(scenario_file, store, script):
    return subprocess.Popen([sys.executable, script, scenario_file, store], start_new_session=True)


OWN_RULE = """
import sys
import fedcast
from fedcast.clustering import Rule
from fedcast.clustering.none import none
from fedcast.registry import register
def main():
    register("clustering", "own", Rule(none, "none", why="is so"))
    scenario = fedcast.load_scenario(sys.argv[1])
    fedcast.sweep(fedcast.grid(scenario, ["none", "own"]), sys.argv[2], workers=2)
if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (SWEEP.replace('if __name__ == "__main__":', "if True:"), 'must call sweep under `if __name__ == "__main__":`'),
        (
            OWN_RULE,
            "clustering.rule: 'own' is not known to the worker processes that your script starts; add it",
        ),
    ],
)
def test_scripts_that_processes_cannot_import_are_told_so(small, tmp_path, text, message):
    from fedcast import to_toml

    scenario_file, script = tmp_path / "scenario.toml", tmp_path / "script.py"
    scenario_file.write_text(to_toml(small))
    script.write_text(text)
    ended = subprocess.run(
        [sys.executable, script, scenario_file, tmp_path / "store"], capture_output=True, text=True, check=False
    )
    # Workers and the tracker of shared memory may write after the traceback, on a busy machine many lines.
    errors = [line for line in ended.stderr.splitlines() if re.match(r"[\w.]+Error: ", line)]
    assert any(message in line for line in errors), ended.stderr


def rounds_kept(store):
    """Return a value that changes with every checkpoint of any run."""
    return {str(path): path.stat().st_mtime_ns for path in store.glob("*/checkpoint.pt")}


@pytest.mark.parametrize("kills", [2, pytest.param(10, marks=pytest.mark.slow)])
def test_killed_at_random_moments_the_result_is_that_of_an_undisturbed_sweep(small, scenarios, calm, tmp_path, kills):
    """The whole group of processes dies by kill -9, again and again; then the sweep is done in peace."""
    from fedcast import to_toml

    scenario_file, script, store = tmp_path / "scenario.toml", tmp_path / "sweep.py", tmp_path / "store"
    scenario_file.write_text(to_toml(small))
    script.write_text(SWEEP)
    chance = random.Random(kills)
    done_before: dict[str, int] = {}
    for _ in range(kills):
        before = rounds_kept(store)
        process = start(scenario_file, store, script)
        # Kills fall into training: some moments after the first checkpoint that this process writes.
        deadline = time.monotonic() + 200
        while rounds_kept(store) == before and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(chance.uniform(0.0, 1.0))
        with contextlib.suppress(ProcessLookupError):  # if it has just finished
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(60)
        assert rounds_kept(store)
        for name, moment in done_before.items():
            assert (store / name / "done.json").stat().st_mtime_ns == moment
        done_before = {path.parent.name: path.stat().st_mtime_ns for path in store.glob("*/done.json")}
    assert start(scenario_file, store, script).wait(300) == 0
    folders = [run_folder(store, scenario) for scenario in scenarios]
    assert histories(folders) == calm
    for folder in folders:
        assert (folder / "log.txt").read_text().count("finished") == 1


@pytest.mark.parametrize("times", [1, 2])
def test_interrupted_runs_leave_checkpoints_and_are_gone_on_with(small, tmp_path, times):
    """Ctrl-C at the terminal reaches the parent, which lets workers finish their round; a second one ends them."""
    from fedcast import to_toml

    scenario = with_overrides(small, {"training.rounds": 400})
    scenario_file, script, store = tmp_path / "scenario.toml", tmp_path / "sweep.py", tmp_path / "store"
    scenario_file.write_text(to_toml(scenario))
    script.write_text(SWEEP)
    process = start(scenario_file, store, script)
    deadline = time.monotonic() + 200
    while len(list(store.glob("*/checkpoint.pt"))) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    for _ in range(times):
        os.killpg(process.pid, signal.SIGINT)
        time.sleep(0.05)
    assert process.wait(120) != 0
    if times == 1:
        stopped = [path for path in store.glob("*/log.txt") if "stopped after round" in path.read_text()]
        assert len(stopped) == 2


@pytest.mark.parametrize("workers", [1, 2])
def test_who_listens_may_fail(scenarios, tmp_path, workers):
    def stumble(*_):
        raise RuntimeError("stumbled")

    with pytest.raises(RuntimeError, match="stumbled"):
        sweep(scenarios, tmp_path, workers=workers, progress=stumble)


def test_a_killed_worker_is_not_called_a_bug(small, tmp_path):
    """As the kernel does when memory runs out."""
    slow = grid(with_overrides(small, {"training.rounds": 100_000}), ["none"], seeds=[0, 1])

    def kill_it(*_):
        for worker in multiprocessing.active_children():
            worker.kill()

    with pytest.raises(FedcastError, match="a worker process was killed, possibly because memory ran out"):
        sweep(slow, tmp_path, workers=2, progress=kill_it)


def test_workers_end_soon_after_their_parent_is_killed(tmp_path):
    """Also while they wait for a run, when they would otherwise never notice."""
    script = tmp_path / "parent.py"
    script.write_text(
        "import multiprocessing, time\n"
        "from fedcast.runs.orphans import end_with_parent\n"
        "def work():\n"
        "    end_with_parent()\n"
        "    time.sleep(600)\n"
        "if __name__ == '__main__':\n"
        "    children = [multiprocessing.get_context('forkserver').Process(target=work) for _ in range(2)]\n"
        "    [child.start() for child in children]\n"
        "    print(*[child.pid for child in children], flush=True)\n"
        "    time.sleep(600)\n"
    )
    parent = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True)
    workers = [int(word) for word in parent.stdout.readline().split()]
    assert len(workers) == 2
    parent.kill()
    parent.communicate()
    deadline = time.time() + 10
    while any(_runs(worker) for worker in workers) and time.time() < deadline:
        time.sleep(0.05)
    assert not any(_runs(worker) for worker in workers)


def test_every_worker_ends_with_its_parent(monkeypatch):
    called = []
    monkeypatch.setattr("fedcast.runs.executors.end_with_parent", lambda: called.append(True))
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    events = threading.Event(), threading.Event()
    executors._start_worker(multiprocessing.Pipe()[1], *events, dict(os.environ))
    assert called == [True]


def _runs(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


ray = pytest.importorskip("ray")


@pytest.fixture(scope="module")
def cluster():
    """A head that computes nothing, and two workers, each a raylet of its own."""
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    workers = [made.add_node(num_cpus=1) for _ in range(2)]
    yield made, workers
    made.shutdown()


@pytest.mark.filterwarnings("ignore::Warning")
def test_a_ray_cluster_gives_the_same_bytes_also_when_a_worker_is_lost(scenarios, calm, tmp_path, cluster):
    made, workers = cluster
    told = []

    def lose_a_worker_after_the_first_run(*message):
        told.append(message)
        if len(told) == 1:
            made.remove_node(workers[0], allow_graceful=False)

    folders = sweep(scenarios, tmp_path, ray_address=made.address, progress=lose_a_worker_after_the_first_run)
    assert histories(folders) == calm
    assert sorted(place for place, _, _ in told) == [0, 1, 2, 3]
    assert load_run(folders[0]).history.records[-1].round == 4


@pytest.mark.filterwarnings("ignore::Warning")
def test_a_run_that_fails_on_ray_says_why(small, tmp_path, cluster):
    made, _ = cluster
    bad = with_overrides(small, {"training.learning_rate": 1e15})
    with pytest.raises(FedcastError, match="training diverged in round"):
        sweep([bad], tmp_path, ray_address=made.address)
    assert not is_done(run_folder(tmp_path, bad))


@pytest.mark.filterwarnings("ignore::Warning")
def test_no_cluster_at_the_address(scenarios, tmp_path):
    with pytest.raises(FedcastError, match="--ray 127.0.0.1:1: no Ray cluster there"):
        sweep(scenarios, tmp_path, ray_address="127.0.0.1:1")
