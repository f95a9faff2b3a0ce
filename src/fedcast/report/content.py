"""The content of a report: runs in order, and their comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice, zip_longest
from typing import Any, get_args

import numpy as np

from fedcast.errors import FedcastError
from fedcast.report.colours import NUM_COLOURS
from fedcast.report.figures.training import (
    Bands,
)
from fedcast.runs import (
    AttendanceRow,
    FailedRun,
    Gain,
    Row,
    Score,
    StoredRun,
    Strategy,
    attendance,
    compare,
    decides,
    facet_name,
    facets,
    gains,
    gives_epochs,
    score,
    setting,
    strategy_of,
)
from fedcast.scenario import Scenario

# Runs shown in detail, so that the page stays small.
MAX_INSIDE = 9


@dataclass(frozen=True, eq=False)
class Content:
    """Runs and their scores."""

    runs: Sequence[StoredRun]  #: by strategy, then by seed; each once
    rows: Sequence[Row]  #: one per strategy, FedAvg first
    scores: Mapping[StoredRun, Score]
    failed: Sequence[FailedRun] = ()  #: runs without a result
    tuned: Sequence[str] = ()  #: keys of settings that were tuned for each strategy
    facet: Mapping[str, Any] = field(default_factory=dict)  #: what makes these runs differ from those of other facets
    num_facets: int = 1
    all_strategies: Sequence[Strategy] = ()  #: of all facets; empty: those of the rows
    targets: Sequence[float] = ()  #: further accuracies to which rounds and time are shown
    bands: Bands = "interval"  #: of learning curves

    @property
    def name(self) -> str:
        """Name of the facet."""
        return facet_name(self.facet)

    @property
    def scenario(self) -> Scenario:
        """Scenario of the first run; the others differ only in strategy and seed."""
        return self.runs[0].scenario

    @property
    def on_devices(self) -> bool:
        """Return whether all runs were trained on real devices, so that there are measured seconds."""
        return all(run.measured_s for run in self.runs)

    @property
    def clock(self) -> str:
        """Return what the seconds of histories are: those of devices and links as the scenario describes them."""
        return "planned" if self.on_devices else "simulated"

    @property
    def axes(self) -> dict[str, str]:
        """Columns of a history that curves are drawn against, with their titles."""
        return {"round": "round", "seconds": f"{self.clock} seconds"}

    def measured_s(self, row: Row) -> float:
        """Return the seconds of sharing and of the rounds up to the target, or the last, measured on devices."""
        totals = []
        for run in self.runs_of(row):
            rounds = (run.measured_s.get(f"round {place}", 0.0) for place in range(1, self.scores[run].rounds + 1))
            totals.append(run.measured_s.get("share", 0.0) + sum(rounds))
        return float(np.mean(totals))

    @property
    def target(self) -> float:
        """Target accuracy."""
        return self.scenario.rounds.target_accuracy

    @cached_property
    def to_targets(self) -> dict[float, Sequence[Row]]:
        """The comparison to each target, ascending; empty if there is only that of the scenario."""
        targets = sorted({*self.targets, self.target}) if set(self.targets) - {self.target} else []
        return {target: compare(self.runs, self.failed, self.tuned, target) for target in targets}

    @property
    def seeds(self) -> list[int]:
        """Seeds of all runs, ascending."""
        return sorted({run.scenario.seed for run in self.runs})

    @cached_property
    def series(self) -> dict[Strategy, int]:
        """Series number of each strategy, which decides its colour and dashes; 0 is reserved for FedAvg.

        Strategies that differ in the kind of sharing alone have one colour with different dashes, if there are enough.
        """
        strategies = list(self.all_strategies) or [row.strategy for row in self.rows]
        first = int(not any(one.is_baseline for one in strategies))
        plans = list(dict.fromkeys(replace(one, sharing="raw") for one in strategies))
        kinds = list(dict.fromkeys(one.sharing for one in strategies))
        if first + len(plans) - 1 > NUM_COLOURS:
            return {one: place for place, one in enumerate(strategies, first)}
        places = [(plans.index(replace(one, sharing="raw")), kinds.index(one.sharing)) for one in strategies]
        return {one: first + plan + NUM_COLOURS * kind for one, (plan, kind) in zip(strategies, places, strict=True)}

    @cached_property
    def attendance(self) -> list[AttendanceRow]:
        """Return the attendance by strategy; empty where all users took part in every round."""
        return attendance(self.runs, self.failed)

    @cached_property
    def gains(self) -> list[Gain]:
        """Parts of the gain of each strategy that has a control."""
        return gains(self.runs, self.tuned)

    @property
    def baseline(self) -> Row | None:
        """The row of FedAvg, if it is among the strategies."""
        return self.rows[0] if self.rows[0].strategy.is_baseline else None

    @property
    def best(self) -> Row:
        """The strategy that reaches the target in most of its seeds, then fastest; if none does, the most accurate."""
        return min(self.rows, key=self._merit)

    @property
    def best_rows(self) -> list[Row]:
        """The best strategy, and others that are exactly as good."""
        return [row for row in self.rows if self._merit(row) == self._merit(self.best)]

    def _merit(self, row: Row) -> tuple[float, float]:
        """Return a sort key, lower is better."""
        if any(one.reached for one in self.rows):
            return -row.reached / len(row.seeds), row.measures["total_s"].mean
        return 0.0, -row.measures["accuracy"].mean

    @property
    def inside(self) -> list[StoredRun]:
        """Runs shown in detail: every strategy's first seed, then further seeds, as far as there is room."""
        turns, room = zip_longest(*(self.runs_of(row) for row in self.rows)), max(1, MAX_INSIDE // self.num_facets)
        chosen = set(islice((run for turn in turns for run in turn if run is not None), room))
        return [run for run in self.runs if run in chosen]

    def runs_of(self, row: Row) -> list[StoredRun]:
        """Return the runs of a strategy, by seed."""
        return [run for run in self.runs if self.scores[run].strategy == row.strategy]

    def name_of(self, run: StoredRun) -> str:
        """Return strategy and seed of a run."""
        name = f"{self.scores[run].strategy.name}, seed {run.scenario.seed}"
        return f"{name}, {self.name}" if self.name else name


def gather_facets(
    runs: Sequence[StoredRun],
    failed: Sequence[FailedRun] = (),
    tuned: Sequence[str] = (),
    targets: Sequence[float] = (),
    bands: Bands = "interval",
) -> list[Content]:
    """Order and compare runs, those that can be compared in one content each; there is at least one run."""
    if bands not in get_args(Bands):
        raise FedcastError(f"invalid value {bands!r} for bands: expected {' or '.join(get_args(Bands))}")
    for target in targets:
        if not 0 < target < 1:
            raise FedcastError(f"invalid value {target!r} for targets: expected an accuracy between 0 and 1")
    groups = facets(runs, failed, tuned)
    found = [gather(group.runs, group.failed, tuned) for group in groups if group.runs or len(groups) == 1]
    shown = [group for group in groups if group.runs]
    # Failures of facets without a run are kept with the first facet; their scenarios say what they are.
    lost = [one for group in groups if not group.runs for one in group.failed]
    strategies = sorted({row.strategy for one in found for row in one.rows}, key=lambda one: one.place)
    return [
        replace(
            content,
            failed=[*content.failed, *(lost if not place else [])],
            facet=group.values,
            num_facets=len(shown),
            all_strategies=strategies,
            targets=targets,
            bands=bands,
        )
        for place, (content, group) in enumerate(zip(found, shown, strict=True))
    ]


def failures(contents: Sequence[Content]) -> list[tuple[str, str, list[int], str]]:
    """Return facet, strategy, seeds and reason of the runs that failed, in the order of strategies."""
    failed = list({one.folder: one for content in contents for one in content.failed}.values())
    named = gives_epochs([*(run for content in contents for run in content.runs), *failed])
    groups: dict[tuple[str, Strategy, str], list[int]] = {}
    keys = [*contents[0].facet, *contents[0].tuned]
    for one in failed:
        facet = facet_name({key: setting(one.scenario, key) for key in keys if decides(one.scenario, key)})
        strategy = strategy_of(one.scenario, name_epochs=named)
        groups.setdefault((facet, strategy, one.reason), []).append(one.scenario.seed)
    ordered = sorted(groups, key=lambda key: (key[0], key[1].place, key[2]))
    return [(key[0], key[1].name, sorted(groups[key]), key[2]) for key in ordered]


def gather(runs: Sequence[StoredRun], failed: Sequence[FailedRun] = (), tuned: Sequence[str] = ()) -> Content:
    """Order and compare runs; one that is given twice counts once."""
    failed = list({one.folder: one for one in failed}.values())
    rows, named = compare(runs, failed, tuned), gives_epochs([*runs, *failed])
    scores = {run: score(run, name_epochs=named) for run in runs}
    places = {row.strategy: place for place, row in enumerate(rows)}
    # Of equal ones the first is kept: later entries of a dictionary replace earlier ones.
    found = {(places[scores[run].strategy], run.scenario.seed): run for run in reversed(runs)}
    return Content([found[key] for key in sorted(found)], rows, scores, failed, tuned)
