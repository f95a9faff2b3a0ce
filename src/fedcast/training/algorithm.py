"""Local and server update rules as small pure functions on lists of tensors, users stacked in the first dimension.

FedAvg (McMahan et al. 2017), FedProx (Li et al. 2020), SCAFFOLD (Karimireddy et al. 2020, option II), FedNova (Wang et
al. 2020), server momentum and Adam (Reddi et al. 2021).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from fedcast.scenario import Training

Tensors = list[Tensor]

_CLIP_EPSILON = 1e-6  # as in torch.nn.utils.clip_grad_norm_


@dataclass(frozen=True)
class LocalRule:
    """What a user does with a gradient."""

    momentum: float = 0.0
    weight_decay: float = 0.0
    clip_norm: float | None = None
    prox_weight: float = 0.0


def local_rule(training: Training) -> LocalRule:
    """The local rule of the settings; the proximal term belongs to FedProx alone."""
    prox = training.prox_weight if training.algorithm == "fedprox" else 0.0
    return LocalRule(training.momentum, training.weight_decay, training.clip_norm, prox)


def local_step(
    rule: LocalRule,
    weights: Tensors,
    momenta: Tensors,
    gradients: Tensors,
    anchor: Tensors,
    correction: Tensors | None,
    step_size: Tensor,
) -> None:
    """One SGD step of U users; weights and momenta change in place.

    Args:
        rule: what to do.
        weights: [U, ...] each.
        momenta: [U, ...] each, or empty without momentum.
        gradients: [U, ...] each.
        anchor: the round's first weights, [...] each.
        correction: SCAFFOLD's c − c_k, [U, ...] each, or None.
        step_size: [U], learning rate of each user; 0 for a user that has no more batches.
    """
    if rule.clip_norm is not None:
        norms = (
            torch.stack([gradient.reshape(len(gradient), -1).square().sum(1) for gradient in gradients]).sum(0).sqrt()
        )
        factor = (rule.clip_norm / (norms + _CLIP_EPSILON)).clamp(max=1.0)
        gradients = [gradient * per_user(factor, gradient) for gradient in gradients]
    for index, gradient in enumerate(gradients):
        # Never in place: two weights that are only ever added (the biases of an LSTM) share one gradient tensor.
        if rule.prox_weight:
            gradient = gradient.add(weights[index] - anchor[index], alpha=rule.prox_weight)
        if correction is not None:
            gradient = gradient + correction[index]
        if rule.weight_decay:
            gradient = gradient.add(weights[index], alpha=rule.weight_decay)
        if rule.momentum:
            # A user without a batch must keep its momentum, which plain decay would shrink.
            active = per_user((step_size != 0).to(gradient.dtype), gradient)
            momenta[index].mul_(1 - active * (1 - rule.momentum)).add_(gradient * active)
            gradient = momenta[index]
        weights[index].sub_(gradient * per_user(step_size, gradient))


def per_user(values: Tensor, like: Tensor) -> Tensor:
    """[U] with as many trailing dimensions as `like`, for broadcasting."""
    return values.view(-1, *[1] * (like.dim() - 1))


def normalised_steps(steps: Tensor, momentum: float) -> Tensor:
    """FedNova's a_k: how far a user's steps carry a constant gradient; the number of steps without momentum."""
    if momentum == 0:
        return steps
    return (steps - momentum * (1 - momentum**steps) / (1 - momentum)) / (1 - momentum)


def new_control(control: Tensor, own: Tensor, change: Tensor, effective: Tensor, learning_rate: float) -> Tensor:
    """SCAFFOLD option II: c_k − c + (w − w_k)/(steps·lr), [U, ...]; `change` is w_k − w.

    With momentum steps carry farther: then `effective` are FedNova's, so that c_k stays a mean of gradients.
    """
    return own - control - change / (per_user(effective, change) * learning_rate)


@dataclass
class ServerState:
    """What the server carries from round to round."""

    weights: Tensors
    momentum: Tensors
    second_moment: Tensors
    control: Tensors


def server_step(training: Training, state: ServerState, change: Tensors) -> None:
    """Move the server's weights by the users' average change, through its optimiser, in place."""
    rate = training.server_learning_rate
    if training.server_optimizer == "none":
        for weight, delta in zip(state.weights, change, strict=True):
            weight.add_(delta, alpha=rate)
        return
    beta = training.server_momentum
    for index, delta in enumerate(change):
        momentum = state.momentum[index]
        if training.server_optimizer == "momentum":
            momentum.mul_(beta).add_(delta)
            state.weights[index].add_(momentum, alpha=rate)
        else:
            second = state.second_moment[index]
            momentum.mul_(beta).add_(delta, alpha=1 - beta)
            second.mul_(training.server_beta2).add_(delta.square(), alpha=1 - training.server_beta2)
            state.weights[index].add_(momentum / (second.sqrt() + training.server_epsilon), alpha=rate)
