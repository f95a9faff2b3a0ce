"""Federated learning algorithms as values: one file each, the same for both engines.

An `Algorithm` says what users add to their gradients, what users and the server remember, what is uploaded, and what
the server makes of it. Trainer, engines, checkpoints and the cost model ask it and know no algorithm by name.

Nothing here imports PyTorch at module level: planning reads `uploads` and options without it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fedcast.registry import NoOptions

if TYPE_CHECKING:
    from torch import Tensor

Tensors = list["Tensor"]
State = dict[str, Tensors]
Terms = Sequence[tuple[float, Tensors]]

# The choices of training.server_optimizer: each is the server step of an algorithm.
SERVER_OPTIMIZERS = {"momentum": "fedavgm", "adam": "fedadam", "yogi": "fedyogi"}


@dataclass(frozen=True)
class Upload:
    """Updates that a block of U users sends to the server after local training."""

    change: Tensors  #: w_k − w, [U, ...] for each weight of the model
    shares: Tensor  #: float64[U], weight of each user in the mean over the users of this round
    overall_shares: Tensor  #: float64[U], weight of each user in the mean over all users, in this round or not
    steps: Tensor  #: float64[U], local steps; with momentum the number that carries a constant gradient as far
    learning_rate: float  #: local learning rate of this round
    server: State  #: state of the server at the start of the round
    users: (
        State  #: states of these users at the start of the round: one dictionary, users first, [U, ...], in each tensor
    )


@dataclass(frozen=True)
class Algorithm:
    """A federated learning algorithm. Every function is optional; without any it is FedAvg.

    Functions get the algorithm's options, a frozen dataclass, first and change no argument in place. A `State` maps
    names to lists of tensors; only the algorithm itself knows what they mean. States of U users are one such
    dictionary, users in the first dimension of every tensor. Weights and gradients are lists in the order of
    ``model.parameters()``, users stacked in the first dimension (one at a time in the engine ``loop``). An algorithm
    that needs the number of the round counts it in the state of the server.
    """

    summary: str  #: what it does, in one line
    options: type[Any] = NoOptions
    uploads: int = 1  #: values that a user uploads for each weight of the model; the server broadcasts as many
    engines: tuple[str, ...] = ("loop", "stacked")  #: ``("loop",)`` if functions work for a single user alone
    #: (options, weights) → state of the server before the first round
    server_state: Callable[[Any, Tensors], State] | None = None
    #: (options, weights) → state of one user before its first round
    user_state: Callable[[Any, Tensors], State] | None = None
    #: (options, server state, states of U users) → list of tensors that local steps read, [U, ...] each, or [1, ...]
    #: for a value that all users share
    local_context: Callable[[Any, State, State], Tensors] | None = None
    #: (options, gradients, weights, global weights, context) → gradients to use instead
    local_gradients: Callable[[Any, Tensors, Tensors, Tensors, Tensors], Tensors] | None = None
    #: (options, weights, global weights, context) → pairs of a Python number and a list of tensors [U, ...], one for
    #: each weight; factor · tensor is added to every gradient, after clipping, before weight decay and momentum
    local_terms: Callable[[Any, Tensors, Tensors, Tensors], Terms] | None = None
    #: (options, upload) → (new states of these users, sums); sums are added up over the blocks of a round
    collect: Callable[[Any, Upload], tuple[State, State]] | None = None
    #: (options, mean change, sums, server state) → (change that the server applies, new server state)
    change: Callable[[Any, Tensors, State, State], tuple[Tensors, State]] | None = None
    #: (options, weights, change, server state) → (new weights, new server state); without one the server adds the
    #: change, or follows `training.server_optimizer`
    server_step: Callable[[Any, Tensors, Tensors, State], tuple[Tensors, State]] | None = None

    def first_states(self, options: Any, weights: Tensors) -> tuple[State, State]:
        """Return the states of the server and of one user before the first round."""
        makers = (self.server_state, self.user_state)
        server, user = ({} if make is None else make(options, weights) for make in makers)
        return server, user


def zeros_like(weights: Tensors) -> Tensors:
    """Return a tensor of zeros for every weight."""
    return [weight.new_zeros(weight.shape) for weight in weights]


def zero_state(name: str) -> Callable[[Any, Tensors], State]:
    """Return the function of a first state that is zero for every weight."""
    return lambda _, weights: {name: zeros_like(weights)}


def subtract(ones: Tensors, others: Tensors) -> Tensors:
    """Return one − other for every pair of tensors."""
    return [one - other for one, other in zip(ones, others, strict=True)]


def per_user(values: Tensor, like: Tensor) -> Tensor:
    """Return [U] with as many trailing dimensions as `like`, for broadcasting."""
    return values.view(-1, *[1] * (like.dim() - 1))


def effective_steps(steps: Tensor, momentum: float) -> Tensor:
    """Return how many steps without momentum carry a constant gradient as far (FedNova's a_k)."""
    if momentum == 0:
        return steps
    return (steps - momentum * (1 - momentum**steps) / (1 - momentum)) / (1 - momentum)


def weighted_sum(shares: Tensor, tensors: Tensors) -> Tensors:
    """Return the sum over users of share · tensor, [...] from [U, ...], for every tensor."""
    import torch

    return [torch.tensordot(shares.to(tensor.dtype), tensor, dims=1) for tensor in tensors]
