"""Measure the cost of splitting the problem: every clustering with its best volumes, against the plan, for few users.

    python studies/decomposition/brute_force.py --users 5 --seeds 6

The paper splits its problem P0 into clustering and allocation. Here all clusterings of a small world are tried, each
with the allocation of `jfvo`, and the best is compared with what `make_plan` finds with each rule.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from fedcast.clustering import Clustering
from fedcast.plan import World, make_plan, make_world
from fedcast.plan.candidates import delay_of
from fedcast.plan.search import Search
from fedcast.scenario import Scenario, load_scenario

RULES = ("daca", "gain", "blend", "scc", "cec")


def small_world(num_users: int, seed: int) -> tuple[Scenario, World]:
    scenario = load_scenario(
        overrides=[
            "data.dataset=synthetic", f"data.num_users={num_users}", "data.partition=dirichlet",
            "data.dirichlet.alpha=0.3",
            "training.model=cnn", "geometry.cell_radius_m=400", "rounds.fit=mnist-0.95", f"seed={seed}",
            "rounds.form=paper", "rounds.target_accuracy=0.95", "training.local_epochs=1", "clustering.composition=own",
        ]
    )  # fmt: skip
    return scenario, make_world(scenario)


def clusterings(world: World) -> Iterator[np.ndarray]:
    """Yield every way in which each user has no head or a linked one, and heads have none."""
    users = range(world.graph.num_users)
    choices = [[-1, *world.graph.neighbours[world.graph.links_of(user)].tolist()] for user in users]
    for heads in itertools.product(*choices):
        if all(head < 0 or heads[head] < 0 for head in heads):
            yield np.array(heads)


def best_of_all(world: World) -> tuple[float, int]:
    """Return the least expected delay over all clusterings, and how many there are."""
    search = Search(world)
    found = [search.at("exact", Clustering(world.problem(), heads), 1) for heads in clusterings(world)]
    delays = [delay_of(candidate) for candidate in found if candidate is not None]
    return min(delays), len(found)


def losses(num_users: int, seed: int) -> dict[str, float]:
    """By which share each rule's plan is above the best of all."""
    scenario, world = small_world(num_users, seed)
    best, count = best_of_all(world)
    found = {"clusterings": float(count), "best_s": best}
    for rule in RULES:
        chosen = scenario.model_copy(update={"clustering": scenario.clustering.model_copy(update={"rule": rule})})
        plan = make_plan(chosen, world=replace(world, scenario=chosen), with_curve=False)
        found[rule] = plan.delay.total_s / best - 1
    found["none"] = plan.without.delay_s / best - 1
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = []
    for seed in range(options.seeds):
        rows.append(losses(options.users, seed))
        print(seed, {key: round(value, 4) for key, value in rows[-1].items()}, flush=True)
    for rule in (*RULES, "none"):
        values = 100 * np.array([row[rule] for row in rows])
        print(f"{rule}: mean {values.mean():.2f} %, largest {values.max():.2f} % above the best of all clusterings")
    if options.json:
        options.json.write_text(json.dumps({"users": options.users, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
