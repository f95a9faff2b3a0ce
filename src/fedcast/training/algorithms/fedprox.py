"""FedProx (Li et al. 2020): local steps are drawn back towards the global weights."""

from __future__ import annotations

from dataclasses import dataclass

from fedcast.registry import option
from fedcast.training.algorithms import Algorithm, Tensors, Terms, subtract


@dataclass(frozen=True)
class FedProxOptions:
    """Options of FedProx."""

    prox_weight: float = option(0.01, "weight μ of the proximal term μ/2 ‖w_k − w‖²", ge=0)


def _terms(options: FedProxOptions, weights: Tensors, start: Tensors, _: Tensors) -> Terms:
    return [(options.prox_weight, subtract(weights, start))] if options.prox_weight else []


ALGORITHM = Algorithm(
    "FedProx: FedAvg with a proximal term in the local loss", options=FedProxOptions, local_terms=_terms
)
