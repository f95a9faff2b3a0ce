r"""What the convergence bound says: drift of local models, error after T rounds, rounds to a target.

The bound of Hu, Teng, Wang and Han (arXiv 2406.09776, Appendix B) for FedAvg on convex losses, in three forms:

``printed``
    As in the paper, slips included. Its users all weigh the same.
``corrected``
    The paper's own argument with its slips mended: the squared start distance, the lost :math:`G^2`, and the mean of
    :math:`D_k^2` in place of :math:`K \bar D^2`.
``sharp``
    A shorter argument (a gradient step is non-expansive), never above ``corrected``, and good up to four times the
    step size.

All have the shape

.. math:: \frac{A^2}{2 \eta E T} + \text{noise} + \text{drift by skew} + \text{drift by noise}

The derivations are in the documentation, "What the convergence bound says". Units: the loss has one unit, call it
*loss*, and the model's weights another, *w*; then :math:`L` is in loss/w², :math:`G` in loss/w, :math:`\sigma^2` in
(loss/w)², :math:`\eta` in w²/loss, distances in w and bounds in loss.
"""

from fedcast.typing import Floats
from fedcast_paper.theory.bound import Bound, convergence_bound, one_round_bound
from fedcast_paper.theory.constants import Problem, divergences_of, local_steps, problem
from fedcast_paper.theory.drift import mean_drift_bound, pair_drift_bound, user_drift_bound
from fedcast_paper.theory.errata import Slip, slips
from fedcast_paper.theory.forms import Form, step_size_limit
from fedcast_paper.theory.rounds import RoundsCurve, best_step_size, rounds_curve, rounds_needed

__all__ = [
    "Bound",
    "Floats",
    "Form",
    "Problem",
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
