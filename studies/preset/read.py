"""Read the runs of the preset mnist back and compare simulated seconds to 95 % accuracy.

    python studies/preset/read.py out/preset OUT_OF_TRAINING

writes results.json: rounds and seconds of every run, and the speed-up of each strategy over FedAvg with one local epoch
and over FedAvg at its best number of local epochs, as geometric means over seeds with 95 % confidence intervals.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from scipy.stats import t

from fedcast.plan import load_plan
from fedcast.runs import unpack
from fedcast.training import load_history

RESULTS = Path(__file__).with_name("results.json")
TARGET = 0.95


def rows(store: Path) -> list[dict[str, object]]:
    """Return what each run took to the target, and what its plan predicted; FedAvg's may be those trained before."""
    before = {(row["strategy"], row["seed"]): row["rounds"] for row in json.loads(RESULTS.read_text())["runs"]}
    found = []
    for folder in sorted(store.iterdir()):
        plan = load_plan(folder / "plan.json")
        asked, seed = plan.scenario.clustering.rule, plan.scenario.seed
        strategy = asked if asked != "none" else f"none, E = {plan.local_epochs}"
        if (folder / "history.json").exists():
            rounds = load_history(folder / "history.json").rounds_to(TARGET)
        elif asked == "none":
            rounds = before[strategy, seed]
        else:
            continue
        found.append(
            {
                "strategy": strategy, "seed": seed,
                "rule": plan.rule, "local_epochs": plan.local_epochs, "predicted_rounds": round(plan.rounds, 2),
                "interval": plan.rounds_interval, "rounds": rounds,
                "predicted_s": round(plan.delay_s, 2), "average_sharing_ratio": round(plan.average_sharing_ratio, 4),
                "seconds": None if rounds is None else round(plan.sharing_s + rounds * plan.round_s, 2),
            }
        )  # fmt: skip
    return found


def speed_up(ours: dict[int, float], theirs: dict[int, float]) -> dict[str, float]:
    """Return the geometric mean over seeds of their seconds over ours, with its 95 % confidence interval."""
    logs = np.log([theirs[seed] / ours[seed] for seed in ours])
    half = t.ppf(0.975, len(logs) - 1) * logs.std(ddof=1) / np.sqrt(len(logs))
    ends = {"mean": logs.mean(), "low": logs.mean() - half, "high": logs.mean() + half}
    return {name: round(float(np.exp(value)), 3) for name, value in ends.items()}


if __name__ == "__main__":
    base = Path(sys.argv[1])
    unpack(Path(sys.argv[2]), base / "store")
    found = rows(base / "store")
    seconds: dict[str, dict[int, float]] = {}
    for row in found:
        seconds.setdefault(str(row["strategy"]), {})[row["seed"]] = row["seconds"]  # type: ignore[index, assignment]
    alone = {name: by_seed for name, by_seed in seconds.items() if name.startswith("none")}
    best = min(alone, key=lambda name: np.mean(list(alone[name].values())))
    summary = {
        name: {
            "mean_seconds": round(float(np.mean(list(by_seed.values()))), 2),
            "over FedAvg, E = 1": speed_up(by_seed, seconds["none, E = 1"]),
            f"over FedAvg at its best, E = {best[-1]}": speed_up(by_seed, seconds[best]),
        }
        for name, by_seed in seconds.items()
    }
    RESULTS.write_text(json.dumps({"summary": summary, "runs": found}, indent=1) + "\n")
    print(json.dumps(summary, indent=1))
