"""Compare three rules over three seeds: means with 95 % confidence intervals, and a paired test against FedAvg.

The command line does the same and writes a report: `fedcast compare --rules none,daca,blend --seeds 3`.
"""

import tempfile
from pathlib import Path

import fedcast


def main() -> None:
    """Train every combination on two processes, then compare."""
    small = ["data.num_users=20", "data.partition=dirichlet", "training.rounds=10", "training.local_epochs=2"]
    scenario = fedcast.load_scenario(base="digits", overrides=small)
    scenarios = fedcast.grid(scenario, rules=["none", "daca", "blend"], seeds=range(3))
    store = Path(tempfile.mkdtemp())  # with a permanent folder, finished runs would be reused
    folders = fedcast.sweep(scenarios, store, workers=2)

    print(f"{'rule':8}{'EMD after':>16}{'accuracy':>18}{'p':>8}")
    for row in fedcast.compare(fedcast.load_run(folder) for folder in folders):
        emd, accuracy = row.measures["emd_after"], row.measures["accuracy"]
        test = row.tests.get("accuracy")
        p_value = f"{test.p_value:.3f}" if test and test.p_value is not None else ""
        print(
            f"{row.strategy.name:8}{emd.mean:8.3f} ± {emd.half_width:.3f}"
            f"{accuracy.mean:10.3f} ± {accuracy.half_width:.3f}{p_value:>8}"
        )


# Worker processes import this file; without this line each would start a sweep of its own.
if __name__ == "__main__":
    main()
