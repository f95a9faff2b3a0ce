"""Changes that are tried without editing tables, against the same changes made in the tables."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.user_tables import NAMES, write_tables

from fedcast.data import Population, read_counts
from fedcast.errors import FedcastError
from fedcast.io import column_names, read_table, save_table
from fedcast.io.table import Column
from fedcast.plan import diff_plans, make_plan, make_world, plan_changes, plan_from_json, plan_to_json, unchanged
from fedcast.plan.changes import read_changes
from fedcast.scenario import Changes, load_scenario, with_overrides

FEW = ["data.dataset=synthetic", "clustering.rule=gain", "training.local_epochs=1", "rounds.beta_samples=20"]
HEAD, MEMBER = "node-k", "node-b"


def scenario_of(tables, *changes):
    keys = {"links": "trust.links_file", "positions": "geometry.positions_file", "devices": "devices.devices_file"}
    files = [f"{key}={tables[name]}" for name, key in keys.items()]
    return load_scenario(overrides=[*FEW, f"data.synthetic.counts_file={tables['counts']}", *files, *changes])


@pytest.fixture
def tables(tmp_path):
    return write_tables(tmp_path, NAMES.__getitem__)


@pytest.fixture
def usual(tables):
    world = make_world(scenario_of(tables))
    return make_plan(world.scenario, world=world, with_curve=False), world


def rewritten(path, change):
    """Change the rows of a table, each a dictionary of text."""
    names = column_names(path)
    table = read_table(path, [Column(name, "text") for name in names])
    rows = change([dict(zip(names, row, strict=True)) for row in zip(*(table[name] for name in names), strict=True)])
    return save_table({name: [str(row[name]) for row in rows] for name in rows[0]}, path)


def assert_same_plan(made, expected):
    np.testing.assert_array_equal(made.head_of, expected.head_of)
    np.testing.assert_array_equal(made.shared, expected.shared)
    np.testing.assert_allclose(made.frequency_hz, expected.frequency_hz)
    assert made.delay_s == pytest.approx(expected.delay_s, rel=1e-12)


def plan_of(scenario):
    world = make_world(scenario)
    return make_plan(world.scenario, world=world, with_curve=False)


def test_without_a_user_is_a_table_with_zeros_and_no_links(tables):
    tried = plan_of(scenario_of(tables, f"changes.without=['{HEAD}']"))
    rewritten(
        tables["counts"],
        lambda rows: [row if row["user"] != HEAD else {**row, "c0": "0", "c1": "0", "c2": "0"} for row in rows],
    )
    rewritten(tables["links"], lambda rows: [row for row in rows if HEAD not in (row["user_a"], row["user_b"])])
    assert_same_plan(tried, plan_of(scenario_of(tables)))
    assert not tried.trained[NAMES.index(HEAD)]


def test_a_cut_link_is_a_table_without_it(tables, usual):
    plan, _ = usual
    member = int(np.flatnonzero(plan.head_of >= 0)[0])
    pair = {NAMES[member], NAMES[plan.head_of[member]]}
    tried = plan_of(scenario_of(tables, f"changes.cut=['{','.join(sorted(pair))}']"))
    rewritten(tables["links"], lambda rows: [row for row in rows if {row["user_a"], row["user_b"]} != pair])
    assert_same_plan(tried, plan_of(scenario_of(tables)))


def test_consent_is_a_column_of_the_devices(tables, usual):
    plan, _ = usual
    head = NAMES[plan.heads[0]]
    tried = plan_of(scenario_of(tables, f"changes.consent=['{head}=0.03']"))
    rewritten(tables["devices"], lambda rows: [{**row, "consent": 0.03 if row["user"] == head else 1} for row in rows])
    assert_same_plan(tried, plan_of(scenario_of(tables)))
    none = plan_of(scenario_of(tables, f"changes.consent=['{head}=0']"))
    assert plan.heads[0] not in none.heads


def test_a_plan_keeps_its_changes(tables):
    plan = plan_of(scenario_of(tables, f"changes.without=['{HEAD}']"))
    again = plan_from_json(plan_to_json(plan))
    assert again.scenario.changes == Changes(without=[HEAD])
    assert_same_plan(plan_of(again.scenario), plan)
    assert unchanged(again.scenario) == scenario_of(tables, "data.num_users=12")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"without": ["node-kk"]}, "'node-kk' for changes.without: unknown user 'node-kk'; .* did you mean"),
        ({"cut": ["node-k"]}, "'node-k' for changes.cut: expected two users"),
        ({"cut": ["node-k,nobody"]}, "'node-k,nobody' for changes.cut: unknown user 'nobody'"),
        ({"consent": ["node-k"]}, "'node-k' for changes.consent: expected a user and a share from 0 to 1"),
        ({"consent": ["node-k=2"]}, "'node-k=2' for changes.consent: expected a user and a share"),
        ({"consent": ["node-k=nan"]}, "'node-k=nan' for changes.consent: expected a user and a share"),
    ],
)
def test_wrong_changes_are_errors(change, message):
    with pytest.raises(FedcastError, match=message):
        read_changes(Changes(**change), len(NAMES), np.array(NAMES))


def test_users_without_names_and_names_with_commas():
    found = read_changes(Changes(without=[3], cut=["0,2"], consent=["1=0.5"]), 4)
    assert (found.gone.tolist(), found.cut, found.consent) == ([False, False, False, True], ((0, 2),), {1: 0.5})
    with pytest.raises(FedcastError, match="unknown user '4'; expected a number from 0 to 3"):
        read_changes(Changes(without=["4"]), 4)
    names = np.array(["a", "a,b", "b,c", "c=1"])
    assert read_changes(Changes(cut=["a,b,c"], consent=["c=1=0"]), 4, names).cut == ((0, 2),)
    assert read_changes(Changes(consent=["c=1=0"]), 4, names).consent == {3: 0.0}


def test_a_link_that_does_not_exist_cannot_be_cut(tables, usual):
    _, world = usual
    user, other = next((a, b) for a in range(12) for b in range(a) if not world.graph.between([[a, b]]).any())
    with pytest.raises(FedcastError, match="for changes.cut: there is no link between them"):
        make_world(scenario_of(tables, f"changes.cut=['{NAMES[user]},{NAMES[other]}']"))


def test_nobody_left_is_an_error(tables):
    with pytest.raises(FedcastError, match=r"changes.without: no user with samples is left"):
        make_world(scenario_of(tables, f"changes.without={NAMES}"))


def test_samples_of_a_dataset_go_with_their_user():
    few = ["data.num_users=8", *FEW[1:]]
    before, after = (make_world(load_scenario(overrides=[*few, *more])) for more in ([], ["changes.without=[2, 5]"]))
    assert after.population.sizes.tolist() == [0 if u in (2, 5) else n for u, n in enumerate(before.population.sizes)]
    assert after.population.assignment.sizes.tolist() == after.population.sizes.tolist()
    assert (after.graph.degrees[[2, 5]] == 0).all()
    kept = np.delete(before.population.counts, [2, 5], axis=0)
    np.testing.assert_allclose(after.skew.global_distribution, kept.sum(axis=0) / kept.sum())


@given(st.integers(0, 10**6))
@example(2)
@example(35)
@example(46)
@settings(max_examples=2)
def test_taking_a_link_away_never_makes_a_plan_faster(seed):
    """Plans of the examples on their own are faster without the link: searches find different clusters."""
    rng = np.random.default_rng(seed)
    users = int(rng.integers(5, 11))
    counts = rng.integers(0, 120, (users, 4)) * (rng.random((users, 4)) < 0.5)
    counts[:, 0] += 1
    rule = rng.choice(["daca", "gain", "scc"])
    most, bits = rng.choice([0.1, 0.5, 1.0]), rng.choice([800, 1e5, 1e6])
    scenario = load_scenario(
        overrides=[
            *FEW, f"data.num_users={users}", f"clustering.rule={rule}", f"seed={seed}",
            "geometry.cell_radius_m=200.0", f"allocation.max_sharing_ratio={most}",
            f"data.bits_per_sample={bits}", "sidelink.min_rate_bps=0.0",
        ]
    )  # fmt: skip
    population = Population(counts, tuple("abcd"))
    world = make_world(scenario, population=population)
    plan = make_plan(scenario, world=world, with_curve=False)
    led = np.flatnonzero(plan.head_of >= 0)
    if not len(led):
        return
    member = int(rng.choice(led))
    cut = with_overrides(scenario, {"changes.cut": [f"{member},{plan.head_of[member]}"]})
    before, after = plan_changes(world, make_world(cut, population=population), with_curve=False)
    assert after.plan.delay_s >= before.plan.delay_s * (1 - 1e-9)
    assert before.plan.delay_s <= plan.delay_s * (1 + 1e-9)
    assert after.plan.head_of[member] != plan.head_of[member]


def test_what_became_of_each_user_by_a_plain_loop(tables):
    """A head leaves: every user's old and new role, head, volume, frequency and epochs, and what is said of it."""
    names = read_counts(tables["counts"]).names.tolist()
    plain = scenario_of(tables)
    head = names[int(plan_of(plain).heads[0])]
    worlds = make_world(plain), make_world(scenario_of(tables, f"changes.without=['{head}']"))
    old, new = (planned.plan for planned in plan_changes(*worlds, with_curve=False))
    difference = diff_plans(old, new)
    table = difference.table()
    for user, name in enumerate(names):
        for when, plan in (("old", old), ("new", new)):
            if (when, name) == ("new", head):
                expected = (None,) * 6
            else:
                led, leads = plan.head_of[user] >= 0, user in plan.heads
                role = "head" if leads else "member" if led else "alone"
                received = plan.shared[plan.head_of[user]] if led else 0
                expected = (
                    role, names[plan.head_of[user]] if led else None, plan.shared[user], received,
                    plan.frequency_hz[user], plan.local_epochs,
                )  # fmt: skip
            columns = ("role", "head", "shared_samples", "received_samples", "frequency_hz", "local_epochs")
            assert tuple(table[f"{when}_{column}"][user] for column in columns) == expected
        was, now = old.head_of[user], new.head_of[user]
        change = table["change"][user]
        assert (change == "left") == (name == head)
        assert (change == "lost its head") == (was >= 0 > now and user not in new.heads)
        if change == "unchanged":
            assert (was, old.shared[user]) == (now, new.shared[user])
    assert [line for line in difference.lines() if line.startswith("1 user left")] == [
        f"1 user left: {head} (was a head)"
    ]
    lost = difference.of("lost its head")
    assert len(lost)
    text = next(line for line in difference.lines() if " lost " in line)
    assert f"{names[lost[0]]} ({head} left)" in text
    figures = difference.as_dict()
    assert figures["delay_s"] == {"old": old.delay_s, "new": new.delay_s}
    assert figures["users"] == table
