"""Progress of the runs of a comparison: bars, what is reused, what failed, and how long it will take."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fedcast.cli.output import LongProgress
from fedcast.formatting import pluralize, printable, quantity

if TYPE_CHECKING:
    from rich.progress import TaskID

    from fedcast.runs import FailedRun
    from fedcast.scenario import Scenario


class StudyProgress(LongProgress):
    """Progress of the runs of a study."""

    def __init__(self, store: Path, processes: int, reported: int) -> None:
        super().__init__()
        self.runs = 0  #: of all sweeps so far
        self._store, self._processes, self._reported = store, processes, reported
        self._scenarios: Sequence[Scenario] = ()
        self._tasks: dict[int, TaskID] = {}
        self._left, self._start = 0, 0.0

    def begin(self, scenarios: Sequence[Scenario], purpose: str) -> None:
        """Say how many runs there are, and which are reused."""
        from fedcast.runs import is_done, run_folder

        done, count = sum(is_done(run_folder(self._store, scenario)) for scenario in scenarios), len(scenarios)
        what = f"{pluralize(count, 'run')} for tuning" if purpose == "tuning" else pluralize(count, "run")
        after = f", then {self._reported} with the best settings" if purpose == "tuning" else ""
        if done:
            self._say(f"{done} of {what} are finished and are reused{after}")
        elif count > 1:
            self._say(f"{what} on {pluralize(min(self._processes, count), 'process', 'processes')}{after}")
        self.runs += count
        self._scenarios, self._tasks = scenarios, {}
        self._left, self._start = count - done, time.monotonic()
        self._overall = self._bars.add_task(what, total=count, completed=done, state="")

    def show(self, position: int, number: int, accuracy: float) -> None:
        """Show a round of a run."""
        scenario = self._scenarios[position]
        rounds = scenario.training.rounds
        if position not in self._tasks:
            kind = "" if scenario.sharing.kind == "raw" else f" {scenario.sharing.kind}"
            name = f"{scenario.clustering.rule}{kind}, seed {scenario.seed}"
            self._tasks[position] = self._bars.add_task(name, total=rounds, state="")
        self._bars.update(self._tasks[position], completed=number, state=f"accuracy {accuracy:.3f}")
        if number == rounds:
            self._end(position)
            self._estimate()

    def fail(self, one: FailedRun) -> None:
        """Say why a run failed."""
        from fedcast.runs import strategy_of

        self._end(next(place for place, scenario in enumerate(self._scenarios) if scenario is one.scenario))
        name = f"{strategy_of(one.scenario).name}, seed {one.scenario.seed}"
        self._say(f"failed: {name}: {printable(one.reason.splitlines()[0])}")

    def _end(self, position: int) -> None:
        """Count a run that has ended."""
        if position in self._tasks:
            self._bars.remove_task(self._tasks.pop(position))
        self._bars.advance(self._overall)
        self._left -= 1

    def _estimate(self) -> None:
        """Say after the first run that finished how long the others will take; one that fails may fail at once."""
        if self._start and self._left:
            took = time.monotonic() - self._start
            each = f"the first run took {quantity(took, 's')}"
            # Others have been in progress for as long, so that their turn is nearly over.
            turns = math.ceil((self._left + 1) / self._processes) - 1
            self._say(f"{each}; about {quantity(took * turns, 's')} for the {self._left} left" if turns else each)
        self._start = 0.0
