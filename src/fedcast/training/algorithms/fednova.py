"""FedNova (Wang et al. 2020): users with more local steps do not weigh more than their data."""

from __future__ import annotations

from fedcast.registry import NoOptions
from fedcast.training.algorithms import Algorithm, State, Tensors, Upload, weighted_sum


def _collect(_: NoOptions, upload: Upload) -> tuple[State, State]:
    per_step = weighted_sum(upload.shares / upload.steps, upload.change)
    return {}, {"per_step": per_step, "steps": [(upload.shares * upload.steps).sum()]}


def _change(_: NoOptions, __: Tensors, sums: State, server: State) -> tuple[Tensors, State]:
    """Return the mean change per step times the mean number of steps."""
    (steps,) = sums["steps"]
    return [moved * steps.to(moved.dtype) for moved in sums["per_step"]], server


ALGORITHM = Algorithm(
    "FedNova: changes are averaged per local step, so that users with more steps weigh no more",
    collect=_collect,
    change=_change,
)
