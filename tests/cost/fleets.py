"""Small fleets for tests."""

from __future__ import annotations

import numpy as np

from fedcast import cost
from fedcast.network.geometry import Layout
from fedcast.scenario import Scenario


def scenario(**sections):
    return Scenario.model_validate({"training": {"model": "cnn"}, **sections})


def fleet_at(distances, base=None):
    base = base or scenario()
    places = np.column_stack([distances, np.zeros(len(distances))])
    return cost.fleet_of(base, Layout(places, np.zeros((1, 2)), np.zeros(len(places), dtype=np.int64)))
