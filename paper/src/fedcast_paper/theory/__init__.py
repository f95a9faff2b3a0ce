r"""The convergence bound of the paper: drift of local models, excess loss after T rounds, rounds to a target.

The bound of Hu, Teng, Wang and Han (arXiv 2406.09776, Appendix B) for FedAvg on convex losses, in three forms:

``printed``
    As in the paper, errors included. All users have the same weight.
``corrected``
    The paper's proof with its errors corrected: the squared initial distance, the missing :math:`G^2`, and the mean
    of :math:`D_k^2` instead of :math:`K \bar D^2`.
``sharp``
    A shorter proof (a gradient step is non-expansive). It is never above ``corrected`` and holds up to four times the
    step size.

All have the form

.. math:: \frac{A^2}{2 \eta E T} + \text{noise} + \text{drift by skew} + \text{drift by noise}

The derivations are on the documentation page "The convergence bound". Units: with *loss* for the unit of the loss and
*w* for the unit of the model's weights, :math:`L` is in loss/w², :math:`G` in loss/w, :math:`\sigma^2` in
(loss/w)², :math:`\eta` in w²/loss, distances in w and bounds in loss.
"""

from fedcast.typing import Floats
from fedcast_paper.theory.bounds import (
    Bound,
    Slip,
    convergence_bound,
    mean_drift_bound,
    one_round_bound,
    pair_drift_bound,
    slips,
    user_drift_bound,
)
from fedcast_paper.theory.constants import ConvexProblem, Form, divergences_of, local_steps, problem, step_size_limit
from fedcast_paper.theory.rounds_to_target import RoundsCurve, best_step_size, rounds_curve, rounds_needed

__all__ = [
    "Bound",
    "ConvexProblem",
    "Floats",
    "Form",
    "RoundsCurve",
    "Slip",
    "best_step_size",
    "convergence_bound",
    "divergences_of",
    "local_steps",
    "mean_drift_bound",
    "one_round_bound",
    "pair_drift_bound",
    "problem",
    "rounds_curve",
    "rounds_needed",
    "slips",
    "step_size_limit",
    "user_drift_bound",
]
