"""Choose the kind of sharing of each head, and what its samples are worth.

A kind is chosen for every user before clustering, since each may become a head. With `sharing.kind` = best a few
choices are planned in full, and the fastest is kept: for each user the kind with the largest volume, counted in raw
samples; one private kind for all who may send it and raw samples for the others; raw samples alone. Clusters and
volumes of each choice are found as for a named kind. Other mixtures are not searched.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedcast.clustering import from_server
from fedcast.cost import generates, privacy_mu, private_kinds, shareable
from fedcast.formatting import number
from fedcast.plan.world import World
from fedcast.rounds import RoundsModel, signal_of
from fedcast.scenario import BEST_KIND
from fedcast.typing import Bools, Floats

RAW = "raw"
Kinds = NDArray[np.str_]


def kinds_of(world: World) -> Kinds:
    """Return the kind of sharing of each user, str[K]; best that is not chosen yet counts as raw."""
    kind = world.scenario.sharing.kind
    same = np.full(world.skew.num_users, RAW if kind == BEST_KIND else kind)
    return same if world.kinds is None else world.kinds


def with_kinds(world: World, kinds: Kinds, epsilon: float | None = None) -> World:
    """Return the world in which each user sends its kind, as much as it may; `epsilon` replaces that of the options."""
    devices, consent = world.devices, np.zeros(len(kinds))
    for kind in np.unique(kinds):
        mu = None if epsilon is None else privacy_mu(world.scenario, str(kind), epsilon)
        consent = np.where(kinds == kind, shareable(devices, world.scenario, str(kind), mu), consent)
    fleet = replace(world.fleet, devices=replace(world.fleet.devices, consent=consent))
    return replace(world, fleet=fleet, kinds=kinds)


def worth_of(world: World, model: RoundsModel, epsilon: float | None = None) -> Floats:
    """Return the raw samples that a sample of each user counts as, float64[K]; 1 where the fit does not know it."""
    kinds, worth = kinds_of(world), np.ones(world.skew.num_users)
    for kind in np.unique(kinds):
        if str(kind) in model.worth:
            mu = privacy_mu(world.scenario, str(kind), epsilon)
            found = model.worth[str(kind)].at(signal_of(mu, world.seen_counts))
            worth = np.where(kinds == kind, found, worth)
    return worth


def reveals(world: World) -> Bools:
    """Return whose samples members read if it is a head, bool[K]: of all kinds but the private ones."""
    return ~np.isin(kinds_of(world), private_kinds())


def known_kinds(world: World, model: RoundsModel) -> list[str]:
    """Return the private kinds whose worth the fit knows, and that can be made of the data."""
    dataset = world.population.dataset
    text = dataset is not None and dataset.is_text
    return [] if text else [kind for kind in private_kinds() if kind in model.worth]


def kind_choices(world: World, model: RoundsModel) -> list[Kinds]:
    """Return the choices to plan for `sharing.kind` = best, str[K] each, without repetition."""
    users, most = world.skew.num_users, world.scenario.allocation.max_sharing_ratio
    private = known_kinds(world, model)
    raw = np.full(users, RAW, dtype=f"<U{max(map(len, [RAW, *private]))}")
    if from_server(world.scenario.clustering.rule):  # what the server sends counts as raw samples in the prediction
        return [raw]
    allowed = {kind: shareable(world.devices, world.scenario, kind) for kind in [*private, RAW]}
    counted = np.stack(
        [
            np.minimum(most, share) * worth_of(replace(world, kinds=np.full(users, kind)), model)
            for kind, share in allowed.items()
        ]
    )
    # Of equals the first, so that nothing is revealed in vain.
    choices = [np.array([*private, RAW])[counted.argmax(axis=0)]]
    choices += [np.where(allowed[kind] > 0, kind, raw) for kind in private]
    return list({tuple(choice.tolist()): choice for choice in [*choices, raw]}.values())


def kind_notes(world: World, model: RoundsModel, heads: NDArray[np.int64]) -> list[str]:
    """Return what the samples of the heads are worth by the fit, or that it does not say."""
    notes = []
    kinds, worth = kinds_of(world)[heads], worth_of(world, model)[heads]
    for kind in map(str, np.unique(kinds)):
        if not generates(kind):
            continue
        if kind not in model.worth:
            notes.append(
                f"sharing.kind = {kind}: fit {model.name} does not say what its samples are worth; rounds are "
                "predicted for raw samples, with generated ones expect more"
            )
            continue
        found, fitted = worth[kinds == kind], model.worth[kind]
        mean, mu = float(found.mean()), privacy_mu(world.scenario, kind)
        signals = signal_of(mu, world.seen_counts)[heads][kinds == kind]
        low, high = fitted.interval(float(np.median(signals)))
        text = (
            f"{kind}: a sample counts as {number(mean)} raw ones in the prediction of rounds ({low:.2f} to {high:.2f}, "
            f"fit {model.name}, {fitted.num_runs} runs)"
        )
        first, last = fitted.signal_range
        if np.isfinite(mu) and not (first / 2 <= np.median(signals) <= last * 2):
            text += "; its runs had heads with other numbers of samples or ε, so that this is extrapolated"
        notes.append(text)
    return notes
