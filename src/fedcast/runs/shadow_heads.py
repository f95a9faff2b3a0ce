"""Attack what a head sends by models: those trained on it are surer of a sample that it was made of.

The attacker plays the head: it draws what the head would send with a sample and without it, many times, and trains a
model on each of these, all at once. As in LiRA (Carlini et al. 2022) the test statistic is the model's confidence in
the sample's label, and games that were played before say how likely it is with the sample and without.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import nn

from fedcast.data import Dataset, assignment_from_owners, stored
from fedcast.sharing import Games, Made, Scores, Target
from fedcast.training import TrainingSettings, train_separately
from fedcast.typing import Floats

_EPOCHS = 10
# Confidences of 0 and 1 have no finite logit.
_TINY = 1e-7


def shadow_head_scores(
    games: Games, target: Target, dataset: Dataset, model: nn.Module, settings: TrainingSettings, seed: int
) -> Scores:
    """Return the confidence in the target's label of models that are trained on what the head sent in each game."""
    made = [*games.sent[0], *games.sent[1]]
    sizes = [len(some.labels) for some in made]
    users = assignment_from_owners(np.repeat(np.arange(len(made)), sizes), np.arange(sum(sizes)), len(made))
    found = np.zeros(len(made))
    sample = torch.from_numpy(target.held.inputs[[target.position]].astype(np.float32))
    label = int(target.held.labels[target.position])
    trained = train_separately(_received(made, dataset), users, model, settings, epochs=_EPOCHS, seed=seed)
    names = [name for name, _ in model.eval().named_parameters()]
    for user, weights in trained:
        inputs = sample.to(weights[0].device, weights[0].dtype)
        with torch.no_grad():
            scores = torch.func.functional_call(model, dict(zip(names, weights, strict=True)), (inputs,))
        found[user] = confidence(scores.double().cpu(), np.array([label]))[0]
    half = len(made) // 2
    return Scores(found[:half], found[half:])


def confidence(scores: torch.Tensor, labels: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Floats:
    """Return log p/(1 − p) of the probabilities p of labels [N] under a model's scores [N, Y], float64[N]."""
    likely = torch.softmax(scores, dim=1).numpy()
    right = np.clip(likely[np.arange(len(labels)), labels], _TINY, 1 - _TINY)
    logits: Floats = np.log(right / (1 - right))
    return logits


def _received(made: list[Made], dataset: Dataset) -> Dataset:
    """Return what was sent in all games as training samples, stored as members receive them."""
    kind = np.asarray(dataset.inputs[:1]).dtype
    soft = [some.soft_labels for some in made if some.soft_labels is not None]
    return replace(
        dataset,
        inputs=np.concatenate([stored(some.inputs, kind, dataset.scale) for some in made]),
        labels=np.concatenate([some.labels for some in made]),
        soft_labels=np.concatenate(soft).astype(np.float32) if soft else None,
        groups=None,
    )
