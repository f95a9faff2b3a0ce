"""Compare predicted with trained rounds and delay, and what a plan would choose with the best of all that was tried.

    python studies/rounds/predict.py

A scenario is a population of the study (part `choices`, which no fit has seen) with one setting of devices and radio.
In each, FedAvg and three rules at three volumes were trained at four numbers of local epochs. Settings change what
sharing and a round cost, not the links, so that the trained runs hold in all of them. Writes docs/predictions.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from design import LADDERS, Setting
from prepare import POPULATIONS, scenario_of
from scipy.stats import spearmanr

from fedcast.clustering import Clustering, cluster
from fedcast.cost import round_cost
from fedcast.plan import make_world, sharing_cost_of
from fedcast.rounds import load_rounds, local_steps
from fedcast.scenario import Rounds, Scenario, with_overrides

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "predictions.md"
TARGETS = {"mnist": 0.95, "digits": 0.85}
BATCH = 10
# Runs of a population, of 40, with which it is judged.
_ENOUGH = 36
# Changes to the preset of the dataset.
SETTINGS: dict[str, dict[str, float]] = {
    "preset": {},
    "large samples": {"data.bits_per_sample": 5e6},
    "slow devices": {"devices.cycles_per_sample": 1e7},
    "slow uplink": {"cellular.subcarrier_bandwidth_hz": 1e5},
}


@dataclass(frozen=True)
class Tried:
    """One strategy in one scenario: prediction, and what training took."""

    dataset: str
    population: str
    setting: str
    rule: str
    ratio: float
    epochs: int
    predicted_rounds: float
    low: float
    high: float
    rounds: int
    met: bool
    predicted_s: float
    simulated_s: float  # infinite if the target was not met


def tried(dataset: str) -> Iterator[Tried]:
    """Return every strategy that was trained, in all settings of devices and radio."""
    accuracies, settings = (
        json.loads((HERE / dataset / name).read_text()) for name in ("accuracy.json", "settings.json")
    )
    target = TARGETS[dataset]
    rounds_settings = Rounds(fit=dataset, form="law", target_accuracy=target)
    names = [name for name, run in settings.items() if run["part"] == "choices"]
    for partition, level, seed in POPULATIONS[dataset]:
        mine = [
            n
            for n in names
            if (settings[n]["partition"], settings[n]["level"], settings[n]["seed"]) == (partition, level, seed)
        ]
        if len(mine) < _ENOUGH:
            continue
        worlds = {
            label: make_world(with_overrides(_scenario(dataset, settings[mine[0]]), changes))
            for label, changes in SETTINGS.items()
        }
        clusterings: dict[str, Clustering] = {}
        for name in mine:
            setting = _setting(settings[name])
            if setting.world not in clusterings:
                rule = _scenario(dataset, settings[name]).clustering
                clusterings[setting.world] = cluster(worlds["preset"].problem(rule))
            clustering = clusterings[setting.world]
            after, own = clustering.after, worlds["preset"].skew.sizes
            emd = float(
                np.abs(after.distributions - after.global_distribution).sum(axis=1) @ after.sizes / after.sizes.sum()
            )
            steps = local_steps(own, after.sizes, setting.epochs, BATCH)
            model = load_rounds(rounds_settings, setting.step)
            predicted = model.draw(100, emd, 0, steps).expected(emd, 0.0, steps).rounds
            low, high = model.interval(emd, steps) or (np.nan, np.nan)
            hits = [number for number, accuracy in enumerate(accuracies[name]) if accuracy >= target]
            met, taken = bool(hits), hits[0] if hits else len(accuracies[name]) - 1
            for label, world in worlds.items():
                sharing_s = sharing_cost_of(world, clustering).sharing_s
                round_s = round_cost(replace(world.fleet, local_epochs=setting.epochs), after.sizes).round_s
                if np.isfinite(round_s):
                    yield Tried(
                        dataset, f"{partition} {level:g}", label, setting.rule, setting.ratio, setting.epochs,
                        predicted, low, high, taken, met, sharing_s + predicted * round_s,
                        sharing_s + taken * round_s if met else np.inf,
                    )  # fmt: skip


def _setting(run: dict[str, object]) -> Setting:
    return Setting(**{key: value for key, value in run.items() if key in Setting.__dataclass_fields__})  # type: ignore[arg-type]


def _scenario(dataset: str, run: dict[str, object]) -> Scenario:
    return scenario_of(dataset, _setting(run), dataset)


def scenarios(rows: list[Tried]) -> list[dict[str, object]]:
    """Return for every scenario what a plan would choose of all tried, what was best, and FedAvg at its best."""
    found = []
    for dataset, population, setting in dict.fromkeys((r.dataset, r.population, r.setting) for r in rows):
        mine = [r for r in rows if (r.dataset, r.population, r.setting) == (dataset, population, setting)]
        chosen, best = min(mine, key=lambda r: r.predicted_s), min(mine, key=lambda r: r.simulated_s)
        alone = min((r for r in mine if r.rule == "none"), key=lambda r: r.simulated_s)
        ranks = spearmanr([r.predicted_s for r in mine], [min(r.simulated_s, 1e9) for r in mine]).statistic
        found.append(
            {
                "dataset": dataset, "population": population, "setting": setting, "chosen": _named(chosen),
                "predicted_s": chosen.predicted_s, "chosen_s": chosen.simulated_s, "best": _named(best),
                "best_s": best.simulated_s, "alone": _named(alone), "alone_s": alone.simulated_s,
                "rank_correlation": float(ranks),
            }
        )  # fmt: skip
    return found


def _named(row: Tried) -> str:
    return f"{'FedAvg' if row.rule == 'none' else f'{row.rule} {row.ratio:.0%}'}, E = {row.epochs}"


def summary(rows: list[Tried], judged: list[dict[str, object]]) -> dict[str, float]:
    """Return errors of predicted rounds, coverage of intervals, ranks, and how good the choice is."""
    runs = {(r.population, r.rule, r.ratio, r.epochs): r for r in rows}.values()
    met = [r for r in runs if r.met]
    errors = [0.0 if abs(r.predicted_rounds - r.rounds) < 1 else abs(r.predicted_rounds / r.rounds - 1) for r in met]
    # A run that ended before its target contradicts an interval only if that ended earlier.
    inside = [r.low <= r.rounds <= r.high if r.met else r.rounds < r.high for r in runs]
    regrets = np.array([float(one["chosen_s"]) / float(one["best_s"]) for one in judged])  # type: ignore[arg-type]
    gains = [float(one["alone_s"]) / float(one["chosen_s"]) for one in judged]  # type: ignore[arg-type]
    return {
        "scenarios": len(judged), "runs": len(runs), "met": len(met),
        "median error, %": 100 * float(np.median(errors)), "90th percentile, %": 100 * float(np.quantile(errors, 0.9)),
        "coverage of 90 % intervals, %": 100 * float(np.mean(inside)),
        "median rank correlation": float(np.median([one["rank_correlation"] for one in judged])),  # type: ignore[arg-type]
        "choice within 10 % of the best, %": 100 * float(np.mean(regrets <= 1.1)),
        "choice within 20 % of the best, %": 100 * float(np.mean(regrets <= 1.2)),
        "median loss, %": 100 * (float(np.median(regrets)) - 1),
        "median speed-up over FedAvg at its best": float(np.median(gains)),
    }  # fmt: skip


_INTRODUCTION = """# Predictions against training

Made by `python studies/rounds/predict.py` from training runs that no fit has seen. A scenario is a population with one
setting of devices and radio. In each, FedAvg and rules daca, gain and blend at 5, 20 and 100 % of a head's samples were
trained with four numbers of local epochs: 36 to 40 strategies, one run each, at the learning rate that is best for
FedAvg. The targets are 95 % on MNIST and 85 % on digits. An error below one round counts as 0.
"""
_SCENARIOS = """
Choices are judged by single runs: the best of 40 noisy runs is partly luck, which no plan can foresee.

## Scenarios

Simulated seconds to the target: of what a plan would choose of the 40, with its prediction, of the best of the 40, and
of FedAvg at its best.

| data | setting | chosen | predicted | trained | best of all | trained | FedAvg at its best | trained |
|---|---|---|---|---|---|---|---|---|
"""
_NAMES = {"mnist": "MNIST", "digits": "digits"}


def page(summaries: dict[str, dict[str, float]], judged: list[dict[str, object]]) -> str:
    """Return the page."""
    head = "| | " + " | ".join(_NAMES[one] for one in summaries) + " |\n|---|" + "---|" * len(summaries) + "\n"
    rows = [
        f"| {key} | " + " | ".join(_shown(values[key]) for values in summaries.values()) + " |\n"
        for key in next(iter(summaries.values()))
    ]
    return "\n".join([_INTRODUCTION, head + "".join(rows) + _SCENARIOS]).rstrip("\n") + "\n" + _table(judged)


def _shown(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.2f}" if value < 10 else f"{value:.0f}"


def _table(judged: list[dict[str, object]]) -> str:
    lines = []
    for one in judged:
        cells = [f"{_NAMES[str(one['dataset'])]}, {one['population']}", one["setting"]]
        for name, *keys in (("chosen", "predicted_s", "chosen_s"), ("best", "best_s"), ("alone", "alone_s")):
            times = [float(one[key]) for key in keys]  # type: ignore[arg-type]
            cells += [one[name], *("not met" if np.isinf(time) else f"{time:,.3g} s" for time in times)]
        lines.append(f"| {' | '.join(map(str, cells))} |\n")
    return "".join(lines)


if __name__ == "__main__":
    found = [row for dataset in LADDERS for row in tried(dataset)]
    judged = scenarios(found)
    summaries = {
        dataset: summary(
            [r for r in found if r.dataset == dataset], [one for one in judged if one["dataset"] == dataset]
        )
        for dataset in LADDERS
    }
    print(json.dumps(summaries, indent=1))
    PAGE.write_text(page(summaries, judged))
