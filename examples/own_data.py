"""Your own arrays: divide them among users, plan who shares what, and train without and with sharing.

Images [n, h, w] or [n, c, h, w] and vectors [n, features] are supported. On the command line, data come from a file:
np.savez("mine.npz", inputs=..., labels=...), then `fedcast run --set data.dataset=file --set data.file=mine.npz`.
"""

import numpy as np

import fedcast

# Stand-in for your data: 3,000 measurements of a machine that is in one of four states.
rng = np.random.default_rng(0)
labels = rng.integers(0, 4, 3000)
inputs = rng.normal(rng.normal(0, 1, (4, 64))[labels], 2)
mine = fedcast.dataset_from_arrays(inputs, labels, class_names=("idle", "normal", "worn", "broken"))

for rule in ("none", "blend"):
    # Parameters that are not set keep their default; `fedcast init scenario.toml` lists all of them.
    settings = [
        f"clustering.rule={rule}",
        "data.dataset=file",  # not one of the built-in datasets
        "data.num_users=30",
        "data.partition=dirichlet",
        "data.dirichlet.alpha=0.1",  # small: most users hold few of the states
        "training.model=mlp",
        "training.local_epochs=2",
        "training.learning_rate=0.1",
        "training.rounds=20",
    ]
    scenario = fedcast.load_scenario(overrides=settings)
    population = fedcast.populate(mine, scenario.data, scenario.seed)
    world = fedcast.make_world(scenario, population=population)

    plan = fedcast.make_plan(scenario, world=world, with_curve=False)
    last = fedcast.train_scenario(scenario, world=world).history.records[-1]
    print(f"{rule:5} {len(plan.heads)} heads, average EMD {plan.emd_before:.2f} -> {plan.emd_after:.2f}, ", end="")
    print(f"accuracy {last.accuracy:.3f} after {last.round} rounds and {last.seconds:.1f} simulated seconds")
