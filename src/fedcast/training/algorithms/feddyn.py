r"""FedDyn (Acar et al. 2021, ICLR, Algorithm 1): a regulariser per user makes local and global optima agree.

User k minimises :math:`L_k(w_k) - \langle g_k, w_k \rangle + \frac{\alpha}{2} \|w_k - w\|^2`, then sets
:math:`g_k \leftarrow g_k - \alpha (w_k - w)`. The server keeps :math:`h = \sum_k p_k g_k` over all users and moves to
the mean of the users' weights minus :math:`h/\alpha`. The paper's users are equal, :math:`p_k = 1/K`; here :math:`p_k`
are the weights of the aggregation.
"""

from __future__ import annotations

from dataclasses import dataclass

from fedcast.registry import option
from fedcast.training.algorithms import Algorithm, State, Tensors, Terms, Upload, weighted_sum, zeros_like


@dataclass(frozen=True)
class FedDynOptions:
    """Options of FedDyn."""

    alpha: float = option(0.1, "weight α of the dynamic regulariser", gt=0)


def _zero_gradient(_: FedDynOptions, weights: Tensors) -> State:
    return {"gradient": zeros_like(weights)}


def _context(_: FedDynOptions, __: State, users: State) -> Tensors:
    return users["gradient"]


def _terms(options: FedDynOptions, weights: Tensors, start: Tensors, gradient: Tensors) -> Terms:
    moved = [own - common for own, common in zip(weights, start, strict=True)]
    return [(-1.0, gradient), (options.alpha, moved)]


def _collect(options: FedDynOptions, upload: Upload) -> tuple[State, State]:
    new = [own - options.alpha * moved for own, moved in zip(upload.users["gradient"], upload.change, strict=True)]
    return {"gradient": new}, {"change": weighted_sum(upload.overall_shares, upload.change)}


def _change(options: FedDynOptions, mean: Tensors, sums: State, server: State) -> tuple[Tensors, State]:
    h = [old - options.alpha * moved for old, moved in zip(server["gradient"], sums["change"], strict=True)]
    return [moved - part / options.alpha for moved, part in zip(mean, h, strict=True)], {"gradient": h}


ALGORITHM = Algorithm(
    "FedDyn: a dynamic regulariser per user makes local and global optima agree",
    options=FedDynOptions,
    server_state=_zero_gradient,
    user_state=_zero_gradient,
    local_context=_context,
    local_terms=_terms,
    collect=_collect,
    change=_change,
)
