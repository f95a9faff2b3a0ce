"""Train runs on another machine: pack what training needs, and read the histories back.

The other machine needs only PyTorch and NumPy, see `fedcast.training.packed`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from fedcast.data import find_partition, load_dataset, skew_of
from fedcast.errors import FedcastError
from fedcast.io import write_file
from fedcast.rounds import dataset_digest
from fedcast.runs.checks import dropouts, own_tests
from fedcast.runs.prepare import PreparedRun
from fedcast.runs.store import finish_run, locked, prepare_folder
from fedcast.runs.stored_run import is_done
from fedcast.scenario import Scenario, load_plugins, model_name, read_stored_scenario
from fedcast.training import PackedRun, load_history, write_dataset, write_plugin, write_runs


def pack(scenarios: Sequence[Scenario], store: Path, folder: Path, *, data_dir: Path | None = None) -> list[str]:
    """Prepare every run that is not finished, write what training needs, and return the names of the runs.

    Run folders in `store` get everything that is known before training. Datasets that the pack in `folder` already
    holds are kept, its runs are replaced.
    """
    runs: dict[str, PackedRun] = {}
    for scenario in scenarios:
        load_plugins(scenario)
        run_folder, prepared = prepare_folder(scenario, store, data_dir=data_dir)
        if prepared is None or run_folder.name in runs:
            continue
        dataset = prepared.world.population.dataset
        if dataset is None or _changes_samples(scenario):
            dataset = load_dataset(scenario.data, data_dir)
        # With a digest of the content, so that a pack does not mix two versions of a dataset.
        name = f"{dataset.name}-{dataset_digest(dataset)[:8]}"
        write_dataset(folder, name, dataset)
        plugins = [write_plugin(folder, Path(file)) for file in scenario.plugins]
        runs[run_folder.name] = replace(packed_run(run_folder.name, name, prepared), plugins=plugins)
    write_runs(folder, list(runs.values()))
    return list(runs)


def packed_run(name: str, dataset: str, prepared: PreparedRun) -> PackedRun:
    """Return a prepared run as plain values."""
    population, scenario = prepared.world.population, prepared.world.scenario
    if scenario.training.model_file is not None:
        raise FedcastError(f"training.model_file = {scenario.training.model_file}: a pack holds data, not code")
    changes_samples, data = _changes_samples(scenario), scenario.data
    partition = {"partition": data.partition, "options": asdict(data.options("partition"))}
    return PackedRun(
        name=name,
        dataset=dataset,
        model=model_name(scenario),
        model_options=scenario.training.tables.get(model_name(scenario), {}),
        seed=scenario.seed,
        training=prepared.training,
        data=partition if changes_samples else {},
        clock=prepared.clock,
        dropped=[list(pair) for pair in sorted(dropouts(scenario))],
        users=prepared.shared.assignment,
        own=population.assignment if changes_samples else None,
        own_sizes=population.sizes,
        distributions=skew_of(population.counts).distributions,
        generated=prepared.shared.generated,
        own_tests=own_tests(scenario, population),
    )


def unpack(folder: Path, store: Path) -> list[str]:
    """Store the histories that `fedcast.training.packed` wrote to `folder`, and return the runs that are now finished.

    `store` is the one that the pack was made from.
    """
    machine = folder / "machine.json"
    if not machine.exists():
        raise FedcastError(f"{folder}: no machine.json in this folder; expected one written by fedcast.training.packed")
    finished = []
    for path in sorted(set(folder.glob("*.json")) - {machine}):
        run = store / path.stem
        if not (run / "scenario.toml").exists():
            raise FedcastError(f"{path}: no run of that name in {store}; give the store that it was packed from")
        with locked(run):
            if is_done(run):
                continue
            history, rounds = load_history(path), read_stored_scenario(run / "scenario.toml").training.rounds
            if (last := history.records[-1].round) != rounds:
                raise FedcastError(f"{path}: ends after round {last} of {rounds}; finish it first")
            write_file(run / "machine.json", machine.read_bytes())
            finish_run(run, history)
        finished.append(run.name)
    return finished


def _changes_samples(scenario: Scenario) -> bool:
    """Return whether the partition changes samples: the pack then holds the dataset before the change."""
    return find_partition(scenario.data.partition).transform is not None
