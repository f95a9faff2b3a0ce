"""Beyond the paper: how far users drift apart with epochs and skew, and how far skew moves the global model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedcast.report.figures.palette import colour
from fedcast.scenario import Scenario, load_scenario
from fedcast_paper.drawing import dress, legend, new_figure
from fedcast_paper.job import Job
from fedcast_paper.measures import rank_correlation
from fedcast_paper.over_seeds import mean_of
from fedcast_paper.result import Columns, Result, Verdict, columns_of, where
from fedcast_paper.settings import assumptions, label_skew, scenario, shared_by, task
from fedcast_paper.trained import Trained, trained_runs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fedcast.training import Tensors

PAPER = (
    "No figure: the bound of Theorem 2 grows with the local epochs E and with the average EMD, through the drift of "
    "users and the divergence of the global weights from those of IID data."
)
EPOCHS = (1, 2, 5)
SHARES = (0.0, 0.5, 0.8, 1.0)
# Drift is compared over the first rounds, before any course has converged.
ROUNDS = 10
DIVERGENCE_SHARES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
DIVERGENCE_ROUNDS = 20


def scenarios(job: Job) -> list[Scenario]:
    """Plain FedAvg at several skews and numbers of epochs; one epoch is Fig. 1a's longer run."""
    seeds = job.seeds_or(smoke=1, full=3)
    return [
        scenario(job, *_setting(job, share, epochs), *shared_by("none"), f"seed={seed}")
        for epochs in EPOCHS
        for share in SHARES
        for seed in seeds
    ]


def divergence_scenarios(job: Job) -> list[Scenario]:
    """Digits, whose weights are small enough to be kept: IID and ever more one-class users, from the same start."""
    seeds = job.seeds_or(smoke=1, full=5)
    size = job.sized(smoke=task(job, "mnist"), full=(f"training.rounds={DIVERGENCE_ROUNDS}",))
    return [
        load_scenario(base="digits", overrides=[*size, *label_skew(share), "clustering.rule=none", f"seed={seed}"])
        for share in DIVERGENCE_SHARES
        for seed in seeds
    ]


def data(job: Job) -> Result:
    """Drift of every run on MNIST, divergence of every run on digits."""
    runs = trained_runs(job, scenarios(job))
    drifts = columns_of(_drift_row(run) for run in runs)
    divergences = columns_of(_divergences(job))
    return Result(
        tables={"drift": drifts, "divergence": divergences},
        scenario=runs[0].scenario.model_dump(mode="json"),
        assumptions=assumptions(
            job, runs,
            drift=f"root mean square over users of ‖w_k − w‖ after local training, mean of rounds 1 to {ROUNDS}",
            divergence="preset digits: ‖w − w_IID‖ / ‖w_IID‖ of the global models after the last round, from the same "
            "first weights, seed by seed; w_IID is trained on users of all classes",
        ),
        verdicts=(_drift_verdict(drifts), _divergence_verdict(divergences)),
    )  # fmt: skip


def _setting(job: Job, share: float, epochs: int) -> tuple[str, ...]:
    rounds = ROUNDS if epochs > 1 else None
    return (*task(job, "mnist", *label_skew(share), rounds=rounds), f"training.local_epochs={epochs}")


def _drift_row(run: Trained) -> dict[str, Any]:
    drifts = run.curve("drift")[:ROUNDS]
    return {
        "one_class_share": run.scenario.data.single_class_share,
        "epochs": run.scenario.training.local_epochs,
        "seed": run.seed,
        "emd": run.facts["emd_after"],
        "drift": sum(drifts) / len(drifts),
    }


def _divergences(job: Job) -> list[dict[str, Any]]:
    """Each run against the IID run of its seed; both leave their weights in their folders."""
    from fedcast.runs.store import load_run
    from fedcast.runs.sweep import sweep

    folders = sweep(divergence_scenarios(job), job.store, data_dir=job.data_dir, workers=job.workers)
    stored = [load_run(folder) for folder in folders]
    iid = {run.scenario.seed: run.folder for run in stored if run.scenario.data.single_class_share == 0.0}
    return [
        {
            "one_class_share": run.scenario.data.single_class_share,
            "seed": run.scenario.seed,
            "emd": run.facts.emd_after,
            "divergence": relative_distance(_weights(run.folder), _weights(iid[run.scenario.seed])),
        }
        for run in stored
        if run.scenario.data.single_class_share > 0.0
    ]


def _weights(folder: Path) -> Tensors:
    import torch

    weights: Tensors = torch.load(folder / "checkpoint.pt", map_location="cpu", weights_only=True)["weights"]
    return weights


def relative_distance(weights: Tensors, others: Tensors) -> float:
    """‖w − v‖ / ‖v‖ over all weights."""
    apart = sum(float((one - other).double().square().sum()) for one, other in zip(weights, others, strict=True))
    size = sum(float(other.double().square().sum()) for other in others)
    return float((apart / size) ** 0.5)


def _drift_verdict(table: Columns) -> Verdict:
    there = [epochs for epochs in EPOCHS if epochs in table["epochs"]]
    by_epochs = {epochs: rank_correlation(*_pairs(where(table, epochs=epochs), "drift")) for epochs in there}
    grows = len(there) > 1 and _grows_with_epochs(table)
    rises = [relation.rises for relation in by_epochs.values()]
    said = ", ".join(f"E = {epochs}: {relation}" for epochs, relation in by_epochs.items())
    return Verdict(
        "users drift apart more with more local epochs and a larger average EMD",
        "yes" if grows and all(rises) else "partly" if grows or any(rises) else "no",
        f"drift grows with E at every skew: {'yes' if grows else 'no'}; rank correlation with the EMD {said}",
    )


def _grows_with_epochs(table: Columns) -> bool:
    for share in set(table["one_class_share"]):
        means = [where(table, one_class_share=share, epochs=epochs)["drift"] for epochs in EPOCHS]
        known = [mean_of(values).mean for values in means if values]
        if known != sorted(known):
            return False
    return True


def _divergence_verdict(table: Columns) -> Verdict:
    relation = rank_correlation(*_pairs(table, "divergence"))
    return Verdict(
        "the global weights move away from those of IID data as the average EMD grows",
        "yes" if relation.rises else "no",
        f"rank correlation {relation} over {len(table['emd'])} runs",
    )


def _pairs(table: Columns, value: str) -> tuple[Sequence[float], Sequence[float]]:
    return table["emd"], table[value]


def draw(result: Result) -> Figure:
    """Drift against the EMD for each number of epochs, and divergence against the EMD."""
    drifts, divergences = result.tables["drift"], result.tables["divergence"]
    figure = new_figure(9.6, 3.6)
    left, right = figure.subplots(1, 2)
    for place, epochs in enumerate(EPOCHS, start=1):
        rows = where(drifts, epochs=epochs)
        left.scatter(rows["emd"], rows["drift"], s=18, color=colour(place), label=f"E = {epochs}")
    right.scatter(divergences["emd"], divergences["divergence"], s=18, color=colour(1))
    left.set_ylim(bottom=0)
    right.set_ylim(bottom=0)
    dress(left, title=f"drift of users, mean of rounds 1 to {ROUNDS}", x="average EMD")
    dress(right, title="divergence of the global weights from IID (digits)", x="average EMD")
    legend(left)
    return figure
