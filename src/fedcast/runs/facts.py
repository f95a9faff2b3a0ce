"""Compute what is known of a run before training: facts.json, and the tables of users, heads and classes."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from fedcast.allocation import part_of
from fedcast.clustering import Explanation, HeadRow, explain
from fedcast.cost import Metrics
from fedcast.data import average_emd, average_kl, class_counts
from fedcast.runs.prepare import PreparedRun

Table = dict[str, list[Any]]


@dataclass(frozen=True, kw_only=True)
class Facts(Metrics):
    """The metrics of a run's plan, and counts of its privacy ledger."""

    emd_after_a: float  #: average EMD after sharing, weights as printed in the paper
    emd_after_b: float  #: the same, weights by sizes after sharing
    emd_after_c: float  #: the same, weights by sizes before sharing
    kl_after: float  #: mean KL divergence after sharing, nats
    heads: int  #: users that send samples
    members: int  #: users that receive samples, from a head or from the server
    sent_samples: int  #: samples that heads or the server send, each counted once per multicast
    received_samples: int  #: entries of the privacy ledger, one for each sample that a user received
    distinct_samples: int  #: different samples among them
    largest_revealed_share: float  #: largest share of its samples that a user revealed


def facts_of(run: PreparedRun) -> Facts:
    """Return the numbers of a prepared run; averages are over the users that train."""
    clustering, ledger, plan = run.clustering, run.shared.ledger, run.plan
    before, after = (part_of(skew, run.trained) for skew in (run.world.skew, run.after))
    return Facts(
        **{field.name: getattr(plan, field.name) for field in fields(Metrics)},
        emd_after_a=average_emd(before, after, "A"),
        emd_after_b=average_emd(before, after, "B"),
        emd_after_c=average_emd(before, after, "C"),
        kl_after=average_kl(before, after, run.world.scenario.clustering.weighting),
        heads=len(plan.heads),
        members=int((clustering.received > 0).sum()),
        sent_samples=int(plan.server_samples) or int(plan.shared.sum()),
        received_samples=len(ledger),
        distinct_samples=ledger.distinct_samples,
        largest_revealed_share=float(ledger.revealed_shares(run.world.population.sizes).max()),
    )


def tables_of(run: PreparedRun) -> dict[str, Table]:
    """Return tables with one row per user, per head, and per user and class."""
    story = explain(run.clustering)
    heads = {item.name: [getattr(row, item.name) for row in story.heads] for item in fields(HeadRow)}
    return {"users": _users(run, story), "heads": heads, "classes": _classes(run)}


def _users(run: PreparedRun, story: Explanation) -> Table:
    world, plan = run.world, run.plan

    def explained(*names: str) -> Table:
        return {name: [getattr(row, name) for row in story.users] for name in names}

    return {
        **explained("user"),
        "x_m": world.layout.positions_m[:, 0].tolist(),
        "y_m": world.layout.positions_m[:, 1].tolist(),
        "samples": world.population.sizes.tolist(),
        **explained("status", "reason", "head", "received"),
        "sent": run.clustering.shared.tolist(),
        **explained("emd_before", "emd_after", "rate_bps", "closeness"),
        "frequency_hz": plan.frequency_hz.tolist(),
        "round_j": plan.energy_j.tolist(),
        "revealed_share": run.shared.ledger.revealed_shares(world.population.sizes).tolist(),
    }


def _classes(run: PreparedRun) -> Table:
    """Return the samples of each class that each user trains on, before and after sharing."""
    population, dataset = run.world.population, run.dataset
    after = class_counts(run.shared.assignment, run.shared.labels(dataset), dataset.num_classes)
    table: Table = {"user": list(range(population.num_users))}
    for when, counts in (("before", population.counts), ("after", after)):
        table |= {f"{when}_{label}": column.tolist() for label, column in enumerate(counts.T)}
    return table
