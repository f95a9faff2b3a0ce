"""The table of reproductions. A new figure or table of the paper is one file in this folder and one line here.

Such a file holds a data function, from a `Job` to a `Result`: pure but for the runs it keeps in `Job.store`, the same
for the same seeds, tested; and a renderer, from a `Result` to a matplotlib figure, which computes nothing. It imports
PyTorch, or anything that does, inside the data function, so that listing this table takes no time.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedcast.errors import FedcastError
from fedcast.scenario import Scenario
from fedcast_paper import (
    beyond_algorithms,
    beyond_drift,
    beyond_measures,
    beyond_rounds,
    fig1a,
    fig1b,
    fig1c,
    fig4,
    fig5,
    fig6,
    fig7a,
    fig7b,
    fig8,
    fig9a,
    fig9b,
    table2,
)
from fedcast_paper.job import Job
from fedcast_paper.result import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# In the place of an id it stands for every one.
ALL = "all"


@dataclass(frozen=True)
class Reproduction:
    """A figure or table of the paper, made anew.

    Attributes:
        shows: what there is to see, in a few words.
        paper: what the paper shows there, in a sentence or two.
        data: computes it.
        draw: draws it.
        scenarios: training runs that it is made from, which at full scale want a GPU; None: it needs no training.
    """

    shows: str
    paper: str
    data: Callable[[Job], Result]
    draw: Callable[[Result], Figure]
    scenarios: Callable[[Job], list[Scenario]] | None = None

    @property
    def trains(self) -> bool:
        """Whether models are trained for it."""
        return self.scenarios is not None


REPRODUCTIONS: dict[str, Reproduction] = {
    "fig1a": Reproduction("training at several degrees of skew", fig1a.PAPER, fig1a.data, fig1a.draw, fig1a.scenarios),
    "fig1b": Reproduction("training with 0, 5, 10 % shared", fig1b.PAPER, fig1b.data, fig1b.draw, fig1b.scenarios),
    "fig1c": Reproduction("training in 10 and 25 clusters", fig1c.PAPER, fig1c.data, fig1c.draw, fig1c.scenarios),
    "fig4": Reproduction("loss and accuracy of all strategies", fig4.PAPER, fig4.data, fig4.draw, fig4.scenarios),
    "table2": Reproduction("accuracy under Dirichlet skew", table2.PAPER, table2.data, table2.draw, table2.scenarios),
    "fig5": Reproduction("samples per class and user: IID, before, after sharing", fig5.PAPER, fig5.data, fig5.draw),
    "fig6": Reproduction("rounds and accuracy against skew, fitted", fig6.PAPER, fig6.data, fig6.draw, fig6.scenarios),
    "fig7a": Reproduction("convergence of JFVO, SMM and SAA", fig7a.PAPER, fig7a.data, fig7a.draw),
    "fig7b": Reproduction("convergence and leakage of JFVO at 10, 15, 20 dB", fig7b.PAPER, fig7b.data, fig7b.draw),
    "fig8": Reproduction("running time of JFVO, SMM and SAA against users", fig8.PAPER, fig8.data, fig8.draw),
    "fig9a": Reproduction("shared volume and SINR of each cluster", fig9a.PAPER, fig9a.data, fig9a.draw),
    "fig9b": Reproduction("delay and its parts against users", fig9b.PAPER, fig9b.data, fig9b.draw),
    "beyond-rounds": Reproduction(
        "rounds and seconds to a target", beyond_rounds.PAPER, beyond_rounds.data, beyond_rounds.draw,
        beyond_rounds.scenarios,
    ),
    "beyond-algorithms": Reproduction(
        "FedProx and SCAFFOLD with sharing", beyond_algorithms.PAPER, beyond_algorithms.data, beyond_algorithms.draw,
        beyond_algorithms.scenarios,
    ),
    "beyond-drift": Reproduction(
        "drift and divergence against epochs and skew", beyond_drift.PAPER, beyond_drift.data, beyond_drift.draw,
        beyond_drift.scenarios,
    ),
    "beyond-measures": Reproduction(
        "which measure predicts the rounds", beyond_measures.PAPER, beyond_measures.data, beyond_measures.draw,
        beyond_measures.scenarios,
    ),
}  # fmt: skip


def find_reproduction(name: str) -> Reproduction:
    """The reproduction of that id; an unknown one is refused with the nearest.

    Example:
        >>> find_reproduction("fig8").trains
        False
    """
    if name not in REPRODUCTIONS:
        close = difflib.get_close_matches(name.lower(), [*REPRODUCTIONS, ALL], n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        raise FedcastError(f"there is no reproduction {name!r}; {hint}There are {', '.join(REPRODUCTIONS)}, and {ALL}")
    return REPRODUCTIONS[name]
