"""Checks that every kind of sharing must pass: functions of a kind of sharing and its options."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from fedcast.clustering import Clustering, cluster, make_problem
from fedcast.data import Assignment, Population, populate, scaled, skew_of
from fedcast.network import graph_from_edges
from fedcast.scenario import ClusteringSettings, Data
from fedcast.sharing import SERVER, SIGMA_STEPS, Held, Made, RecordedNoise, Request, Sharing, seeded_noise
from fedcast.testing.common import contents, sample_data, unchanged
from fedcast.typing import Floats

_USERS = 12


class SharingCase(NamedTuple):
    """Inputs of a check; `consent` is the largest share of its samples that each user may send."""

    population: Population
    own: Assignment  #: samples of each user before sharing
    clustering: Clustering
    consent: Floats


def keeps_own_samples_first(sharing: Sharing, options: Any) -> None:
    """Check that users keep their own samples, in order, before those that they receive."""
    for case in cases():
        shared, own = sharing.share(case.population, case.clustering, 0, options), case.own
        for user in range(_USERS):
            before, after = own.of(user), shared.assignment.of(user)
            assert np.array_equal(after[: len(before)], before), f"user {user}: its own samples do not come first"


def ledger_lists_what_was_received(sharing: Sharing, options: Any) -> None:
    """Check that the ledger lists exactly the samples that users received, and who held them before.

    A kind that sends nothing has an empty ledger, and users train on samples of their own alone.
    """
    for case in cases():
        shared, own = sharing.share(case.population, case.clustering, 0, options), case.own
        ledger = shared.ledger
        for user in range(_USERS):
            received = shared.assignment.of(user)[len(own.of(user)) :]
            if not sharing.sends:
                assert np.isin(received, own.of(user)).all(), f"user {user}: received a sample though nothing is sent"
                received = received[:0]
            listed = ledger.samples[ledger.receivers == user]
            assert np.array_equal(np.sort(received), np.sort(listed)), f"user {user}: the ledger lists other samples"
        assert case.population.dataset is not None
        size, made = len(case.population.dataset), 0 if shared.generated is None else len(shared.generated)
        senders: dict[int, int] = {}
        for sender, sample in set(zip(ledger.senders.tolist(), ledger.samples.tolist(), strict=True)):
            held = own.samples if sender == SERVER else own.of(sender)
            generated = size <= sample < size + made and senders.setdefault(sample, sender) == sender
            assert generated or sample in held, f"user {sender}: sent sample {sample}, which it neither holds nor made"


def sends_along_the_clustering(sharing: Sharing, options: Any) -> None:
    """Check that members receive from their own head and others from the server or nobody."""
    for case in cases():
        ledger, clustering = sharing.share(case.population, case.clustering, 0, options).ledger, case.clustering
        expected = np.full(len(ledger), SERVER) if clustering.broadcast else clustering.head_of[ledger.receivers]
        assert np.array_equal(ledger.senders, expected), "a user received samples from another user than its head"
        assert clustering.broadcast or (ledger.senders >= 0).all(), "a user without a head received samples"


def keeps_volumes_and_consent(sharing: Sharing, options: Any) -> None:
    """Check that nobody receives more samples than planned, and nobody sends more than it consents to."""
    for case in cases():
        ledger = sharing.share(case.population, case.clustering, 0, options).ledger
        received = np.bincount(ledger.receivers, minlength=_USERS)
        assert (received <= case.clustering.received).all(), "a user received more samples than planned"
        revealed = ledger.revealed_shares(case.population.sizes)
        assert (revealed <= case.consent + 1e-9).all(), "a user sent a larger share of its samples than it consents to"


def generates_valid_samples(sharing: Sharing, options: Any) -> None:
    """Check that generated samples are stored as those of the dataset are, in [0, 1], with valid labels."""
    for case in cases():
        dataset, shared = case.population.dataset, sharing.share(case.population, case.clustering, 0, options)
        assert dataset is not None
        if (generated := shared.generated) is None:
            continue
        inputs, shape = generated.inputs, (len(generated), *dataset.sample_shape)
        assert inputs.shape == shape, f"generated samples have shape {inputs.shape}; expected {shape}"
        kind = np.asarray(dataset.inputs).dtype
        assert inputs.dtype == kind, f"generated samples are of type {inputs.dtype}; expected {kind}"
        values = scaled(inputs, dataset.scale)
        assert np.isfinite(values).all(), "a generated sample is not finite"
        assert values.min() >= 0, "a generated sample is below 0"
        assert values.max() <= 1 + 1e-6, "a generated sample is above 1"
        assert ((generated.labels >= 0) & (generated.labels < dataset.num_classes)).all(), "a label is no class"
        if (soft := generated.soft_labels) is not None:
            assert soft.shape == (len(generated), dataset.num_classes), f"soft labels have shape {soft.shape}"
            assert (soft >= 0).all(), "a soft label is below 0"
            assert np.allclose(soft.sum(axis=1), 1), "soft labels do not add up to 1"


def counts_what_it_reveals(sharing: Sharing, options: Any) -> None:
    """Check that a private kind keeps to its ε, counts it for senders alone, and that others count what they reveal."""
    for case in cases():
        shared, own = sharing.share(case.population, case.clustering, 0, options), case.own
        ledger, privacy = shared.ledger, shared.ledger.privacy
        assert (privacy is not None) == sharing.private, "a kind is private if and only if its ledger says so"
        senders = set(ledger.senders.tolist())
        if privacy is not None:
            assert privacy.delta == options.delta, f"δ is {privacy.delta}; expected that of the options"
            assert (privacy.epsilon <= options.epsilon * (1 + 1e-6)).all(), "a user spent more than ε"
            if case.clustering.broadcast is None:
                spenders = set(np.flatnonzero(privacy.mu).tolist())
                assert spenders == senders, "users that spend privacy are not those that send"
        elif shared.generated is not None:
            assert ledger.sources is not None, "generated samples without a guarantee reveal samples; expected which"
            assert set(ledger.sources[0].tolist()) == senders, "a user sends, but reveals nothing"
            for sender, sample in ledger.sources.T.tolist():
                held = own.samples if sender == SERVER else own.of(sender)
                assert sample in held, f"user {sender}: reveals sample {sample}, which it does not hold"


def protects_every_sample(sharing: Sharing, options: Any) -> None:
    """Check a private kind on pairs of data sets that differ in one sample, its input, its label or both.

    The numbers that noise is added to must not move further than μ allows, and what is sent must depend on the data
    through noisy numbers alone: the same noisy numbers give the same samples.
    """
    if not sharing.private or sharing.make is None:
        return
    for first, second in neighbours():
        noise = RecordedNoise(seeded_noise(np.random.default_rng(0)))
        made = sharing.make(first, _request(noise), options)
        repeated = RecordedNoise(noise, noise.noisy)
        other = sharing.make(second, _request(repeated), options)
        moves = [(a - b) / SIGMA_STEPS for a, b in zip(noise.exact, repeated.exact, strict=True)]
        moved = float(np.sqrt(sum(np.square(move).sum() for move in moves)))
        assert made.mu is not None, "samples of a private kind have no μ"
        assert moved <= made.mu * (1 + 1e-9), f"replacing a sample moves what is released by {moved:.4g} σ, above μ"
        assert _sent(made) == _sent(other), "what is sent depends on the data other than through noise"


def _request(noise: RecordedNoise) -> Request:
    return Request(9, False, np.random.default_rng(1), noise)


def _sent(made: Made) -> tuple[bytes, bytes]:
    return np.ascontiguousarray(made.inputs).tobytes(), np.ascontiguousarray(made.labels).tobytes()


def neighbours() -> Iterator[tuple[Held, Held]]:
    """Yield pairs of data sets that differ in one sample, as far apart as can be and less; class 2 is empty or not."""
    rng = np.random.default_rng(0)
    for shape in ((1, 4, 4), (3, 4, 4), (5,)):
        spot = np.zeros(shape)
        spot.flat[0] = 1.0
        changes: list[tuple[Floats, Floats]] = [
            (np.ones(shape), np.ones(shape)),
            (np.zeros(shape), np.ones(shape)),
            (spot, 1 - spot),
        ]
        changes += [(rng.random(shape), rng.random(shape)) for _ in range(3)]
        for (before, after), label in itertools.product(changes, (0, 1, 2)):
            inputs, labels = rng.random((12, *shape), dtype=np.float32), np.arange(12) % 2
            pair = []
            for sample, its_class in ((before, 0), (after, label)):
                inputs[3], labels[3] = sample, its_class
                pair.append(Held(inputs.copy(), labels.copy(), 3))
            yield pair[0], pair[1]


def is_deterministic(sharing: Sharing, options: Any) -> None:
    """Check that the same seed gives the same samples, and that the arguments are left unchanged."""
    for case in cases():
        with unchanged(case.population, case.clustering):
            first, second = (sharing.share(case.population, case.clustering, 3, options) for _ in range(2))
        assert contents(first) == contents(second), "two calls with the same seed differ"


CHECKS = (
    keeps_own_samples_first, ledger_lists_what_was_received, sends_along_the_clustering, keeps_volumes_and_consent,
    generates_valid_samples, counts_what_it_reveals, protects_every_sample, is_deterministic,
)  # fmt: skip


def cases() -> Iterator[SharingCase]:
    """Yield populations with clusterings of several rules; every third user consents to send nothing."""
    dataset = sample_data(np.random.default_rng(0).integers(0, 4, 600), (3,))
    population = populate(dataset, Data(num_users=_USERS, tables={"label_skew": {"single_class_share": 0.6}}), 0)
    assert population.assignment is not None
    first, second = np.triu_indices(_USERS, 1)
    graph = graph_from_edges(first, second, 1e6, 0.9, num_users=_USERS)
    consent = np.where(np.arange(_USERS) % 3 == 0, 0.0, 0.15)
    for rule in ("none", "daca", "gain", "central"):
        settings = ClusteringSettings(rule=rule, sharing_ratio=0.2)
        problem = make_problem(skew_of(population.counts), graph, settings, max_ratios=consent, whole=True)
        yield SharingCase(population, population.assignment, cluster(problem), consent)
