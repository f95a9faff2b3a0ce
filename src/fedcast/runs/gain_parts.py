"""Parts of a gain: no sharing → control (more work) → strategy (less skew), with paired intervals over seeds."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fedcast.formatting import difference, mean_and_interval
from fedcast.runs.comparison import TO_TARGET, scores_of
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
                    found.append(Gain(strategy, control, measure, seeds, interval(start), *tests, interval(end)))
    return found


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
