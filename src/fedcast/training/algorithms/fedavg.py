"""FedAvg (McMahan et al. 2017): local SGD, then the weighted mean of the users' weights."""

from __future__ import annotations

from fedcast.training.algorithms import Algorithm

ALGORITHM = Algorithm("FedAvg: local SGD, then the weighted mean")
