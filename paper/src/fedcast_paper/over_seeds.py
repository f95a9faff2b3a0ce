"""Runs of several seeds as rows of a table: one row per run, mean courses, and differences seed by seed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from fedcast_paper.trained import Trained

# A course has at most so many points: as many as a small figure shows.
_POINTS = 50
# A single round moves accuracy by as much as strategies differ; the mean of so many does not.
LAST_ROUNDS = 10
_FACTS = (
    "emd_before", "emd_after", "js_after", "shift", "heads", "members", "sent_samples", "received_samples",
    "average_sharing_ratio",
)  # fmt: skip


class Mean(NamedTuple):
    """A mean over seeds with its 95 % interval, mean ± half_width; no interval for one seed."""

    mean: float
    half_width: float | None
    seeds: int

    def __str__(self) -> str:
        """To the digit that the interval leaves certain."""
        if not self.half_width:
            return f"{self.mean:.4g}"
        digits = max(0, -math.floor(math.log10(self.half_width)))
        return f"{self.mean:z.{digits}f} ± {self.half_width:.{digits}f}"


def mean_of(values: Iterable[float]) -> Mean:
    """The mean over seeds.

    Example:
        >>> str(mean_of([0.01, 0.02, 0.033]))
        '0.02 ± 0.03'
    """
    from fedcast.runs.comparison import interval

    found = interval(list(values))
    return Mean(found.mean, found.half_width, found.count)


def run_row(run: Trained, **labels: Any) -> dict[str, Any]:
    """One run: what it was, how far it shared, where it ended."""
    facts = {name: run.facts[name] for name in _FACTS}
    return {**labels, "rule": run.rule, "seed": run.seed, **facts, "accuracy": run.accuracy}


def course_rows(runs: Sequence[Trained], **labels: Any) -> list[dict[str, Any]]:
    """Loss and accuracy of the global model over the rounds, mean over the runs, and the loss of local steps."""
    rows = []
    for number in _shown(len(runs[0].curve("accuracy"))):
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
    """Points of accuracy above other runs over the rounds, mean over the seeds that both have; None without such."""
    pairs = [(own.curve("accuracy"), other.curve("accuracy")) for own, other in side_by_side(runs, baseline)]
    rows = []
    for number in _shown(len(runs[0].curve("accuracy"))):
        gain = mean_of(100 * (own[number] - other[number]) for own, other in pairs) if pairs else None
        rows.append(
            {**labels, "round": number, "gain": gain and gain.mean, "gain_half_width": gain and gain.half_width}
        )
    return rows


def late_accuracy(run: Trained) -> float:
    """Accuracy on the test set, mean over the last ten rounds."""
    late = run.curve("accuracy")[1:][-LAST_ROUNDS:]
    return sum(late) / len(late)


def mean_loss(run: Trained) -> float:
    """The global model's loss on the test set, mean over all rounds of training: small if it falls soon and far."""
    losses = run.curve("test_loss")[1:]
    return sum(losses) / len(losses)


def side_by_side(first: Iterable[Trained], second: Iterable[Trained]) -> list[tuple[Trained, Trained]]:
    """Two sets of runs in pairs, one for each seed that both have."""
    ones, others = ({run.seed: run for run in runs} for runs in (first, second))
    return [(ones[seed], others[seed]) for seed in sorted(ones.keys() & others.keys())]


def differences(
    first: Iterable[Trained], second: Iterable[Trained], value: Callable[[Trained], float | None]
) -> list[float]:
    """First minus second, over the seeds for which both have the value."""
    pairs = [(value(one), value(other)) for one, other in side_by_side(first, second)]
    return [one - other for one, other in pairs if one is not None and other is not None]


def _shown(rounds: int) -> list[int]:
    step = max(1, (rounds - 1) // _POINTS)
    return [*range(0, rounds, step)]
