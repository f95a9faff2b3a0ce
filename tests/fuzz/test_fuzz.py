"""Fuzzing: no input ends in a traceback, takes more than five seconds, or leaves a half-written file.

1,000 inputs with fixed seeds in `make test`, 100,000 with new ones in `make test-all` (or as many as the environment
variable FEDCAST_FUZZ_INPUTS says). The summary of pytest has the counts by outcome.
"""

import hashlib
import json
import os
import shutil
import signal
import warnings
from collections import Counter
from contextlib import contextmanager

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from fedcast import load_scenario, make_plan, make_world
from fedcast.cli.app import run
from fedcast.data import read_counts
from fedcast.data.own import load_npz
from fedcast.data.partitions.indices import read_indices
from fedcast.errors import FedcastError, MovedKeyWarning
from fedcast.plan import diff_plans, load_plan, plan_to_json
from fedcast.rounds import load_fit
from fedcast.rounds.fit_files import fit_to_json
from fedcast.runs import load_run, run_scenario
from fedcast.scenario import to_toml

from . import inputs

LONGEST_S = 5
MANY = int(os.environ.get("FEDCAST_FUZZ_INPUTS", "100000"))
SMALL = ["data.num_users=20", "allocation.method=fixed", "training.model=mlp", "training.rounds=1"]
FITTED = ["allocation.method=fixed", "rounds.fit=digits-0.85", "rounds.target_accuracy=0.85"]


class TookTooLong(BaseException):
    """More than `LONGEST_S` of CPU time for one input."""


@contextmanager
def in_time():
    def stop(*_):
        raise TookTooLong

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, LONGEST_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def outcome_of(use, folder):
    """Use an input and return what became of it; anything but a result or a clear error fails."""
    files = set(folder.iterdir())
    try:
        with in_time(), warnings.catch_warnings():
            warnings.simplefilter("ignore", MovedKeyWarning)
            use()
        outcome = "accepted"
    except FedcastError as error:
        assert str(error).strip()
        outcome = "refused"
    assert set(folder.iterdir()) == files, "a file was left behind"
    return outcome


def in_file(name, use):
    """Return a target: a function of a folder and the content of a file, which it writes and uses."""

    def target(folder, content):
        path = folder / name
        path.write_bytes(content)
        return outcome_of(lambda: use(path), folder)

    return target


def use_scenario(path):
    scenario, again = load_scenario(path), path.with_name("again.toml")
    again.write_text(to_toml(scenario), encoding="utf-8")
    try:
        assert load_scenario(again) == scenario
    finally:
        again.unlink()


def use_overrides(folder, given):
    return outcome_of(lambda: to_toml(load_scenario(overrides=given)), folder)


def use_counts(path):
    people = read_counts(path)
    changes = {"data.dataset": "synthetic", "data.num_users": people.num_users}
    make_world(load_scenario(overrides=changes), population=people)


def use_table(key):
    """Return a function that makes a world of three users with a table."""

    def use(path):
        changes = {"data.dataset": "synthetic", "data.num_users": 3, "data.partition": "iid", key: str(path)}
        make_world(load_scenario(overrides=changes))

    return use


def use_plan(path):
    plan = load_plan(path)
    diff_plans(plan, plan).lines()
    plan_to_json(plan)


def use_npz(path):
    try:
        read_indices(path, 10)
    except FedcastError:
        load_npz(path)


def in_run(file, finished):
    """Return a target that replaces a file of a finished run, with its digest unless it is done.json itself."""

    def target(folder, content):
        copied = folder / "run"
        if not copied.exists():
            shutil.copytree(finished, copied)
        (copied / file).write_bytes(content)
        if file != "done.json":
            done = json.loads((finished / "done.json").read_text())
            done["files"][file] = hashlib.sha256(content).hexdigest()
            (copied / "done.json").write_text(json.dumps(done))
        try:
            return outcome_of(lambda: load_run(copied).tables, folder)
        finally:
            for name in (file, "done.json"):
                shutil.copy(finished / name, copied / name)

    return target, inputs.documents(json.loads((finished / file).read_text()))


def command(folder, content):
    """Call a whole command, which writes a file."""
    path, out = folder / "counts.csv", folder / "p.json"
    path.write_bytes(content)
    words = ["plan", "--counts", path, "--json", out, *(word for change in FITTED for word in ("--set", change))]
    try:
        with in_time():
            code = run([str(word) for word in words])
    except SystemExit as error:
        pytest.fail(f"SystemExit: {error.code}")
    assert code in (0, 2), f"exit code {code}"
    assert set(folder.iterdir()) == ({path} if code else {path, out})
    if not code:
        load_plan(out)
        out.unlink()
    return "refused" if code else "accepted"


COUNTS = inputs.tables(inputs.WIDE) | inputs.tables(inputs.NAMED) | inputs.tables(inputs.LONG_FORM)
PLACES = inputs.tables(inputs.POSITIONS) | inputs.tables(inputs.DEGREES)
# By name: share of all inputs, target and inputs.
TARGETS = {
    "scenario file": (0.2, in_file("s.toml", use_scenario), inputs.scenario_files()),
    "--set": (0.2, use_overrides, inputs.overrides()),
    "counts": (0.15, in_file("c.csv", use_counts), COUNTS),
    "links": (0.06, in_file("l.csv", use_table("trust.links_file")), inputs.tables(inputs.LINKS)),
    "positions": (0.06, in_file("p.csv", use_table("geometry.positions_file")), PLACES),
    "devices": (0.06, in_file("d.csv", use_table("devices.devices_file")), inputs.tables(inputs.DEVICES)),
    "plan": (0.08, in_file("p.json", use_plan), None),
    "fit": (0.05, in_file("f.json", lambda path: fit_to_json(load_fit(path))), None),
    "npz": (0.06, in_file("x.npz", use_npz), inputs.archives()),
    "done.json": (0.02, None, None),
    "facts.json": (0.02, None, None),
    "tables.json": (0.02, None, None),
    "history.json": (0.01, None, None),
    "plan command": (0.01, command, COUNTS),
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return run_scenario(load_scenario(base="digits", overrides=SMALL), tmp_path_factory.mktemp("store"))


def campaign(name, total, folder, record_property, request, *, fixed):
    share, target, strategy = TARGETS[name]
    if name == "plan":
        plan = make_plan(load_scenario(base="digits", overrides=SMALL), with_curve=False)
        strategy = inputs.documents(json.loads(plan_to_json(plan)))
    elif name == "fit":
        strategy = inputs.documents(json.loads(fit_to_json(load_fit("paper-0.95"))))
    elif target is None:
        target, strategy = in_run(name, request.getfixturevalue("finished"))
    counts = Counter()

    @settings(
        max_examples=round(total * share),
        derandomize=fixed,
        database=None,
        deadline=None,
        print_blob=True,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def fuzz(content):
        counts[target(folder, content)] += 1

    fuzz()
    record_property("fuzzed", [name, dict(counts)])


@pytest.mark.parametrize("name", TARGETS)
def test_1000_inputs(name, tmp_path, record_property, request):
    campaign(name, 1000, tmp_path, record_property, request, fixed=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_100000_inputs(name, tmp_path, record_property, request):
    campaign(name, MANY, tmp_path, record_property, request, fixed=False)
