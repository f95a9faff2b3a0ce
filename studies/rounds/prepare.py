"""Prepare runs of the rounds study: who trains on what.

    python studies/rounds/prepare.py mnist out/rounds/mnist --parts tuning design --count 300

writes to the folder what `train.py` needs: dataset.npz, one file in worlds/ for each population after sharing, and
runs.json. Runs that are stored in studies/rounds/mnist are left out.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
from design import LADDERS, MAX_ROUNDS, Setting, choices, design, tuning

from fedcast.clustering import cluster
from fedcast.plan import World, make_world
from fedcast.scenario import Scenario, load_scenario
from fedcast.sharing import share_samples

HERE = Path(__file__).parent
_LEVEL = {
    "label_skew": "data.label_skew.single_class_share",
    "dirichlet": "data.dirichlet.alpha",
    "shards": "data.shards.classes_per_user",
}
POPULATIONS = {
    "mnist": [("label_skew", 0.8, 50), ("label_skew", 1.0, 51), ("label_skew", 0.4, 52), ("dirichlet", 0.1, 53),
              ("dirichlet", 1.0, 54), ("dirichlet", 10.0, 55)],
    "digits": [("label_skew", 0.8, 50), ("label_skew", 1.0, 51), ("label_skew", 0.4, 52), ("dirichlet", 0.1, 53),
               ("dirichlet", 0.3, 54), ("dirichlet", 1.0, 55), ("dirichlet", 10.0, 56), ("shards", 2.0, 57)],
}  # fmt: skip
CHOICE_STEP = {"mnist": 0.2, "digits": 0.4}


def scenario_of(dataset: str, setting: Setting, base: str = "default") -> Scenario:
    """Return the scenario of a population after sharing."""
    level = int(setting.level) if setting.partition == "shards" else setting.level
    return load_scenario(
        base=base,
        overrides=[
            f"data.dataset={dataset}", f"data.partition={setting.partition}", f"{_LEVEL[setting.partition]}={level}",
            f"seed={setting.seed}", f"clustering.rule={setting.rule}",
            *([f"clustering.sharing_ratio={setting.ratio}"] if setting.ratio else []),
        ],
    )  # fmt: skip


def prepare_world(dataset: str, setting: Setting, path: Path) -> World:
    """Write own samples, and what every head sends to whom, of one population."""
    world = make_world(scenario_of(dataset, setting))
    population, clustering = world.population, cluster(world.problem())
    own, ledger = population.assignment, share_samples(population, clustering, setting.seed).ledger
    assert own is not None
    arrays = {"samples": own.samples.astype(np.uint16), "offsets": own.offsets.astype(np.uint16)}
    assert own.samples.max() < 2**16
    arrays["before"] = population.counts.astype(np.uint16)
    arrays["after"] = after_sharing(population, ledger)
    for number, sender in enumerate(np.unique(ledger.senders)):
        mine = ledger.senders == sender
        receivers = np.unique(ledger.receivers[mine])
        first = ledger.samples[mine][ledger.receivers[mine] == receivers[0]]
        assert mine.sum() == len(receivers) * len(first)
        arrays[f"sent{number}"], arrays[f"to{number}"] = first.astype(np.uint16), receivers.astype(np.uint16)
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, **arrays)
    return world


def after_sharing(population, ledger) -> np.ndarray:  # type: ignore[no-untyped-def]
    """Return the class counts after sharing, uint16[K, Y]."""
    after = population.counts.copy()
    np.add.at(after, (ledger.receivers, population.dataset.labels[ledger.samples]), 1)
    return after.astype(np.uint16)


def stored(dataset: str) -> set[str]:
    """Return the names of the runs that the study holds."""
    path = HERE / dataset / "accuracy.json"
    return set(json.loads(path.read_text())) if path.exists() else set()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset", choices=tuple(LADDERS))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--parts", nargs="+", default=["tuning", "design"], choices=["tuning", "design", "choices"])
    parser.add_argument("--count", type=int, default=300, help="runs of the design")
    parser.add_argument("--repeats", type=int, default=1, help="runs of each of the choices")
    parser.add_argument("--first", type=int, default=0, help="first run of the design")
    options = parser.parse_args()
    settings: list[Setting] = []
    if "tuning" in options.parts:
        settings += tuning(options.dataset)
    if "design" in options.parts:
        settings += design(options.dataset, options.count)[options.first :]
    if "choices" in options.parts:
        settings += choices(
            options.dataset, POPULATIONS[options.dataset], CHOICE_STEP[options.dataset], options.repeats
        )
    done = stored(options.dataset)
    listed, data = [], None
    for setting in settings:
        if setting.name in done:
            continue
        path = options.folder / "worlds" / f"{setting.world}.npz"
        if not path.exists():
            data = prepare_world(options.dataset, setting, path).population.dataset or data
        rounds = MAX_ROUNDS[options.dataset][setting.epochs]
        listed.append({"name": setting.name, "world": setting.world, **asdict(setting), "max_rounds": rounds})
    if data is not None and not (options.folder / "dataset.npz").exists():
        np.savez_compressed(
            options.folder / "dataset.npz", inputs=np.asarray(data.inputs), labels=data.labels.astype(np.uint8),
            test_inputs=np.asarray(data.test_inputs), test_labels=data.test_labels.astype(np.uint8), scale=data.scale,
        )  # fmt: skip
    content = {"top": LADDERS[options.dataset][-1], "runs": listed}
    (options.folder / "runs.json").write_text(json.dumps(content))
    print(f"{len(listed)} runs to train in {options.folder}, {len(done)} are stored")


if __name__ == "__main__":
    main()
