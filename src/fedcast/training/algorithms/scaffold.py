"""SCAFFOLD (Karimireddy et al. 2020, option II): control variates c and c_k correct the drift of local steps."""

from __future__ import annotations

from fedcast.registry import NoOptions
from fedcast.training.algorithms import Algorithm, State, Tensors, Terms, Upload, per_user, weighted_sum, zeros_like


def _zero_control(_: NoOptions, weights: Tensors) -> State:
    return {"control": zeros_like(weights)}


def _correction(_: NoOptions, server: State, users: State) -> Tensors:
    return [common - own for common, own in zip(server["control"], users["control"], strict=True)]


def _terms(_: NoOptions, __: Tensors, ___: Tensors, correction: Tensors) -> Terms:
    return [(1.0, correction)]


def _collect(_: NoOptions, upload: Upload) -> tuple[State, State]:
    """Set c_k ← c_k − c + (w − w_k)/(steps · learning rate) and sum the differences.

    The server's c is the mean of all users' in the weights of the aggregation: with any other mean the corrections
    would not cancel, and with users of different size the error would grow until training diverges. With momentum
    steps carry farther; `Upload.steps` accounts for that, so that c_k stays a mean of gradients.
    """
    new = []
    own_controls = upload.users["control"]
    for common, own, change in zip(upload.server["control"], own_controls, upload.change, strict=True):
        distance = per_user(upload.steps.to(change.dtype), change) * upload.learning_rate
        new.append(own - common - change / distance)
    moved = [after - before for after, before in zip(new, own_controls, strict=True)]
    return {"control": new}, {"control": weighted_sum(upload.overall_shares, moved)}


def _change(_: NoOptions, mean: Tensors, sums: State, server: State) -> tuple[Tensors, State]:
    return mean, {"control": [old + moved for old, moved in zip(server["control"], sums["control"], strict=True)]}


ALGORITHM = Algorithm(
    "SCAFFOLD: control variates correct the drift of local steps; uploads twice as much",
    uploads=2,
    server_state=_zero_control,
    user_state=_zero_control,
    local_context=_correction,
    local_terms=_terms,
    collect=_collect,
    change=_change,
)
