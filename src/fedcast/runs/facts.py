"""What is known of a run before it is trained: numbers for tables, and tables of users, heads and classes."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from fedcast.allocation import part_of
from fedcast.clustering.explain import HeadRow, explain
from fedcast.data import average_emd, average_js, average_kl, class_counts, distribution_shift
from fedcast.runs.prepare import PreparedRun

Table = dict[str, list[Any]]


@dataclass(frozen=True)
class Facts:
    """A run before training, in numbers.

    Attributes:
        emd_before: average EMD before sharing.
        emd_after: the same after sharing, in the scenario's weighting; as the plan counts, by the mix of which a head
            sends a random part.
        emd_after_a: the same, weights as printed in the paper.
        emd_after_b: the same, weights by sizes after sharing.
        emd_after_c: the same, weights by sizes before sharing.
        js_before: mean JS divergence before sharing, nats.
        js_after: the same after sharing.
        kl_after: mean KL divergence after sharing, nats.
        shift: how far sharing moved the overall mixture.
        heads: users that share.
        members: users that receive samples, from a head or from the server.
        sent_samples: samples that heads or the server send, each counted once per multicast.
        received_samples: entries of the privacy ledger: a sample at a receiver.
        distinct_samples: different samples that left their owner.
        largest_revealed_share: of a user's samples, over users.
        average_sharing_ratio: the paper's measure of leakage.
        sharing_s: delay of sharing, once.
        download_s: of a round of all users, as its slowest sees it.
        compute_s: likewise.
        upload_s: likewise.
        sharing_j: energy of all heads for sharing.
        round_j: energy of all users in a round.
        sharing_bytes: bytes on the air for sharing.
        round_bytes: bytes of a round, both ways.
    """

    emd_before: float
    emd_after: float
    emd_after_a: float
    emd_after_b: float
    emd_after_c: float
    js_before: float
    js_after: float
    kl_after: float
    shift: float
    heads: int
    members: int
    sent_samples: int
    received_samples: int
    distinct_samples: int
    largest_revealed_share: float
    average_sharing_ratio: float
    sharing_s: float
    download_s: float
    compute_s: float
    upload_s: float
    sharing_j: float
    round_j: float
    sharing_bytes: float
    round_bytes: float

    @property
    def round_s(self) -> float:
        """Delay of a round."""
        return self.download_s + self.compute_s + self.upload_s


def facts_of(run: PreparedRun) -> Facts:
    """The numbers of a prepared run; averages are over those who train."""
    clustering, ledger, cost = run.clustering, run.shared.ledger, run.cost
    skew, after = (part_of(some, run.trained) for some in (run.world.skew, clustering.after))
    weighting = run.world.scenario.clustering.weighting
    download_s, compute_s, upload_s = cost.round.phases_s
    broadcast = 0 if clustering.broadcast is None else int(clustering.broadcast.volume)
    return Facts(
        emd_before=average_emd(skew),
        emd_after=average_emd(skew, after, weighting),
        emd_after_a=average_emd(skew, after, "A"),
        emd_after_b=average_emd(skew, after, "B"),
        emd_after_c=average_emd(skew, after, "C"),
        js_before=average_js(skew),
        js_after=average_js(skew, after, weighting),
        kl_after=average_kl(skew, after, weighting),
        shift=distribution_shift(after),
        heads=len(clustering.heads),
        members=int((clustering.received > 0).sum()),
        sent_samples=broadcast or int(clustering.shared.sum()),
        received_samples=len(ledger),
        distinct_samples=ledger.distinct_samples,
        largest_revealed_share=float(ledger.revealed_shares(run.world.population.sizes).max()),
        average_sharing_ratio=clustering.average_sharing_ratio,
        sharing_s=cost.sharing_s,
        download_s=download_s,
        compute_s=compute_s,
        upload_s=upload_s,
        sharing_j=cost.sharing_j,
        round_j=cost.round_j,
        sharing_bytes=cost.sharing_bytes,
        round_bytes=cost.round_bytes,
    )


def tables_of(run: PreparedRun) -> dict[str, Table]:
    """One row per user (where it stands, what it does, what became of it), per head, and per user and class."""
    return {"users": _users(run), "heads": _heads(run), "classes": _classes(run)}


def _users(run: PreparedRun) -> Table:
    world, clustering = run.world, run.clustering
    story = explain(clustering)
    trained = run.trained
    frequency, energy = np.zeros((2, world.skew.num_users))
    frequency[trained], energy[trained] = run.cost.round.frequency_hz, run.cost.round.energy_j
    rows = story.users
    return {
        "user": [row.user for row in rows],
        "x_m": world.layout.positions_m[:, 0].tolist(),
        "y_m": world.layout.positions_m[:, 1].tolist(),
        "samples": world.population.sizes.tolist(),
        "status": [row.status for row in rows],
        "reason": [row.reason for row in rows],
        "head": [row.head for row in rows],
        "received": [row.received for row in rows],
        "sent": clustering.shared.tolist(),
        "emd_before": [row.emd_before for row in rows],
        "emd_after": [row.emd_after for row in rows],
        "rate_bps": [row.rate_bps for row in rows],
        "closeness": [row.closeness for row in rows],
        "frequency_hz": frequency.tolist(),
        "round_j": energy.tolist(),
        "revealed_share": run.shared.ledger.revealed_shares(world.population.sizes).tolist(),
    }


def _heads(run: PreparedRun) -> Table:
    rows = explain(run.clustering).heads
    return {item.name: [getattr(row, item.name) for row in rows] for item in fields(HeadRow)}


def _classes(run: PreparedRun) -> Table:
    """Samples of each class that each user trains on, before and after sharing."""
    world, dataset = run.world, run.world.population.dataset
    assert dataset is not None
    classes, before = dataset.num_classes, world.population.counts
    after = class_counts(run.shared.assignment, dataset.labels, classes)
    table: Table = {"user": list(range(len(before)))}
    for label in range(classes):
        table[f"before_{label}"] = before[:, label].tolist()
    for label in range(classes):
        table[f"after_{label}"] = after[:, label].tolist()
    return table
