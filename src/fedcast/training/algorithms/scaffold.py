"""SCAFFOLD (Karimireddy et al. 2020, option II): control variates c and c_k correct the drift of local steps."""

from __future__ import annotations

from fedcast.registry import NoOptions
from fedcast.training.algorithms import Algorithm, State, Tensors, Upload, per_user, subtract, weighted_sum, zero_state


def _collect(_: NoOptions, upload: Upload) -> tuple[State, State]:
    """Set c_k ← c_k − c + (w − w_k)/(steps · learning rate) and sum the differences to the old ones.

    The server's c is the mean of all users' in the weights of the aggregation: with any other mean the corrections
    would not cancel, and with users of different size the error would grow until training diverges. With momentum
    steps carry farther; `Upload.steps` accounts for that, so that c_k stays a mean of gradients.
    """
    owns = upload.users["control"]
    new = [
        own - common - change / (per_user(upload.steps.to(change.dtype), change) * upload.learning_rate)
        for common, own, change in zip(upload.server["control"], owns, upload.change, strict=True)
    ]
    return {"control": new}, {"control": weighted_sum(upload.overall_shares, subtract(new, owns))}


def _change(_: NoOptions, mean: Tensors, sums: State, server: State) -> tuple[Tensors, State]:
    return mean, {"control": [old + moved for old, moved in zip(server["control"], sums["control"], strict=True)]}


ALGORITHM = Algorithm(
    "SCAFFOLD: control variates correct the drift of local steps; uploads twice as much",
    uploads=2,
    server_state=zero_state("control"),
    user_state=zero_state("control"),
    local_context=lambda _, server, users: subtract(server["control"], users["control"]),
    local_terms=lambda _, __, ___, correction: [(1.0, correction)],
    collect=_collect,
    change=_change,
)
