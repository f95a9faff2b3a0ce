"""Kinds that generate samples: what they send, what it reveals, and how it reaches training."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from fedcast.clustering import cluster, make_problem
from fedcast.data import Generated, dataset_from_arrays, extend, populate, skew_of, stored
from fedcast.errors import FedcastError, ScenarioError
from fedcast.network import graph_from_edges
from fedcast.plan import make_world
from fedcast.runs import load_run, prepare_run, run_scenario, train_scenario
from fedcast.runs.packing import pack, unpack
from fedcast.scenario import ClusteringSettings, Data, load_scenario
from fedcast.sharing import (
    SIGMA_STEPS,
    Held,
    Ledger,
    Privacy,
    RecordedNoise,
    Request,
    Sharing,
    find_sharing,
    gaussian_epsilon,
    gaussian_mu,
    pure_mu,
    seeded_noise,
)
from fedcast.sharing.features import limited, smooth_basis
from fedcast.sharing.generate import generating, shares_of_classes
from fedcast.sharing.mixed import MixedOptions, mix
from fedcast.sharing.prototypes import PrototypesOptions, make_prototypes
from fedcast.sharing.synthetic import SyntheticOptions, make_synthetic, root_without_noise
from fedcast.testing.sharing import CHECKS
from fedcast.training import Federation, TrainingSettings, train
from fedcast.training.packed import train_pack

KINDS = ("mixed", "prototypes", "synthetic")
ALMOST_EXACT = 400.0  # ε


def held(n=300, classes=3, shape=(1, 8, 8), seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, n)
    waves = smooth_basis(shape, 6)
    centres = 0.5 + 0.6 * rng.standard_normal((classes, 6)) @ waves
    inputs = centres[labels] + 0.3 * rng.standard_normal((n, 6)) @ waves
    return Held(np.clip(inputs, 0, 1).astype(np.float32).reshape(n, *shape), labels, classes)


def request(volume=30, balanced=True, seed=0):
    rngs = [np.random.default_rng([seed, part]) for part in range(2)]
    return Request(volume, balanced, rngs[0], seeded_noise(rngs[1]))


def means_of(samples):
    flat = samples.inputs.reshape(len(samples.labels), -1)
    return np.array([flat[samples.labels == label].mean(axis=0) for label in np.unique(samples.labels)])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_kinds_pass_the_conformance_kit(check, kind):
    check(find_sharing(kind), find_sharing(kind).options())


def test_prototypes_with_little_noise_are_class_means():
    samples = held()
    options = PrototypesOptions(epsilon=ALMOST_EXACT, clip=1.0, frequencies=64)
    made = make_prototypes(samples, request(), options)
    assert np.bincount(made.labels).tolist() == [10, 10, 10]
    assert made.mu == gaussian_mu(ALMOST_EXACT, 1e-5)
    flat = made.inputs.reshape(30, -1)
    assert len(np.unique(flat, axis=0)) == 3, "one mean for each class, sent several times"
    assert np.abs(means_of(made) - means_of(samples)).max() < 0.02


def test_groups_are_means_of_disjoint_parts_of_a_class():
    samples, options = held(900), PrototypesOptions(epsilon=ALMOST_EXACT, clip=1.0, frequencies=64, groups=4)
    made = make_prototypes(samples, request(24), options)
    rows = np.unique(np.concatenate([made.labels[:, None], made.inputs.reshape(24, -1)], axis=1), axis=0)
    assert np.bincount(rows[:, 0].astype(int)).tolist() == [4, 4, 4]
    by_class = np.array([rows[rows[:, 0] == label, 1:].mean(axis=0) for label in range(3)])
    assert np.abs(by_class - means_of(samples)).max() < 0.05


def test_inputs_are_scaled_down_to_the_clip_bound():
    """A single pixel value would otherwise move the mean of many samples as far as it likes."""
    samples = held()
    bright = replace(samples, inputs=np.ones_like(samples.inputs))
    made = make_prototypes(bright, request(), PrototypesOptions(epsilon=ALMOST_EXACT, clip=0.25, frequencies=64))
    assert made.inputs == pytest.approx(0.25, abs=0.02)
    assert np.linalg.norm(limited(np.array([[3.0, 4.0], [0.3, 0.4], [0, 0]]), 1.0), axis=1) == pytest.approx(
        [1, 0.5, 0]
    )


def test_synthetic_samples_have_the_moments_of_the_data():
    samples = held(3000)
    options = SyntheticOptions(epsilon=ALMOST_EXACT, clip=1.0, spread=1.0, frequencies=6, tail=0.0)
    made = make_synthetic(samples, request(6000), options)
    basis = smooth_basis((1, 8, 8), 6)
    parts = [replace_labels(each, basis) for each in (samples, made)]
    for label in range(3):
        one, other = (part[1][part[0] == label] for part in parts)
        assert np.abs(one.mean(axis=0) - other.mean(axis=0)).max() < 0.05
    # One covariance for all classes.
    within = [np.cov((features - centred(labels, features)).T) for labels, features in parts]
    assert np.abs(within[0] - within[1]).max() < 0.1 * np.abs(within[0]).max()


def replace_labels(samples, basis):
    return samples.labels, samples.inputs.reshape(len(samples.labels), -1) @ basis.T


def centred(labels, features):
    return np.array([features[labels == label].mean(axis=0) for label in range(3)])[labels]


def test_eigenvalues_of_noise_are_dropped_and_others_corrected():
    rng, size, sigma = np.random.default_rng(0), 60, 0.1
    axis = np.linalg.qr(rng.standard_normal((size, 1)))[0]
    noise = np.triu(rng.normal(0, sigma / np.sqrt(2), (size, size)), 1)
    noise = noise + noise.T + np.diag(rng.normal(0, sigma, size))
    root = root_without_noise(3.0 * axis @ axis.T + noise, sigma, np.zeros(size))
    values = np.linalg.eigvalsh(root @ root)
    assert values[-1] == pytest.approx(3.0, abs=0.3)
    assert np.abs(values[:-1]).max() < 0.2, "almost all of the noise is gone"
    assert np.trace(root_without_noise(noise, sigma, np.full(size, 1 / size))) < 60 * sigma


def test_mixed_averages_its_sources():
    rng = np.random.default_rng(0)
    samples = Held(rng.random((50, 1, 8, 8), dtype=np.float32), rng.integers(0, 3, 50), 3)
    made = mix(samples, request(20), MixedOptions(samples=3))
    assert len(np.unique(made.sources)) == 20
    flat, chosen = made.inputs.reshape(20, -1), samples.inputs[made.sources].reshape(20, -1)
    one_hot = np.eye(3)[samples.labels[made.sources]]
    for row in range(20):
        # The weights with which sources make up the average, by least squares: thirds.
        weights = np.linalg.lstsq(chosen.T.astype(float), flat[row].astype(float), rcond=None)[0]
        assert weights.sum() == pytest.approx(1, abs=1e-3)
        assert weights @ one_hot == pytest.approx(made.soft_labels[row], abs=1e-3)
    assert (made.labels == made.soft_labels.argmax(axis=1)).all()
    assert made.mu is None


def test_mixed_of_one_class_has_hard_labels():
    samples = held(60)
    made = mix(samples, request(30), MixedOptions(samples=2, one_class=True))
    assert made.soft_labels is None
    assert np.bincount(made.labels).tolist() == [10, 10, 10]
    # Between the two samples of its own class that are its mean.
    drawn = samples.inputs[made.sources].reshape(30, -1)
    for row, label in zip(made.inputs.reshape(30, -1), made.labels, strict=True):
        own = drawn[samples.labels[made.sources] == label]
        gaps = np.abs((own[:, None] + own[None]) / 2 - row).max(axis=2)
        assert gaps.min() < 1e-6


@pytest.mark.parametrize("make", [(make_prototypes, PrototypesOptions), (make_synthetic, SyntheticOptions)])
@pytest.mark.parametrize("labels", [[0], [0, 1], [2] * 40, [0] * 39 + [1], list(range(4)) * 3])
def test_few_samples_and_empty_classes(make, labels):
    """A class of one sample, an empty class, a user with one sample: released like all others."""
    function, options = make
    rng = np.random.default_rng(0)
    few = Held(rng.random((len(labels), 1, 8, 8), dtype=np.float32), np.array(labels), 4)
    for epsilon in (0.1, 4.0, 100.0):
        made = function(few, request(7), options(epsilon=epsilon))
        assert len(made.labels) == 7
        assert np.isfinite(made.inputs).all()
    assert np.bincount(made.labels).argmax() in labels


def test_what_a_head_sends_depends_on_noise_alone_where_it_holds_nothing():
    """An empty class is released too: with noise it may look held, and what is sent of it is noise."""
    one = Held(np.full((40, 1, 8, 8), 0.3, dtype=np.float32), np.zeros(40, dtype=np.int64), 10)
    seen = [set(make_prototypes(one, request(10, seed=seed), PrototypesOptions(epsilon=2.0)).labels.tolist())
            for seed in range(60)]  # fmt: skip
    assert all(0 in labels for labels in seen)
    assert {len(labels) for labels in seen} <= {1, 2}


def test_shares_of_classes():
    counts = np.array([30.0, 0.0, 10.0])
    assert shares_of_classes(counts, 8, balanced=False).tolist() == [6, 0, 2]
    assert shares_of_classes(counts, 8, balanced=True).tolist() == [4, 0, 4]


def world(images=True, num_users=12):
    rng = np.random.default_rng(0)
    labels = np.arange(600) % 4
    inputs = rng.integers(0, 256, (600, 1, 6, 6), dtype=np.uint8) if images else rng.random((600, 3))
    dataset = dataset_from_arrays(inputs, labels, inputs[:8], labels[:8])
    population = populate(dataset, Data(num_users=num_users, tables={"label_skew": {"single_class_share": 0.6}}), 0)
    first, second = np.triu_indices(num_users, 1)
    graph = graph_from_edges(first, second, 1e6, 0.9, num_users=num_users)
    settings = ClusteringSettings(rule="daca", sharing_ratio=0.2)
    return population, cluster(make_problem(skew_of(population.counts), graph, settings, whole=True))


@pytest.mark.parametrize("kind", KINDS)
def test_generated_samples_follow_those_of_the_dataset(kind):
    population, clustering = world()
    found = find_sharing(kind)
    shared = found.share(population, clustering, 0, found.options())
    dataset, whole = population.dataset, shared.dataset(population.dataset)
    assert len(whole) == len(dataset) + len(shared.generated)
    assert whole.inputs.dtype == np.uint8
    assert np.array_equal(whole.inputs[: len(dataset)], dataset.inputs)
    assert np.array_equal(shared.labels(dataset), whole.labels)
    assert shared.assignment.sizes.tolist() == clustering.after.sizes.tolist()
    revealed = shared.ledger.revealed_shares(population.sizes)
    if kind == "mixed":
        assert revealed[clustering.heads] == pytest.approx(0.2, abs=0.02)
        assert whole.soft_labels[: len(dataset)].argmax(axis=1).tolist() == dataset.labels.tolist()
    else:
        assert (revealed == 0).all()
        assert shared.ledger.privacy.epsilon[clustering.heads] == pytest.approx(4.0)
        assert np.count_nonzero(shared.ledger.privacy.mu) == len(clustering.heads)


def test_stored_values_are_those_of_the_dataset():
    population, _ = world()
    dataset = population.dataset
    assert np.array_equal(stored(dataset.features(slice(9)), np.uint8, dataset.scale), dataset.inputs[:9])
    assert stored(np.array([-1.0, 0.5, 2.0]), np.uint8, 1 / 255).tolist() == [0, 128, 255]
    assert stored(np.array([-1.0, 0.5, 2.0]), np.float32, 1.0).tolist() == [0, 0.5, 1]


def test_the_kit_finds_a_kind_that_hides_what_it_reveals():
    checks = {check.__name__: check for check in CHECKS}

    def faulty(make, options, private, **changes):
        return generating(lambda *given: replace(make(*given), **changes), "faulty", options, private=private)

    silent = faulty(mix, MixedOptions, False, sources=None)
    with pytest.raises(AssertionError, match="reveals nothing"):
        checks["counts_what_it_reveals"](silent, MixedOptions())
    for mu, message in ((2.0, "more than ε"), (0.0, "spend privacy")):
        with pytest.raises(AssertionError, match=message):
            checks["counts_what_it_reveals"](
                faulty(make_prototypes, PrototypesOptions, True, mu=mu), PrototypesOptions()
            )
    with pytest.raises(AssertionError, match="shape"):
        checks["generates_valid_samples"](
            faulty(make_prototypes, PrototypesOptions, True, inputs=np.zeros((7, 2, 2))), PrototypesOptions()
        )


def half_noise(samples, asked, options):
    return make_prototypes(samples, replace(asked, noise=lambda exact: asked.noise(2 * exact) // 2), options)


def true_classes(samples, asked, options):
    """Classes are chosen by true counts instead of noisy ones."""
    made = make_prototypes(samples, asked, options)
    return replace(made, labels=np.resize(np.unique(samples.labels), len(made.labels)))


def unclipped(samples, asked, options):
    from fedcast.sharing import prototypes

    before, prototypes.limited = prototypes.limited, lambda vectors, norm: vectors
    try:
        return make_prototypes(samples, asked, options)
    finally:
        prototypes.limited = before


@pytest.mark.parametrize(
    ("fault", "message"),
    [(half_noise, "above μ"), (unclipped, "above μ"), (true_classes, "other than through noise")],
)
def test_the_kit_finds_kinds_that_protect_less_than_they_claim(fault, message):
    kind = generating(fault, "faulty", PrototypesOptions, private=True)
    check = next(check for check in CHECKS if check.__name__ == "protects_every_sample")
    with pytest.raises(AssertionError, match=message):
        check(kind, PrototypesOptions())


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e30])
@pytest.mark.parametrize("kind", ["prototypes", "synthetic"])
def test_a_sample_that_is_no_image_moves_a_release_no_further(kind, value):
    """The bound of a sample's influence must hold for whatever it contains."""
    samples, sharing = held(12), find_sharing(kind)
    noises = [RecordedNoise(seeded_noise(np.random.default_rng(1)))]
    noises.append(RecordedNoise(noises[0], noises[0].noisy))
    for noise, sample in zip(noises, (0.0, value), strict=True):
        inputs = samples.inputs.copy()
        inputs[5] = sample
        made = sharing.make(replace(samples, inputs=inputs), replace(request(), noise=noise), sharing.options())
    moves = [((a - b) / SIGMA_STEPS) ** 2 for a, b in zip(noises[0].exact, noises[1].exact, strict=True)]
    assert np.sqrt(sum(move.sum() for move in moves)) <= made.mu


def test_privacy_of_users_as_a_table(tmp_path):
    privacy = Privacy(np.array([0.0, gaussian_mu(2.0, 1e-5), 0.0]), 1e-5, "seeded")
    assert privacy.epsilon == pytest.approx([0, 2, 0])
    lines = privacy.save(tmp_path / "privacy.csv").read_text().splitlines()
    assert lines[0] == "user,mu,epsilon,delta,noise"
    assert len(lines) == 2
    assert Ledger(*np.zeros((3, 0), dtype=np.int64)).privacy is None


# --- soft labels and generated samples in training


def soft_federation(soft, hard):
    rng = np.random.default_rng(1)
    inputs, labels = rng.random((40, 1, 6, 6)).astype(np.float32), rng.integers(0, 3, 40)
    dataset = dataset_from_arrays(inputs, labels, inputs[:6], np.arange(6) % 3)
    made = Generated(rng.random((10, 1, 6, 6)).astype(np.float32), hard, soft)
    from fedcast.data import Assignment

    users = Assignment(np.concatenate([np.arange(25), np.arange(25, 50)]), np.array([0, 25, 50]))
    return Federation(extend(dataset, made), users, np.array([25, 15]), np.full((2, 3), 1 / 3))


def linear_model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(36, 3))


SETTINGS = TrainingSettings(rounds=2, learning_rate=0.3, precision="float64", compile="never", batch_size=4)


def test_soft_labels_give_the_same_in_both_engines_and_by_hand():
    soft = np.random.default_rng(2).dirichlet(np.ones(3), 10).astype(np.float32)
    federation = soft_federation(soft, soft.argmax(axis=1))
    results = [train(federation, linear_model(), replace(SETTINGS, engine=engine)) for engine in ("loop", "stacked")]
    for one, other in zip(results[0].weights, results[1].weights, strict=True):
        assert (one - other).abs().max() < 1e-12
    # One full batch of the second user by hand: −Σ p ln q.
    alone = replace(federation, users=federation.users.only(np.array([False, True])))
    whole = train(alone, linear_model(), replace(SETTINGS, rounds=1, batch_size=25, engine="stacked"))
    model, dataset = linear_model().double(), federation.dataset
    targets = np.eye(3)[dataset.labels]
    targets[40:] = soft
    scores = model(torch.from_numpy(dataset.inputs[25:].astype(np.float64)))
    loss = -(torch.from_numpy(targets[25:]) * F.log_softmax(scores, dim=1)).sum(dim=1).mean()
    loss.backward()
    for weight, trained in zip(model.parameters(), whole.weights, strict=True):
        assert (weight.detach() - 0.3 * weight.grad - trained).abs().max() < 1e-7  # soft labels are float32


def test_soft_labels_that_are_sure_train_as_hard_ones():
    hard = np.arange(10) % 3
    sure = soft_federation(np.eye(3, dtype=np.float32)[hard], hard)
    pair = [train(each, linear_model(), SETTINGS).weights for each in (sure, soft_federation(None, hard))]
    for one, other in zip(*pair, strict=True):
        assert (one - other).abs().max() < 1e-12


def scenario_of(kind, *more):
    few = ("data.num_users=12", "clustering.rule=daca", "training.local_epochs=1", "training.rounds=4",
           "training.checkpoint_every=1", "allocation.method=fixed", "training.device=cpu")  # fmt: skip
    return load_scenario(base="digits", overrides=[*few, f"sharing.kind={kind}", *more])


@pytest.mark.parametrize("kind", ["mixed", "synthetic"])
def test_a_stopped_run_resumes_byte_for_byte_and_a_pack_gives_the_same(kind, tmp_path):
    scenario = scenario_of(kind)
    whole = run_scenario(scenario, tmp_path / "whole")
    calls = iter([False, True])
    assert run_scenario(scenario, tmp_path / "parts", should_stop=lambda: next(calls)) is None
    parts = run_scenario(scenario, tmp_path / "parts")
    for name in ("history.json", "ledger.csv", "tables.json"):
        assert (whole / name).read_bytes() == (parts / name).read_bytes()
    (name,) = pack([scenario], tmp_path / "store", tmp_path / "pack")
    assert train_pack(tmp_path / "pack", tmp_path / "out")
    assert unpack(tmp_path / "out", tmp_path / "store") == [name]
    assert (tmp_path / "store" / name / "history.json").read_bytes() == (whole / "history.json").read_bytes()
    assert (whole / "privacy.csv").exists() == (kind == "synthetic")
    raw = run_scenario(scenario_of("raw"), tmp_path / "whole")
    assert load_run(raw).history != load_run(whole).history
    assert not (raw / "privacy.csv").exists()


def test_epsilon_decides_a_run():
    before, after = (prepare_run(scenario_of("prototypes", f"sharing.prototypes.epsilon={e}")) for e in (1, 2))
    assert not np.array_equal(before.shared.generated.inputs, after.shared.generated.inputs)
    assert before.shared.ledger.privacy.epsilon.max() == pytest.approx(1)
    again = prepare_run(scenario_of("prototypes", "sharing.prototypes.epsilon=1"))
    assert np.array_equal(before.shared.generated.inputs, again.shared.generated.inputs)


def test_epsilon_of_zero_is_an_error():
    with pytest.raises(ScenarioError, match=r"sharing\.prototypes\.epsilon"):
        scenario_of("prototypes", "sharing.prototypes.epsilon=0")


def test_text_has_no_averages(data_dir):
    scenario = load_scenario(
        base="default",
        overrides=[
            "data.dataset=tiny_shakespeare",
            "data.partition=iid",
            "sharing.kind=prototypes",
            "data.num_users=3",
        ],
    )
    with pytest.raises(FedcastError, match=r"sharing\.kind.*text.*expected raw"):
        train_scenario(scenario, data_dir=data_dir)


@pytest.mark.parametrize(
    ("labels", "message"), [({}, "no array 'labels'"), ({"labels": np.full(20, -1)}, "sample 0 has -1")]
)
def test_data_without_labels_are_an_error(labels, message, tmp_path):
    inputs = np.zeros((20, 1, 4, 4), dtype=np.uint8)
    np.savez(tmp_path / "mine.npz", inputs=inputs, test_inputs=inputs[:4], test_labels=np.arange(4), **labels)
    chosen = ("data.dataset=file", f"data.file={tmp_path / 'mine.npz'}")
    with pytest.raises(FedcastError, match=message):
        prepare_run(scenario_of("synthetic", *chosen))


def test_heads_keep_to_the_epsilon_of_the_devices_table(tmp_path):
    """A user with a smaller budget than the kind asks for, or a spent one, is no head."""
    free = prepare_run(scenario_of("prototypes"))
    assert len(free.clustering.heads)
    head = int(free.clustering.heads[0])
    file = tmp_path / "devices.csv"
    rows = [f"{user},{3.9 if user == head else 5},0" for user in range(12)]
    file.write_text("\n".join(["user,epsilon,mu_spent", *rows]) + "\n")
    limited_run = prepare_run(scenario_of("prototypes", f"devices.devices_file={file}"))
    assert head not in limited_run.clustering.heads
    assert len(limited_run.clustering.heads)
    assert limited_run.shared.ledger.privacy.mu[head] == 0
    # For raw samples the budget says nothing, and a smaller ε is within it.
    for kind in (["raw"], ["prototypes", "sharing.prototypes.epsilon=3"]):
        assert make_world(scenario_of(kind[0], f"devices.devices_file={file}", *kind[1:])).fleet.devices.consent.all()
    # μ = 0.92 (ε = 4) was spent before, and another 0.92 makes ε = 6.
    rows = [f"{user},5,0.925" for user in range(12)]
    file.write_text("\n".join(["user,epsilon,mu_spent", *rows]) + "\n")
    nobody = prepare_run(scenario_of("prototypes", f"devices.devices_file={file}"))
    assert len(nobody.clustering.heads) == 0
    assert any("12 users of 12 cannot afford ε = 4" in note for note in nobody.plan.notes)
    assert prepare_run(scenario_of("raw")).plan.notes == ()
    assert nobody.shared.generated is None


def test_a_budget_has_a_delta_of_its_own(tmp_path):
    """A scenario with a large δ asks for a small ε, and spends far more at the δ of the budget."""
    file = tmp_path / "devices.csv"
    file.write_text("\n".join(["user,epsilon", *(f"{user},1" for user in range(12))]) + "\n")
    asked = ("sharing.prototypes.epsilon=1", "sharing.prototypes.delta=0.4", f"devices.devices_file={file}")
    evading = prepare_run(scenario_of("prototypes", *asked))
    assert gaussian_epsilon(gaussian_mu(1.0, 0.4), 1e-5) > 8
    assert len(evading.clustering.heads) == 0
    assert any("cannot afford ε = 1 at δ = 0.4" in note for note in evading.plan.notes)
    # A user that agrees to that δ can afford it, and one with a smaller δ cannot afford ε = 1 at 1e-5.
    for delta, asked_delta, heads in (("0.005", "0.005", True), ("1e-9", "1e-5", False)):
        rows = [f"{user},1,{delta}" for user in range(12)]
        file.write_text("\n".join(["user,epsilon,delta", *rows]) + "\n")
        run = prepare_run(scenario_of("prototypes", asked[0], f"sharing.prototypes.delta={asked_delta}", asked[2]))
        assert bool(len(run.clustering.heads)) == heads


@pytest.mark.parametrize("kind", ["raw", "mixed", "prototypes"])
def test_the_server_has_no_samples_of_users_that_do_not_agree(kind, tmp_path):
    file = tmp_path / "devices.csv"
    unwilling, hesitant = range(4), range(4, 8)
    rows = [f"{user},{0 if user in unwilling else 0.1 if user in hesitant else 1}" for user in range(12)]
    file.write_text("\n".join(["user,consent", *rows]) + "\n")
    run = prepare_run(scenario_of(kind, "clustering.rule=central", f"devices.devices_file={file}"))
    own, ledger = run.world.population.assignment, run.shared.ledger
    assert run.clustering.broadcast.volume > 0
    if kind == "prototypes":
        assert (ledger.privacy.mu > 0).tolist() == [user not in unwilling for user in range(12)]
        return
    seen = set((ledger.samples if ledger.sources is None else ledger.sources[1]).tolist())
    assert seen
    for user in range(12):
        revealed = len(seen & set(own.of(user).tolist())) / len(own.of(user))
        assert revealed <= (0 if user in unwilling else 0.1 if user in hesitant else 1), f"user {user}"


def test_noisy_counts_are_counted_for_all_users(tmp_path):
    run = prepare_run(scenario_of("prototypes", "data.counts_epsilon=0.5"))
    privacy, heads = run.shared.ledger.privacy, run.clustering.heads
    assert privacy.epsilon[heads] == pytest.approx(4.5)
    assert np.delete(privacy.epsilon, heads) == pytest.approx(0.5)
    table = np.genfromtxt(privacy.save(tmp_path / "privacy.csv"), delimiter=",", names=True, dtype=None)
    assert len(table) == 12
    # What later runs read as mu_spent: not less than everything together.
    assert table["mu"][heads] == pytest.approx(np.hypot(gaussian_mu(4.0, 1e-5), pure_mu(0.5)))
    file = tmp_path / "devices.csv"
    for budget, heads_left in ((4.4, False), (4.6, True)):
        file.write_text("\n".join(["user,epsilon", *(f"{user},{budget}" for user in range(12))]) + "\n")
        run = prepare_run(scenario_of("prototypes", "data.counts_epsilon=0.5", f"devices.devices_file={file}"))
        assert bool(len(run.clustering.heads)) == heads_left
    file.write_text("\n".join(["user,epsilon", *(f"{user},{0.4 if user == 7 else 9}" for user in range(12))]) + "\n")
    with pytest.raises(FedcastError, match=r"user 7 cannot afford noisy class counts .*epsilon = 0\.4"):
        prepare_run(scenario_of("raw", "data.counts_epsilon=0.5", f"devices.devices_file={file}"))


def test_a_kind_of_ones_own_generates(tmp_path):
    """Half of the brightness of raw samples: a plug-in needs one function."""

    def dimmed(samples, asked, options):
        from fedcast.sharing import Made

        chosen = np.arange(asked.volume) % len(samples.labels)
        return Made(samples.inputs[chosen] / 2, samples.labels[chosen], sources=np.unique(chosen))

    from fedcast.registry import NoOptions

    kind = generating(dimmed, "heads send dimmed samples", NoOptions, private=False)
    assert isinstance(kind, Sharing)
    for check in CHECKS:
        check(kind, NoOptions())
