"""What each slip of the printed proof changes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcast_paper.theory.bound import convergence_bound
from fedcast_paper.theory.constants import Problem
from fedcast_paper.theory.drift import user_drift_bound
from fedcast_paper.theory.forms import terms_of


@dataclass(frozen=True)
class Slip:
    """A quantity of the proof as printed and as it must be.

    Attributes:
        where: which.
        printed: its printed value.
        corrected: its corrected value; larger than printed: the printed step does not follow.
    """

    where: str
    printed: float
    corrected: float


def slips(setting: Problem, rounds: int) -> tuple[Slip, ...]:
    r"""What each slip of the printed proof changes, for one problem and T rounds.

    The two users of largest :math:`D_k` stand for users 1 and 2 of the proof; the user of least :math:`D_k` for the
    one whose drift is bounded with :math:`D_2 = 0`.

    Example:
        >>> from fedcast_paper.theory import problem
        >>> three = problem(smoothness=1, gradient_bound=5, gradient_variance=0, step_size=0.1, local_steps=2,
        ...                 initial_distance=4, divergences=[1, 1, 0])
        >>> for slip in slips(three, rounds=10):
        ...     print(f"{slip.where:28} {slip.printed:7.3f} {slip.corrected:7.3f}")
        start term, A for A²           1.000   4.000
        Eq. B, last term               4.000  10.000
        Eq. C, last two terms          6.000 150.000
        drift of one user, D₂ = 0      0.000   3.333
        K·D̄² for the mean of D²        1.333   0.667
    """
    shown, mended = convergence_bound(setting, rounds, "printed"), convergence_bound(setting, rounds)
    order = np.argsort(setting.divergences)
    pair = np.append(setting.divergences[order[-2:]], 0.0)[:2]
    gap = float(pair.sum()) * setting.gradient_bound
    squares, reach = 3 * float(pair @ pair), setting.step_size * setting.local_steps
    least = order[0]
    drifts = [float(user_drift_bound(setting, form=form)[least]) for form in ("printed", "corrected")]
    spread = terms_of(setting, "printed").skew_square
    return (
        Slip("start term, A for A²", shown.start, mended.start),
        Slip("Eq. B, last term", 2 * reach * gap, reach / 2 * gap**2),
        Slip("Eq. C, last two terms", squares, squares * setting.gradient_bound**2),
        Slip("drift of one user, D₂ = 0", drifts[0], drifts[1]),
        Slip("K·D̄² for the mean of D²", spread, setting.mean_square_divergence),
    )
