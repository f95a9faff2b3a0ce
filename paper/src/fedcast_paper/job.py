"""What is asked of a data function: the scale, the seeds, and where things are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

Scale = Literal["smoke", "full"]
SCALES: tuple[Scale, ...] = ("smoke", "full")
# Steps done, steps in all.
Progress = Callable[[int, int], None]

T = TypeVar("T")


def _silent(done: int, total: int) -> None: ...


@dataclass(frozen=True)
class Job:
    """One request.

    Attributes:
        scale: ``full`` is the real setting; ``smoke`` takes the same path through the code in seconds.
        seeds: to use instead of the figure's own; None: those.
        store: folder of run folders (`fedcast.runs.store`), where training runs are kept and found again.
        data_dir: where dataset files are looked for first.
        progress: told after every step.
        workers: processes that train side by side.
        archive: folder of finished training runs as small files, read first and added to; None: there is none.
        only_finished: take the training runs that are there, and train none.
    """

    scale: Scale = "full"
    seeds: tuple[int, ...] | None = None
    store: Path = Path("out/runs")
    data_dir: Path | None = None
    progress: Progress = _silent
    workers: int = 1
    archive: Path | None = None
    only_finished: bool = False

    def sized(self, *, smoke: T, full: T) -> T:
        """What the scale asks for.

        Example:
            >>> Job(scale="smoke").sized(smoke=50, full=1000)
            50
        """
        return smoke if self.scale == "smoke" else full

    def seeds_or(self, *, smoke: int, full: int) -> tuple[int, ...]:
        """The seeds asked for, or as many as the scale takes, from 0 on.

        Example:
            >>> Job().seeds_or(smoke=1, full=3), Job(seeds=(7,)).seeds_or(smoke=1, full=3)
            ((0, 1, 2), (7,))
        """
        return self.seeds if self.seeds is not None else tuple(range(self.sized(smoke=smoke, full=full)))

    def each(self, items: Sequence[T]) -> Iterator[T]:
        """The items one by one, each a step of progress."""
        for done, item in enumerate(items):
            self.progress(done, len(items))
            yield item
        self.progress(len(items), len(items))
