"""What a report is made of: the runs in order, their comparison, and which of them are shown from inside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from fedcast.runs.comparison import Row, Score, Strategy, compare, score
from fedcast.runs.store import StoredRun
from fedcast.scenario import Scenario

# A page stays small and quick with so many runs shown from inside, and so many users on all their maps.
_MAX_INSIDE = 9
_MAX_ON_MAPS = 6_000
_MAX_ON_A_MAP = 1_500


@dataclass(frozen=True, eq=False)
class Content:
    """Runs and what they came to.

    Attributes:
        runs: by strategy, then by seed; each once.
        rows: one per strategy, FedAvg first.
    """

    runs: tuple[StoredRun, ...]
    rows: tuple[Row, ...]

    @property
    def scenario(self) -> Scenario:
        """Of the first run; the others differ in strategy and seed alone."""
        return self.runs[0].scenario

    @property
    def target(self) -> float:
        """Accuracy to be reached."""
        return self.scenario.rounds.target_accuracy

    @property
    def seeds(self) -> list[int]:
        """Of all runs, ascending."""
        return sorted({run.scenario.seed for run in self.runs})

    @cached_property
    def scores(self) -> dict[StoredRun, Score]:
        """What each run came to."""
        return {run: score(run) for run in self.runs}

    @cached_property
    def series(self) -> dict[Strategy, int]:
        """Number of each strategy, which decides its colour; 0 is kept for FedAvg."""
        first = 0 if self.rows[0].strategy.is_baseline else 1
        return {row.strategy: place for place, row in enumerate(self.rows, start=first)}

    @property
    def baseline(self) -> Row | None:
        """FedAvg, if it is among the strategies."""
        return self.rows[0] if self.rows[0].strategy.is_baseline else None

    @property
    def best(self) -> Row:
        """The strategy that meets the target in most of its seeds, then soonest; if none does, the most accurate."""
        if any(row.reached for row in self.rows):
            return min(self.rows, key=lambda row: (-row.reached / len(row.seeds), row.measures["total_s"].mean))
        return max(self.rows, key=lambda row: row.measures["accuracy"].mean)

    @property
    def inside(self) -> tuple[StoredRun, ...]:
        """Runs shown from inside: every strategy's first seed, then further seeds, as far as there is room."""
        by_strategy = [self.runs_of(row) for row in self.rows]
        turns = sorted(
            ((turn, place, run) for place, own in enumerate(by_strategy) for turn, run in enumerate(own)),
            key=lambda item: item[:2],
        )
        chosen = {run for _, _, run in turns[:_MAX_INSIDE]}
        return tuple(run for run in self.runs if run in chosen)

    @property
    def first_inside(self) -> StoredRun:
        """The run shown from inside at first: of the best strategy that shares, if there is one."""
        sharing = [run for run in self.inside if run.facts.received_samples > 0] or self.inside
        best = [run for run in sharing if self.scores[run].strategy == self.best.strategy]
        return (best or sharing)[0]

    @property
    def users_on_map(self) -> int:
        """How many users a map may show."""
        return min(_MAX_ON_A_MAP, _MAX_ON_MAPS // len(self.inside))

    def runs_of(self, row: Row) -> list[StoredRun]:
        """The runs of a strategy, by seed."""
        return [run for run in self.runs if self.scores[run].strategy == row.strategy]

    def series_of(self, run: StoredRun) -> int:
        """Number of a run's strategy."""
        return self.series[self.scores[run].strategy]

    def name_of(self, run: StoredRun) -> str:
        """Strategy and seed."""
        return f"{self.scores[run].strategy.name}, seed {run.scenario.seed}"


def gather(runs: Sequence[StoredRun]) -> Content:
    """Order and compare runs; one that is given twice counts once."""
    rows = compare(runs)
    places = {row.strategy: place for place, row in enumerate(rows)}
    found: dict[tuple[int, int], StoredRun] = {}
    for run in runs:
        found.setdefault((places[score(run).strategy], run.scenario.seed), run)
    return Content(tuple(found[key] for key in sorted(found)), tuple(rows))
