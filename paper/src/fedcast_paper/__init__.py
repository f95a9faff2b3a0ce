"""The paper's figures and tables, made anew. One file each; `REPRODUCTIONS` is the table."""

from fedcast_paper.job import SCALES, Job, Scale
from fedcast_paper.make import draw_result, make_result
from fedcast_paper.result import Result, Verdict, load_result, result_path, save_result
from fedcast_paper.table import REPRODUCTIONS, Reproduction, find_reproduction

__all__ = [
    "REPRODUCTIONS",
    "SCALES",
    "Job",
    "Reproduction",
    "Result",
    "Scale",
    "Verdict",
    "draw_result",
    "find_reproduction",
    "load_result",
    "make_result",
    "result_path",
    "save_result",
]
