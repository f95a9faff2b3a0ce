r"""FedDyn (Acar et al. 2021, ICLR, Algorithm 1): a regulariser per user makes local and global optima agree.

User k minimises :math:`L_k(w_k) - \langle g_k, w_k \rangle + \frac{\alpha}{2} \|w_k - w\|^2`, then sets
:math:`g_k \leftarrow g_k - \alpha (w_k - w)`. The server keeps :math:`h = \sum_k p_k g_k` over all users and moves to
the mean of the users' weights minus :math:`h/\alpha`. The paper's users are equal, :math:`p_k = 1/K`; here :math:`p_k`
are the weights of the aggregation.
"""

from __future__ import annotations

from dataclasses import dataclass

from fedcast.registry import option
from fedcast.training.algorithms import Algorithm, State, Tensors, Terms, Upload, subtract, weighted_sum, zero_state


@dataclass(frozen=True)
class FedDynOptions:
    """Options of FedDyn."""

    alpha: float = option(0.1, "weight α of the dynamic regulariser", gt=0)


def _terms(options: FedDynOptions, weights: Tensors, start: Tensors, gradient: Tensors) -> Terms:
    return [(-1.0, gradient), (options.alpha, subtract(weights, start))]


def _collect(options: FedDynOptions, upload: Upload) -> tuple[State, State]:
    new = [own - options.alpha * moved for own, moved in zip(upload.users["gradient"], upload.change, strict=True)]
    return {"gradient": new}, {"change": weighted_sum(upload.overall_shares, upload.change)}


def _change(options: FedDynOptions, mean: Tensors, sums: State, server: State) -> tuple[Tensors, State]:
    h = [old - options.alpha * moved for old, moved in zip(server["gradient"], sums["change"], strict=True)]
    return [moved - part / options.alpha for moved, part in zip(mean, h, strict=True)], {"gradient": h}


ALGORITHM = Algorithm(
    "FedDyn: a dynamic regulariser per user makes local and global optima agree",
    options=FedDynOptions,
    server_state=zero_state("gradient"),
    user_state=zero_state("gradient"),
    local_context=lambda _, __, users: users["gradient"],
    local_terms=_terms,
    collect=_collect,
    change=_change,
)
