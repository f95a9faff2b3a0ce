"""Means over seeds, and rows of tables from the runs of several seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from fedcast_paper.trained import Trained

# A learning curve has at most this many points, as many as a small figure can show.
_POINTS = 50
# Accuracy varies between rounds by as much as strategies differ; the mean of this many rounds does not.
LAST_ROUNDS = 10
_FACTS = (
    "emd_before", "emd_after", "js_after", "shift", "heads", "members", "sent_samples", "received_samples",
    "average_sharing_ratio",
)  # fmt: skip


class Mean(NamedTuple):
    """A mean over seeds with its 95 % confidence interval, mean ± half_width; None for one seed."""

    mean: float
    half_width: float | None
    seeds: int

    def __str__(self) -> str:
        """Round to the first digit of the interval."""
        if not self.half_width:
            return f"{self.mean:.4g}"
        digits = max(0, -math.floor(math.log10(self.half_width)))
        return f"{self.mean:z.{digits}f} ± {self.half_width:.{digits}f}"


def mean_of(values: Iterable[float]) -> Mean:
    """Return the mean over seeds.

    Example:
        >>> str(mean_of([0.01, 0.02, 0.033]))
        '0.02 ± 0.03'
    """
    from fedcast.runs import interval

    found = interval(list(values))
    return Mean(found.mean, found.half_width, found.count)


def run_row(run: Trained, **labels: Any) -> dict[str, Any]:
    """Return the row of one run: rule, seed, what was shared, and final accuracy."""
    facts = {name: run.facts[name] for name in _FACTS}
    return {**labels, "rule": run.rule, "seed": run.seed, **facts, "accuracy": run.accuracy}


def curve_rows(runs: Sequence[Trained], **labels: Any) -> list[dict[str, Any]]:
    """Return test loss and accuracy of the global model and local training loss by round, as means over the runs."""
    rows = []
    for number in _rounds_shown(len(runs[0].curve("accuracy"))):
        accuracy = mean_of(run.curve("accuracy")[number] for run in runs)
        loss = mean_of(run.curve("test_loss")[number] for run in runs)
        local = None if number == 0 else mean_of(run.curve("train_loss")[number - 1] for run in runs).mean
        rows.append(
            {
                **labels,
                "round": number,
                "loss": loss.mean,
                "loss_half_width": loss.half_width,
                "accuracy": accuracy.mean,
                "accuracy_half_width": accuracy.half_width,
                "local_loss": local,
            }
        )
    return rows


def gain_rows(runs: Sequence[Trained], baseline: Iterable[Trained], **labels: Any) -> list[dict[str, Any]]:
    """Return the accuracy above the baseline in points by round, as the mean over common seeds; None without any."""
    pairs = [(own.curve("accuracy"), other.curve("accuracy")) for own, other in pairs_by_seed(runs, baseline)]
    rows = []
    for number in _rounds_shown(len(runs[0].curve("accuracy"))):
        gain = mean_of(100 * (own[number] - other[number]) for own, other in pairs) if pairs else None
        rows.append(
            {**labels, "round": number, "gain": gain and gain.mean, "gain_half_width": gain and gain.half_width}
        )
    return rows


def late_accuracy(run: Trained) -> float:
    """Return the test accuracy, averaged over the last ten rounds."""
    late = run.curve("accuracy")[1:][-LAST_ROUNDS:]
    return sum(late) / len(late)


def mean_loss(run: Trained) -> float:
    """Return the test loss of the global model, averaged over all rounds: small if the loss falls fast and far."""
    losses = run.curve("test_loss")[1:]
    return sum(losses) / len(losses)


def pairs_by_seed(first: Iterable[Trained], second: Iterable[Trained]) -> list[tuple[Trained, Trained]]:
    """Return pairs of runs, one for each seed that both sets have."""
    ones, others = ({run.seed: run for run in runs} for runs in (first, second))
    return [(ones[seed], others[seed]) for seed in sorted(ones.keys() & others.keys())]


def differences(
    first: Iterable[Trained], second: Iterable[Trained], value: Callable[[Trained], float | None]
) -> list[float]:
    """Return first minus second for each seed for which both have the value."""
    pairs = [(value(one), value(other)) for one, other in pairs_by_seed(first, second)]
    return [one - other for one, other in pairs if one is not None and other is not None]


def _rounds_shown(rounds: int) -> list[int]:
    step = max(1, (rounds - 1) // _POINTS)
    return [*range(0, rounds, step)]
