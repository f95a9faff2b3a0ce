"""Kinds of sharing in plans: what generated samples are worth, and the kind of each head."""

from types import SimpleNamespace

import numpy as np
import pytest

from fedcast.errors import FedcastError, ScenarioError
from fedcast.plan import load_plan, make_plan, make_world, plan_table, plan_world, save_plan, world_of_plan
from fedcast.plan.kind_choice import known_kinds, with_kinds
from fedcast.rounds import load_fit
from fedcast.runs import prepare_run
from fedcast.scenario import load_scenario
from fedcast.sharing import gaussian_mu

USERS = 24
# Counts alone: no samples are loaded. The fit of MNIST knows what generated samples are worth.
COMMON = (
    "data.dataset=synthetic", f"data.num_users={USERS}", "data.synthetic.samples_per_user=600", "rounds.fit=mnist",
    "rounds.target_accuracy=0.9", "training.model=cnn", "training.local_epochs=1", "training.learning_rate=0.05",
    "clustering.rule=gain", "clustering.max_passes=1", "allocation.max_sharing_ratio=0.5",
)  # fmt: skip


def scenario_of(*overrides):
    return load_scenario(base="default", overrides=[*COMMON, *overrides])


def devices(folder, consent, epsilon):
    """Write a table of what users agree to; return the override that names it."""
    file = folder / "devices.csv"
    rows = [f"{user},{consent(user)},{epsilon(user)}" for user in range(USERS)]
    file.write_text("\n".join(["user,consent,epsilon", *rows]) + "\n")
    return f"devices.devices_file={file}"


@pytest.fixture(scope="module")
def raw():
    return make_plan(scenario_of())


def test_generated_samples_are_worth_less_than_raw_ones(raw):
    synthetic = make_plan(scenario_of("sharing.kind=synthetic"))
    assert raw.delay_s < synthetic.delay_s < synthetic.without.delay_s
    (note,) = (note for note in synthetic.notes if note.startswith("synthetic:"))
    assert "a sample counts as" in note
    assert "20 runs" in note
    # The same plan by hand: worth at the signal of each head.
    world = make_world(scenario_of("sharing.kind=synthetic"))
    law = load_fit("mnist").law(0.9)
    heads = synthetic.heads
    counts = world.population.counts[heads].astype(float)
    signals = gaussian_mu(4.0, 1e-5) * (counts**2).sum(axis=1) / counts.sum(axis=1)
    mean = float(law.worth["synthetic"].at(signals).mean())
    assert float(note.split("counts as ")[1].split()[0]) == pytest.approx(mean, rel=0.01)


def test_a_kind_whose_worth_is_unknown_is_predicted_as_raw_with_a_note(raw):
    mixed = make_plan(scenario_of("sharing.kind=mixed"), with_curve=False)
    assert mixed.delay_s == pytest.approx(raw.delay_s)
    assert any("fit mnist does not say what its samples are worth" in note for note in mixed.notes)


def test_curves_of_leakage_and_of_epsilon(raw):
    """Both start without sharing; a larger ε never takes longer."""
    assert raw.leakage[0].average_sharing_ratio == 0
    assert raw.privacy[0].epsilon == 0
    assert raw.privacy[0].delay_s == pytest.approx(raw.leakage[0].delay_s)
    epsilons, delays = [point.epsilon for point in raw.privacy], [point.delay_s for point in raw.privacy]
    assert epsilons == sorted(epsilons)
    assert delays == sorted(delays, reverse=True)
    assert delays[-1] < delays[0]
    assert raw.privacy[-1].kind == "synthetic"
    # At ε = 4 it is what a plan with the same clusters and that kind takes.
    synthetic = make_plan(scenario_of("sharing.kind=synthetic"))
    at_4 = {point.epsilon: point.delay_s for point in synthetic.privacy}[4.0]
    assert at_4 == pytest.approx(synthetic.delay_s, rel=0.01)
    assert synthetic.leakage[-1].delay_s < synthetic.delay_s


def test_each_head_sends_what_its_user_allows(tmp_path):
    """A third consents to nothing but has a budget, a third has neither, a third consents to a little."""
    limits = devices(tmp_path, lambda user: (0, 0, 0.02)[user % 3], lambda user: (4, 0, 0)[user % 3])
    plan = make_plan(scenario_of("sharing.kind=best", limits))
    heads = plan.heads
    assert len(heads)
    assert not (heads % 3 == 1).any()
    assert all(plan.kinds[head] in ("synthetic", "prototypes") for head in heads if head % 3 == 0)
    assert all(plan.kinds[head] == "raw" for head in heads if head % 3 == 2)
    assert (heads % 3 == 0).any()
    # It is no slower than any one kind, and the plan says so in its file.
    for kind in ("raw", "synthetic"):
        alone = make_plan(scenario_of(f"sharing.kind={kind}", limits), with_curve=False)
        assert plan.delay_s <= alone.delay_s * 1.001
    named = {user: kind for user, kind in enumerate(plan_table(plan)["kind"]) if kind is not None}
    assert named == {int(head): plan.kinds[head] for head in heads}
    again = load_plan(save_plan(plan, tmp_path / "plan.json"))
    assert again.kinds == plan.kinds
    assert again.privacy == plan.privacy
    assert np.array_equal(world_of_plan(again).kinds, np.array(plan.kinds))


def test_raw_samples_are_chosen_where_nothing_speaks_against_them(raw):
    best = make_plan(scenario_of("sharing.kind=best"), with_curve=False)
    assert set(best.kinds) == {"raw"}
    assert best.delay_s == pytest.approx(raw.delay_s)


def test_a_limit_of_leakage_makes_private_samples_the_faster_ones(raw):
    """Private samples reveal none: they are not limited."""
    limited = make_plan(scenario_of("allocation.max_asr=0.005"), with_curve=False)
    best = make_plan(scenario_of("sharing.kind=best", "allocation.max_asr=0.005"), with_curve=False)
    assert best.delay_s < limited.delay_s
    private = [kind for kind in set(np.array(best.kinds)[best.heads]) if kind != "raw"]
    assert private
    members = np.bincount(best.head_of[best.head_of >= 0], minlength=USERS)
    raw_heads = [head for head in best.heads if best.kinds[head] == "raw"]
    assert (members * best.shared)[raw_heads].sum() / 600 / USERS <= 0.005
    assert best.average_sharing_ratio > 0.005


def test_text_can_only_be_sent_as_it_is():
    """Averages of characters mean nothing."""
    model = load_fit("mnist").law(0.9).model("mnist", 0.05)
    for is_text, kinds in ((True, []), (False, ["prototypes", "synthetic"])):
        world = SimpleNamespace(population=SimpleNamespace(dataset=SimpleNamespace(is_text=is_text)))
        assert known_kinds(world, model) == kinds


def test_a_budget_replaces_consent_for_private_kinds(tmp_path):
    limits = devices(tmp_path, lambda _: 0, lambda user: 4 if user < 10 else 3)
    plan = make_plan(scenario_of("sharing.kind=synthetic", limits), with_curve=False)
    assert len(plan.heads)
    assert (plan.heads < 10).all()
    # Without a column epsilon consent is all that is known.
    file = tmp_path / "consent.csv"
    file.write_text("user,consent\n" + "".join(f"{user},0\n" for user in range(USERS)))
    nothing = make_plan(scenario_of("sharing.kind=synthetic", f"devices.devices_file={file}"), with_curve=False)
    assert not len(nothing.heads)
    assert not len(make_plan(scenario_of("sharing.kind=best", f"devices.devices_file={file}"), with_curve=False).heads)


def test_best_needs_predicted_rounds_and_an_unknown_kind_is_an_error():
    with pytest.raises(FedcastError, match=r"learning_rate"):
        make_plan(scenario_of("sharing.kind=best", "allocation.method=fixed", "training.learning_rate=5"))
    with pytest.raises(ScenarioError, match=r"sharing\.kind.*best lets a plan choose"):
        scenario_of("sharing.kind=nonsense")


def test_a_run_sends_the_kinds_of_its_plan():
    """Raw samples count as revealed, private ones in ε; ids of generated samples do not overlap."""
    users = 40
    scenario = load_scenario(
        base="digits",
        overrides=[
            f"data.num_users={users}", "clustering.rule=daca", "rounds.fit=mnist", "training.local_epochs=1",
            "training.learning_rate=0.1", "sharing.kind=best",
            "allocation.method=fixed", "allocation.fixed.ratio=0.2",
        ],
    )  # fmt: skip
    world = make_world(scenario)
    found = plan_world(with_kinds(world, np.full(users, "raw")), with_curve=False).plan.heads
    chosen = np.full(users, "raw", dtype="<U10")
    chosen[found[1::3]], chosen[found[2::3]] = "synthetic", "prototypes"
    run = prepare_run(scenario, world=with_kinds(world, chosen))
    assert run.plan.kinds == tuple(chosen.tolist())
    kinds, heads, ledger = np.array(run.plan.kinds), run.plan.heads, run.shared.ledger
    dataset = run.world.population.dataset
    assert set(kinds[heads].tolist()) == {"raw", "synthetic", "prototypes"}
    senders = [ledger.senders[ledger.samples == sample] for sample in np.unique(ledger.samples)]
    assert all(len(set(some.tolist())) == 1 for some in senders)
    assert (np.unique(ledger.samples) >= len(dataset)).sum() == len(run.shared.generated.labels)
    for head in heads:
        sent = ledger.samples[ledger.senders == head]
        assert ((sent < len(dataset)) == (kinds[head] == "raw")).all()
        assert len(np.unique(sent)) == run.plan.shared[head]
        assert (ledger.privacy.mu[head] > 0) == (kinds[head] != "raw")
    revealed = ledger.revealed_shares(run.world.population.sizes)
    assert (revealed[heads] > 0).tolist() == (kinds[heads] == "raw").tolist()
    extended = run.shared.dataset(dataset)
    assert run.shared.assignment.samples.max() < len(extended.labels)
    assert plan_world(run.world).plan.kinds == run.plan.kinds
