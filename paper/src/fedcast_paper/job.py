"""Requests for figures (`Job`) and their declarations (`Reproduction`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from fedcast.report import Figure
from fedcast.scenario import Scenario
from fedcast_paper.reproduction_result import Result

Scale = Literal["smoke", "full"]
SCALES: tuple[Scale, ...] = ("smoke", "full")
# Steps done, total number of steps.
Progress = Callable[[int, int], None]
Rows = list[dict[str, str]]

T = TypeVar("T")


def _ignore_progress(done: int, total: int) -> None: ...


@dataclass(frozen=True)
class Job:
    """A request to compute a result.

    Attributes:
        scale: ``full`` is the setting of the paper; ``smoke`` runs the same code on small inputs in seconds.
        seeds: seeds to use; None: the default seeds of the figure.
        store: folder of run folders (`fedcast.runs`), where training runs are stored and looked up.
        data_dir: folder that is searched first for dataset files.
        progress: called after every step.
        workers: number of processes that train in parallel.
        archive: folder of finished training runs as small files, read first and added to; None: no archive.
        only_finished: use the finished training runs and train none.
        only: train only runs with one of these values of each parameter, by dotted key, and use others if finished.
        controls: work controls of every strategy to train and show beside it, where a table has room for them.
    """

    scale: Scale = "full"
    seeds: tuple[int, ...] | None = None
    store: Path = Path("out/runs")
    data_dir: Path | None = None
    progress: Progress = _ignore_progress
    workers: int = 1
    archive: Path | None = None
    only_finished: bool = False
    only: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    controls: tuple[str, ...] = ()

    def sized(self, *, smoke: T, full: T) -> T:
        """Return the value for the scale.

        Example:
            >>> Job(scale="smoke").sized(smoke=50, full=1000)
            50
        """
        return smoke if self.scale == "smoke" else full

    def seeds_or(self, *, smoke: int, full: int) -> tuple[int, ...]:
        """Return the requested seeds, or the default number of seeds of the scale, starting at 0.

        Example:
            >>> Job().seeds_or(smoke=1, full=3), Job(seeds=(7,)).seeds_or(smoke=1, full=3)
            ((0, 1, 2), (7,))
        """
        return self.seeds if self.seeds is not None else tuple(range(self.sized(smoke=smoke, full=full)))

    def each(self, items: Sequence[T]) -> Iterator[T]:
        """Iterate over the items and report each as a step of progress."""
        for done, item in enumerate(items):
            self.progress(done, len(items))
            yield item
        self.progress(len(items), len(items))


@dataclass(frozen=True)
class Reproduction:
    """A reproduced figure or table.

    Attributes:
        shows: its content in a few words.
        paper: what the paper reports there.
        why: why the reproduction agrees or disagrees with the paper. No numbers: pages take them from the result.
        data: computes the result.
        draw: draws the result.
        scenarios: the training runs that it needs (at full scale they need a GPU); None: no training.
        summary: the rows of its table on the results page, or of several tables by caption; None: verdicts are enough.
        details: the rows of tables that a reader of the page unfolds, by title.
    """

    shows: str
    paper: str
    why: str
    data: Callable[[Job], Result]
    draw: Callable[[Result], Figure]
    scenarios: Callable[[Job], list[Scenario]] | None = None
    summary: Callable[[Result], Rows | dict[str, Rows]] | None = None
    details: Callable[[Result], dict[str, Rows]] | None = None

    @property
    def trains(self) -> bool:
        """Return whether it needs training runs."""
        return self.scenarios is not None
