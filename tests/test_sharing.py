import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcast.clustering import cluster, make_problem
from fedcast.data import dataset_from_arrays, populate
from fedcast.data.skew import skew_of
from fedcast.errors import FedcastError
from fedcast.network import graph_from_edges
from fedcast.random import generator
from fedcast.registry import NoOptions
from fedcast.scenario import ClusteringSettings, Data
from fedcast.sharing import CONTROLS, SERVER, Ledger, Shared, Sharing, find_sharing, share_samples, whole_water_fill
from fedcast.testing.sharing import CHECKS, ledger_lists_what_was_received


def world(partition="label_skew", num_users=12, samples=600, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 4, samples)
    dataset = dataset_from_arrays(rng.random((samples, 3)), labels, rng.random((1, 3)), labels[:1])
    population = populate(dataset, Data(partition=partition, num_users=num_users, single_class_share=0.6), seed)
    first, second = np.triu_indices(num_users, 1)
    kept = rng.random(len(first)) < 0.5
    graph = graph_from_edges(first[kept], second[kept], 1e6, 0.9, num_users=num_users)
    return population, graph


def clustered(population, graph, rule, composition="auto", ratio=0.2, **changes):
    settings = ClusteringSettings(rule=rule, composition=composition, sharing_ratio=ratio)
    return cluster(make_problem(skew_of(population.counts), graph, settings, whole=True, **changes))


@pytest.mark.parametrize("rule", ["daca", "gain", "blend", "scc"])
@pytest.mark.parametrize("composition", ["own", "balanced"])
def test_members_receive_what_the_plan_says(rule, composition):
    population, graph = world()
    clustering = clustered(population, graph, rule, composition)
    assert len(clustering.members)
    shared = share_samples(population, clustering, seed=1)
    own, after, labels = population.assignment, shared.assignment, population.dataset.labels
    for user in range(population.num_users):
        before = own.of(user)
        assert np.array_equal(after.of(user)[: len(before)], before), "its own samples come first"
        received = after.of(user)[len(before) :]
        head = clustering.head_of[user]
        if head < 0:
            assert len(received) == 0
            continue
        assert len(received) == clustering.shared[head]
        assert len(np.unique(received)) == len(received)
        assert np.isin(received, own.of(head)).all(), "a head sends its own samples"
        if composition == "balanced":
            counts = np.bincount(labels[received], minlength=4)
            due = clustering.problem.sent_distributions[head] * len(received)
            assert np.abs(counts - due).max() < 1, "the mix that the planner counted on, in whole samples"
    assert after.sizes == pytest.approx(clustering.after.sizes)


def test_a_multicast_sends_the_same_samples_to_all_members():
    population, graph = world()
    clustering = clustered(population, graph, "daca")
    after, own = share_samples(population, clustering).assignment, population.assignment
    head = int(clustering.heads[clustering.cluster_sizes[clustering.heads].argmax()])
    received = [after.of(user)[len(own.of(user)) :].tolist() for user in clustering.members_of(head)]
    assert len(received) > 1
    assert all(other == received[0] for other in received)


def test_ledger_names_every_copy(tmp_path):
    population, graph = world()
    clustering = clustered(population, graph, "daca")
    shared = share_samples(population, clustering)
    ledger = shared.ledger
    assert len(ledger) == int(clustering.received.sum())
    owner_of = np.full(len(population.dataset), -1)
    owner_of[population.assignment.samples] = population.assignment.owners
    assert np.array_equal(owner_of[ledger.samples], ledger.senders)
    assert np.array_equal(clustering.head_of[ledger.receivers], ledger.senders)
    shares = ledger.revealed_shares(population.sizes)
    assert shares[clustering.heads] == pytest.approx(
        clustering.shared[clustering.heads] / population.sizes[clustering.heads]
    )
    assert ledger.distinct_samples == int(clustering.shared.sum())
    lines = ledger.save(tmp_path / "ledger.csv").read_text().splitlines()
    assert lines[0] == "sample,sender,receiver"
    assert len(lines) == len(ledger) + 1


def test_the_server_sends_one_balanced_set_to_everybody():
    population, graph = world()
    clustering = clustered(population, graph, "central", server_volume=8.0)
    shared = share_samples(population, clustering)
    assert (shared.ledger.senders == SERVER).all()
    assert shared.assignment.sizes.tolist() == (population.sizes + 8).tolist()
    sent = np.unique(shared.ledger.samples)
    assert np.bincount(population.dataset.labels[sent]).tolist() == [2, 2, 2, 2]
    assert (shared.ledger.revealed_shares(population.sizes) == 0).all()


def test_the_servers_set_is_balanced_whatever_the_planner_sees():
    population, graph = world()
    blind = clustered(population, graph, "central", server_volume=8.0, one_hot=False)
    sent = np.unique(share_samples(population, blind).ledger.samples)
    assert np.bincount(population.dataset.labels[sent]).tolist() == [2, 2, 2, 2]


def test_no_sharing_leaves_data_as_they_are():
    population, graph = world()
    shared = share_samples(population, clustered(population, graph, "none"))
    assert np.array_equal(shared.assignment.samples, population.assignment.samples)
    assert (len(shared.ledger), shared.ledger.distinct_samples) == (0, 0)


def test_seed_chooses_the_samples():
    population, graph = world()
    clustering = clustered(population, graph, "daca")
    first, again, other = (share_samples(population, clustering, seed).ledger.samples for seed in (0, 0, 1))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_what_cannot_be_shared():
    population, graph = world()
    clustering = clustered(population, graph, "daca")
    with pytest.raises(FedcastError, match="the clustering is of 12 users, the population of 5"):
        share_samples(world(num_users=5)[0], clustering)
    from fedcast.data import make_population

    with pytest.raises(FedcastError, match="counts but no samples"):
        share_samples(make_population(Data(dataset="synthetic", num_users=12)), clustering)


@given(st.lists(st.integers(0, 30), min_size=1, max_size=8), st.floats(0, 1))
def test_whole_water_fill_is_the_most_equal_choice(counts, share):
    counts = np.array(counts)
    volume = int(share * counts.sum())
    taken = whole_water_fill(counts, volume)
    assert taken.sum() == volume
    assert ((taken >= 0) & (taken <= counts)).all()
    open_classes = taken[taken < counts]
    if len(open_classes):
        assert taken.max() - open_classes.min() <= 1, "no class gives two more than one that could give more"


@pytest.mark.parametrize("name", ["raw", *CONTROLS.values()])
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_every_kind_of_sharing_passes_the_conformance_kit(check, name):
    kind = find_sharing(name)
    check(kind, kind.options())


@pytest.mark.parametrize("name", CONTROLS.values())
@pytest.mark.parametrize("ratio", [0.2, 1.0])
def test_a_control_repeats_the_samples_of_a_user_equally_often(name, ratio):
    population, graph = world("quantity")
    clustering = clustered(population, graph, "daca", ratio=ratio)
    share = find_sharing(name).share
    shared, again, other = (share(population, clustering, seed) for seed in (0, 0, 1))
    for user in range(population.num_users):
        _, times = np.unique(shared.assignment.of(user), return_counts=True)
        assert len(times) == population.sizes[user]
        assert np.ptp(times) <= 1
    assert times.max() > 1 or name == "work_control"
    assert np.array_equal(shared.assignment.samples, again.assignment.samples)
    assert not np.array_equal(shared.assignment.samples, other.assignment.samples)
    assert np.array_equal(shared.assignment.sizes, other.assignment.sizes)


def test_a_control_that_sends_fails_the_conformance_kit():
    with pytest.raises(AssertionError, match="received a sample though nothing is sent"):
        ledger_lists_what_was_received(Sharing(share_samples, "faulty", sends=False), NoOptions())


def with_ledger(change):
    """Raw sharing with a fault: its ledger is changed after the fact, so that it no longer fits the data."""

    def share(population, clustering, seed, options):
        shared = share_samples(population, clustering, seed, options)
        ledger = shared.ledger
        return Shared(shared.assignment, Ledger(*change(ledger.samples, ledger.senders, ledger.receivers)))

    return Sharing(share, "faulty")


def unseeded(population, clustering, seed, options):
    return share_samples(population, clustering, next(unseeded.calls), options)


def too_much(population, clustering, seed, options):
    problem = replace(clustering.problem, volumes=0.9 * clustering.problem.skew.sizes)
    return share_samples(population, replace(clustering, problem=problem), seed)


def received_first(population, clustering, seed, options):
    shared = share_samples(population, clustering, seed)
    mixed = replace(shared.assignment, samples=np.concatenate([shared.assignment.of(u)[::-1] for u in range(12)]))
    return Shared(mixed, shared.ledger)


@pytest.mark.parametrize(
    ("faulty", "check", "message"),
    [
        (with_ledger(lambda *parts: [part[:-1] for part in parts]), "ledger_lists_what_was_received", "other samples"),
        (with_ledger(lambda samples, senders, receivers: (samples, receivers, receivers)),
         "sends_along_the_clustering", "another user than its head"),
        (Sharing(too_much, "faulty"), "keeps_volumes_and_consent", "more samples than planned"),
        (with_ledger(lambda samples, *users: (np.arange(len(samples)), *users)),
         "keeps_volumes_and_consent", "larger share of its samples"),
        (Sharing(unseeded, "faulty"), "is_deterministic", "same seed differ"),
        (Sharing(received_first, "faulty"), "keeps_own_samples_first", "do not come first"),
    ],
)  # fmt: skip
def test_the_kit_finds_faults(faulty, check, message):
    unseeded.calls = itertools.count()
    with pytest.raises(AssertionError, match=message):
        {one.__name__: one for one in CHECKS}[check](faulty, faulty.options())


def test_every_head_draws_with_a_generator_of_its_own():
    """Keyed by (seed, "share", head), so that another head or another order of heads changes no other draw."""
    population, graph = world()
    clustering = clustered(population, graph, "daca", "own")
    assert len(clustering.heads) > 1
    ledger = share_samples(population, clustering, seed=1).ledger
    for head in clustering.heads:
        drawn = generator(1, "share", user=int(head)).permutation(population.assignment.of(head))
        member = clustering.members_of(int(head))[0]
        received = ledger.samples[(ledger.senders == head) & (ledger.receivers == member)]
        assert received.tolist() == drawn[: int(clustering.shared[head])].tolist()
