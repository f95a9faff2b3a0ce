"""From an id to a stored result, and from a result to a picture."""

from __future__ import annotations

from pathlib import Path

from fedcast.figures.output import save_figure
from fedcast.study.reproduce.job import Job
from fedcast.study.reproduce.result import Result, save_result
from fedcast.study.reproduce.table import find_reproduction


def make_result(name: str, job: Job, results: Path) -> Result:
    """Compute a figure or table and store what comes out."""
    return save_result(find_reproduction(name).data(job), name, job.scale, results)


def draw_result(name: str, result: Result, folder: Path, kind: str = "png", dpi: int = 160) -> Path:
    """Draw a result as png, svg or pdf."""
    return save_figure(find_reproduction(name).draw(result), folder / f"{name}.{kind}", dpi)
