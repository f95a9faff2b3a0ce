"""Accuracy of each user of a finished run, and what a comparison says of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fedcast.training import mean_and_worst, own_accuracies

if TYPE_CHECKING:
    from fedcast.runs.stored_run import StoredRun

# What comparisons say of runs whose users fine-tuned the model, beside other measures.
FINE_TUNED = ("fine_tuned_own_accuracy", "fine_tuned_worst_accuracy", "fine_tuned_accuracy")


def user_scores(run: StoredRun) -> dict[str, list[Any]]:
    """Return accuracies after the last round, one row per user, by column.

    ``own_accuracy``: of the trained model under the user's own label distribution before sharing: the accuracy on each
    class of the test set, weighted by the class's share in that distribution; a class that the test set does not have
    counts with the accuracy on the whole of it. None: the user holds no samples. If users fine-tuned the model, also
    ``fine_tuned_own_accuracy`` and ``fine_tuned_accuracy``, see `History.users`. A run of an older version, which
    stored no accuracy on classes, has users alone.
    """
    if run.history.users:
        return {"user": run.tables["users"]["user"], **run.history.users}
    last, classes = run.history.records[-1], run.tables["classes"]
    counts = np.array([column for name, column in classes.items() if name.startswith("before_")], dtype=np.float64).T
    if len(last.class_accuracy) != counts.shape[1]:
        return {"user": run.tables["users"]["user"]}
    by_class = np.array([last.accuracy if value is None else value for value in last.class_accuracy])
    sizes = counts.sum(axis=1)
    own = own_accuracies(by_class, counts / np.maximum(sizes, 1)[:, None]).tolist()
    known = [value if size else None for value, size in zip(own, sizes, strict=True)]
    return {"user": run.tables["users"]["user"], "own_accuracy": known}


def fine_tuned_measures(run: StoredRun) -> dict[str, float]:
    """Return means over the users that fine-tuned the model, by name of `FINE_TUNED`; none if none did.

    The worst tenth are those of the fine-tuned models, each under its user's own label distribution.
    """
    own, overall = (
        np.array([value for value in run.history.users.get(name, []) if value is not None])
        for name in ("fine_tuned_own_accuracy", "fine_tuned_accuracy")
    )
    return dict(zip(FINE_TUNED, (*mean_and_worst(own), float(overall.mean())), strict=True)) if len(own) else {}
