"""Additional result: drift of local models with epochs and skew, and divergence of the global model with skew."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedcast.report import Axis, Dots, Figure, Panel
from fedcast.scenario import Scenario, load_scenario
from fedcast_paper.figure_parts import WIDE_PT
from fedcast_paper.job import Job, Reproduction
from fedcast_paper.over_seeds import mean_of
from fedcast_paper.reproduction_result import Columns, Result, Verdict, columns_of, where
from fedcast_paper.text_tables import ABSENT, Row, mean_text
from fedcast_paper.trained import Trained, trained_runs
from fedcast_paper.training_setting import assumptions, label_skew, scenario, shared_by, task
from fedcast_paper.verdicts import rank_correlation

if TYPE_CHECKING:
    from torch import Tensor

PAPER = (
    "No figure: the bound of Theorem 2 grows with the local epochs E and with the average EMD, through the drift of "
    "users and the divergence of the global weights from those of IID data."
)
WHY = (
    "Drift grows with the local epochs. With the EMD it grows only for short local training, since a one-class user "
    "soon has nothing left to learn."
)
EPOCHS = (1, 2, 5)
SHARES = (0.0, 0.5, 0.8, 1.0)
# Drift is compared over the first rounds, before any run has converged.
ROUNDS = 10
DIVERGENCE_SHARES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
DIVERGENCE_ROUNDS = 20


def scenarios(job: Job) -> list[Scenario]:
    """Return runs of FedAvg at several degrees of skew and numbers of epochs; those with one epoch are from Fig. 1a."""
    seeds = job.seeds_or(smoke=1, full=3)
    return [
        scenario(job, *_setting(job, share, epochs), *shared_by("none"), f"seed={seed}")
        for epochs in EPOCHS
        for share in SHARES
        for seed in seeds
    ]


def divergence_scenarios(job: Job) -> list[Scenario]:
    """Return runs on digits, whose weights are small enough to be stored: IID and with one-class users."""
    seeds = job.seeds_or(smoke=1, full=5)
    size = job.sized(smoke=task(job, "mnist"), full=(f"training.rounds={DIVERGENCE_ROUNDS}",))
    return [
        load_scenario(base="digits", overrides=[*size, *label_skew(share), "clustering.rule=none", f"seed={seed}"])
        for share in DIVERGENCE_SHARES
        for seed in seeds
    ]


def data(job: Job) -> Result:
    """Compute the drift of every run on MNIST and the divergence of every run on digits."""
    runs = trained_runs(job, scenarios(job))
    drifts = columns_of(_drift_row(run) for run in runs)
    divergences = columns_of(_divergences(job))
    return Result(
        tables={"drift": drifts, "divergence": divergences},
        scenario=runs[0].scenario.model_dump(mode="json"),
        assumptions=assumptions(
            job, runs,
            drift=f"root mean square over users of ‖w_k − w‖ after local training, mean of rounds 1 to {ROUNDS}",
            divergence="preset digits: ‖w − w_IID‖ / ‖w_IID‖ of the global models after the last round, with the same "
            "initial weights for each seed; w_IID is trained on IID users",
        ),
        verdicts=(_drift_verdict(drifts), _divergence_verdict(divergences)),
    )  # fmt: skip


def _setting(job: Job, share: float, epochs: int) -> tuple[str, ...]:
    rounds = ROUNDS if epochs > 1 else None
    return (*task(job, "mnist", *label_skew(share), rounds=rounds), f"training.local_epochs={epochs}")


def _drift_row(run: Trained) -> dict[str, Any]:
    drifts = run.curve("drift")[:ROUNDS]
    return {
        "one_class_share": _one_class_share(run),
        "epochs": run.scenario.training.local_epochs,
        "seed": run.seed,
        "emd": run.facts["emd_after"],
        "drift": sum(drifts) / len(drifts),
    }


def _divergences(job: Job) -> list[dict[str, Any]]:
    """Compare the stored weights of each run with those of the IID run of its seed."""
    from fedcast import sweep
    from fedcast.runs import load_run

    folders = sweep(divergence_scenarios(job), job.store, data_dir=job.data_dir, workers=job.workers)
    stored = [load_run(folder) for folder in folders]
    iid = {run.scenario.seed: run.folder for run in stored if _one_class_share(run) == 0.0}
    return [
        {
            "one_class_share": _one_class_share(run),
            "seed": run.scenario.seed,
            "emd": run.facts.emd_after,
            "divergence": relative_distance(_weights(run.folder), _weights(iid[run.scenario.seed])),
        }
        for run in stored
        if _one_class_share(run) > 0.0
    ]


def _weights(folder: Path) -> Sequence[Tensor]:
    import torch

    weights: Sequence[Tensor] = torch.load(folder / "checkpoint.pt", map_location="cpu", weights_only=True)["weights"]
    return weights


def relative_distance(weights: Sequence[Tensor], others: Sequence[Tensor]) -> float:
    """Return ‖w − v‖ / ‖v‖ over all weights."""
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
        "the drift of local models grows with the local epochs and the average EMD",
        "yes" if grows and all(rises) else "partly" if grows or any(rises) else "no",
        f"drift grows with E at every degree of skew: {'yes' if grows else 'no'}; rank correlation with the EMD {said}",
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
        "the divergence of the global weights from those of IID data grows with the average EMD",
        "yes" if relation.rises else "no",
        f"rank correlation {relation} over {len(table['emd'])} runs",
    )


def _pairs(table: Columns, value: str) -> tuple[Sequence[float], Sequence[float]]:
    return table["emd"], table[value]


def draw(result: Result) -> Figure:
    """Draw drift against the EMD for each number of epochs, and divergence against the EMD."""
    tables = {epochs: where(result.tables["drift"], epochs=epochs) for epochs in EPOCHS}
    drifts = [
        Dots(rows["emd"], rows["drift"], place, label=f"E = {epochs}")
        for place, (epochs, rows) in enumerate(tables.items(), start=1)
    ]
    divergences = Dots(result.tables["divergence"]["emd"], result.tables["divergence"]["divergence"])
    x, y = Axis("average EMD"), Axis(limits=(0, None))
    left = Panel(drifts, x, y, f"drift of users, mean of rounds 1 to {ROUNDS}", legend=True)
    return Figure(
        [[left, Panel([divergences], x, y, "divergence of the global weights from IID (digits)")]], width=WIDE_PT
    )


def summary(result: Result) -> list[Row]:
    """Return the mean drift for each fraction of one-class users and number of epochs."""
    table = result.tables["drift"]
    rows = []
    for share in sorted(set(table["one_class_share"])):
        drifts = {
            epochs: where(table, one_class_share=share, epochs=epochs)["drift"]
            for epochs in sorted(set(table["epochs"]))
        }
        cells = {f"drift, E = {epochs}": mean_text(some, ".3f") if some else ABSENT for epochs, some in drifts.items()}
        rows.append({"one-class users": f"{share:.0%}", **cells})
    return rows


def _one_class_share(run: Any) -> float:
    return float(run.scenario.data.options("partition").single_class_share)


REPRODUCTION = Reproduction(
    "drift and divergence against epochs and skew", PAPER, WHY, data, draw, scenarios=scenarios, summary=summary
)
