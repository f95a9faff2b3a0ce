"""Parts of a gain: no sharing → control (more work) → strategy (less skew), with paired intervals over seeds."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from fedcast.formatting import difference, mean_and_interval
from fedcast.runs.comparison import TO_TARGET, Score, scores_of
from fedcast.runs.seed_statistics import Interval, PairedTest, interval, interval_columns, paired_test
from fedcast.runs.stored_run import RunsLike, as_runs
from fedcast.runs.strategies import Strategy

PARTS = ("work", "skew", "total")


@dataclass(frozen=True)
class Gain:
    """The gain of a strategy in one measure, in two parts that add up.

    All numbers are over the same seeds: those that have all three runs; for rounds and time, those in which all three
    reached the target.
    """

    strategy: Strategy
    control: Strategy  #: as much work a round, nothing shared
    measure: str  #: rounds or total_s (both to the target), or accuracy (after the last round)
    seeds: tuple[int, ...]  #: ascending
    without: Interval  #: without sharing, by the same algorithm
    work: PairedTest  #: control minus no sharing
    skew: PairedTest  #: strategy minus control
    total: PairedTest  #: strategy minus no sharing
    shared: Interval  #: with sharing
    local_epochs: tuple[float, float]  #: without and with sharing, means over the seeds

    def text(self, part: str, unit: str = "") -> tuple[str, str | None]:
        """Return one of the parts formatted, and the half width of a difference; all with the same SI prefix."""
        value, largest = getattr(self, part), max(self.without.mean, self.shared.mean)
        if part in ("without", "shared"):
            return mean_and_interval(value.mean, None, unit, largest)
        return difference(value.difference.mean, value.difference.half_width, unit, largest)


def gains(runs: RunsLike, tuned: Collection[str] = ()) -> list[Gain]:
    """Return the gain of each strategy that has a control, in rounds, time and accuracy.

    Runs and `tuned` are those that `compare` takes, in any order. A gain needs runs of the strategy, of its control and
    of its algorithm without sharing on the same seeds; others are left out.
    """
    scores, found = scores_of(as_runs(runs), tuned=tuned), []
    for strategy in (one for one in scores if not one.control):
        for control in (one for one in scores if one.control and replace(one, sharing=strategy.sharing) == strategy):
            without = scores.get(strategy.without_sharing, {})
            for measure in (*TO_TARGET, "accuracy"):
                courses = without, scores[control], scores[strategy]
                common = sorted(set.intersection(*map(set, courses)))
                if measure in TO_TARGET:
                    common = [seed for seed in common if all(course[seed].reached for course in courses)]
                if seeds := tuple(common):
                    start, middle, end = ([course[seed].measure(measure) for seed in seeds] for course in courses)
                    tests = paired_test(middle, start), paired_test(end, middle), paired_test(end, start)
                    ends = interval(start), *tests, interval(end)
                    epochs = _epochs(without, seeds), _epochs(scores[strategy], seeds)
                    found.append(Gain(strategy, control, measure, seeds, *ends, epochs))
    return found


def _epochs(scores: Mapping[int, Score], seeds: Sequence[int]) -> float:
    return fmean(scores[seed].local_epochs for seed in seeds)


def epochs_notes(gains: Iterable[Gain]) -> list[str]:
    """Return a sentence for each strategy that has other local epochs than no sharing, so that these count as work."""
    differ = {gain.strategy: gain for gain in gains if gain.measure == "accuracy" and len(set(gain.local_epochs)) > 1}
    return [
        f"{strategy.name} has {gain.local_epochs[1]:.3g} local epochs on average, {strategy.without_sharing.name} "
        f"{gain.local_epochs[0]:.3g}: more work includes the difference; give one number to training.local_epochs to "
        "leave it out."
        for strategy, gain in differ.items()
    ]


def gains_table(found: Sequence[Gain]) -> dict[str, list[Any]]:
    """Return gains as columns of a table: means over seeds, and differences with half widths and p-values."""
    table: dict[str, list[Any]] = {
        "strategy": [gain.strategy.name for gain in found],
        "control": [gain.control.control for gain in found],
        "measure": [gain.measure for gain in found],
        "seeds": [len(gain.seeds) for gain in found],
        "without_sharing": [gain.without.mean for gain in found],
    }
    for part in PARTS:
        tests: list[PairedTest] = [getattr(gain, part) for gain in found]
        table |= interval_columns(part, [test.difference for test in tests])
        table[f"{part}_p_value"] = [test.p_value for test in tests]
    return table | {"with_sharing": [gain.shared.mean for gain in found]}
