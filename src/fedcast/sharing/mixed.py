"""Share averages of samples with soft labels: **no privacy claim**.

Averages hide single samples from the eye, not from an attack: InstaHide, which mixes images in this way and flips signs
of pixels besides, was broken by Carlini, Deng, Garg et al. (2021, arXiv 2011.05315). The ledger therefore counts every
sample in an average as revealed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcast.registry import option
from fedcast.sharing.generate import generating
from fedcast.sharing.ledger import Held, Made, Request
from fedcast.sharing.raw import draw_samples


@dataclass(frozen=True)
class MixedOptions:
    """Options of kind ``mixed``."""

    samples: int = option(2, "samples in an average", ge=1)
    one_class: bool = option(False, "averages of one class, with its label; otherwise of any, with soft labels")


def mix(held: Held, request: Request, options: MixedOptions) -> Made:
    """Average each of the drawn samples with others of them; a class with too few takes one several times."""
    rng = request.rng
    drawn = draw_samples(held.labels, request.volume, request.balanced, rng)
    labels, parts = held.labels[drawn], np.empty((len(drawn), options.samples), dtype=np.int64)
    parts[:, 0] = np.arange(len(drawn))
    for label in np.unique(labels) if options.one_class else (None,):
        rows = np.arange(len(drawn)) if label is None else np.flatnonzero(labels == label)
        for column in range(1, options.samples):
            # Places in a ring of a random order: different partners, as long as there are enough.
            order = rng.permutation(rows)
            parts[order, column] = np.roll(order, 1)
    inputs = held.inputs[drawn][parts].mean(axis=1)
    soft = np.eye(held.num_classes, dtype=np.float32)[labels[parts]].mean(axis=1)
    return Made(inputs, soft.argmax(axis=1), None if options.one_class else soft, sources=drawn)


SHARING = generating(
    mix, "heads send averages of samples with soft labels; no privacy claim", MixedOptions, private=False
)
