import itertools
import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import entropy

from fedcast.allocation import allocate
from fedcast.clustering import cluster
from fedcast.cost import round_cost
from fedcast.data import read_counts
from fedcast.data.skew import average_emd, mix_distributions, skew_of
from fedcast.errors import DataError, FedcastError, OutsideFitError
from fedcast.plan import (
    diff_plans,
    load_plan,
    make_plan,
    plan_from_json,
    plan_schema,
    plan_to_json,
    save_plan,
    search,
)
from fedcast.plan.world import make_world
from fedcast.rounds import RoundsFit, fit_rounds, load_rounds, save_fit
from fedcast.scenario import load_scenario, with_overrides

# Rounds as the paper predicts them, by skew alone, with one local epoch.
PAPER_ROUNDS = (
    "rounds.form=paper", "rounds.fit=paper-0.95", "rounds.target_accuracy=0.95", "training.local_epochs=1"
)  # fmt: skip


def scenario(*overrides):
    people = ["data.dataset=synthetic", "data.num_users=40", "training.model=cnn", "clustering.rule=daca"]
    return load_scenario(overrides=[*people, *overrides])


@pytest.fixture(scope="module")
def plan():
    return make_plan(scenario("clustering.rule=daca"))


def test_a_plan_keeps_every_limit(plan):
    here = plan.scenario
    world = make_world(here)
    sizes = world.skew.sizes
    assert (plan.shared <= here.allocation.max_sharing_ratio * sizes + 1e-9).all()
    assert (plan.energy_j <= here.devices.energy_budget_j * (1 + 1e-9)).all()
    assert (plan.frequency_hz <= here.devices.max_frequency_hz).all()
    for user in np.flatnonzero(plan.head_of >= 0):
        row = world.graph.links_of(int(user))
        assert plan.head_of[user] in world.graph.neighbours[row], "a member and its head are linked"
    assert (plan.head_of[plan.heads] == -1).all()
    assert plan.delay.total_s < plan.delay_without_s


def test_predictions_are_those_of_the_other_rooms(plan):
    """Every figure again, from head_of and shared alone."""
    here = plan.scenario
    world = make_world(here)
    after = mix_distributions(world.skew, plan.head_of, plan.shared)
    assert plan.emd_after == pytest.approx(average_emd(world.skew, after, "B"))
    assert plan.emd_before == pytest.approx(average_emd(world.skew))
    assert plan.local_epochs in here.training.local_epochs
    cost = round_cost(replace(world.fleet, local_epochs=plan.local_epochs), after.sizes)
    assert plan.frequency_hz == pytest.approx(cost.frequency_hz)
    assert plan.delay.total_s == pytest.approx(plan.delay.sharing_s + plan.rounds * cost.round_s)
    slowest = 0.0
    for head in plan.heads:
        rates = []
        for member in np.flatnonzero(plan.head_of == head):
            row = world.graph.links_of(int(member))
            rates.append(world.graph.rate_bps[row][world.graph.neighbours[row] == head][0])
        slowest = max(slowest, 6272 * plan.shared[head] / min(rates))
    assert plan.delay.sharing_s == pytest.approx(slowest, rel=1e-5)
    ratio = sum((plan.head_of == head).sum() / 40 * plan.shared[head] / world.skew.sizes[head] for head in plan.heads)
    assert plan.average_sharing_ratio == pytest.approx(ratio)


def test_the_curve_of_delay_against_leakage_falls(plan):
    ratios = [point.average_sharing_ratio for point in plan.leakage]
    delays = [point.delay_s for point in plan.leakage]
    assert ratios[0] == 0
    assert delays[0] == pytest.approx(plan.best_without.delay_s)
    assert delays[0] < plan.delay_without_s, "one local epoch is not the best without sharing"
    assert delays[-1] == pytest.approx(plan.delay.total_s)
    assert ratios == sorted(ratios)
    assert all(later <= earlier for earlier, later in itertools.pairwise(delays))


def test_a_limit_on_leakage_is_kept():
    limited = make_plan(scenario("allocation.max_asr=0.03"), with_curve=False)
    assert 0 < limited.average_sharing_ratio <= 0.03


def test_repeating_clustering_never_makes_it_worse():
    for rule in ("daca", "gain", "blend"):
        once = make_plan(scenario(f"clustering.rule={rule}", "clustering.max_passes=1"), with_curve=False)
        often = make_plan(scenario(f"clustering.rule={rule}", "clustering.max_passes=5"), with_curve=False)
        assert often.delay.total_s <= once.delay.total_s * (1 + 1e-9)
        assert often.passes <= 5


def settled_at_once(here):
    """The least delay if clusters counted as settled as soon as the solved ratios, and their mean, give no new ones."""
    world, rounds = make_world(here), load_rounds(here.rounds, here.training.learning_rate)
    problem, consent = world.problem(), world.fleet.devices.consent
    sizes, seen, delays = problem.skew.sizes, set(), []
    ratios = problem.volumes / sizes
    for _ in range(here.clustering.max_passes):
        clustering = cluster(replace(problem, volumes=np.floor(ratios * sizes + 1e-9)))
        if clustering.head_of.tobytes() in seen:
            break
        seen.add(clustering.head_of.tobytes())
        options = {"bits_per_sample": world.bits_per_sample, "beta_samples": here.rounds.beta_samples}
        result = allocate(clustering, world.fleet, rounds, here.allocation, seed=here.seed, **options)
        delays.append(result.objective_s)
        heads = result.clustering.heads
        if not len(heads):
            break
        solved = result.shared[heads] / sizes[heads]
        ratios = np.minimum(solved.mean(), consent)
        ratios[heads] = solved
    return min(delays)


def test_users_that_share_nothing_are_offered_again():
    """With little energy many heads are solved to 0; what they could do at another ratio is looked at too."""
    tight = ("devices.energy_coefficient=4e-26", "devices.energy_budget_j=0.03", "allocation.infeasible_users=exclude")
    gains = {}
    for seed, cap in [(0, 0.2), (1, 0.2), (20, 0.2), (29, 1.0), (30, 1.0)]:
        limits = (f"seed={seed}", "data.num_users=24", "clustering.rule=gain", f"allocation.max_sharing_ratio={cap}")
        limits = (*limits, *PAPER_ROUNDS)
        here = scenario(*tight, *limits)
        delay = make_plan(here, with_curve=False).delay.total_s
        gains[seed] = 1 - delay / settled_at_once(here)
    assert min(gains.values()) >= -1e-9
    assert gains[20] > 0.05
    assert gains[29] > 0.1


def test_users_are_offered_again_only_as_far_as_they_consent(tmp_path, monkeypatch):
    """Heads are solved to far more than 2 %, and the others are offered at the heads' mean: not above their consent."""
    consent = np.where(np.arange(40) % 2, 0.02, 1.0)
    table = tmp_path / "devices.csv"
    table.write_text("user,consent\n" + "".join(f"{user},{share}\n" for user, share in enumerate(consent)))
    here = scenario(f"devices.devices_file={table}", "clustering.rule=gain", "clustering.max_passes=4")
    offered = []

    def recorded(problem):
        offered.append(problem.volumes / problem.skew.sizes)
        return cluster(problem)

    monkeypatch.setattr("fedcast.plan.search.cluster", recorded)
    planned = make_plan(here, with_curve=False)
    assert planned.shared[planned.heads].max() > 0.05 * make_world(here).skew.sizes.max()
    assert len({ratios.tobytes() for ratios in offered}) > 1, "nothing is offered again"
    for ratios in offered:
        assert (ratios <= consent + 1e-9).all()


def test_no_sharing_is_a_plan_too():
    none = make_plan(scenario("clustering.rule=none"))
    assert none.speed_up == pytest.approx(1)
    assert len(none.heads) == 0
    assert none.average_sharing_ratio == 0


def test_json_out_and_in_is_the_same(plan, tmp_path):
    path = save_plan(plan, tmp_path / "new" / "plan.json")
    again = load_plan(path)
    assert plan_to_json(again) == plan_to_json(plan)
    assert again.scenario == plan.scenario
    assert diff_plans(plan, again).same
    assert [file.name for file in path.parent.iterdir()] == ["plan.json"]


def test_json_meets_its_schema(plan):
    jsonschema = pytest.importorskip("jsonschema", reason="needs jsonschema")
    jsonschema.validate(json.loads(plan_to_json(plan)), plan_schema())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: content.update(version=9), "plan of version 9"),
        (lambda content: content.update(head_of=[0, 0]), "shared has 40 entries, head_of has 2"),
        (lambda content: content["head_of"].__setitem__(0, 99), "user 0 has head 99"),
        (lambda content: content.update(rounds="many"), "rounds"),
        (lambda content: content.update(extra=1), "extra"),
        (lambda content: content["delay"].update(sharing_s=-1), "delay.sharing_s"),
        (lambda content: content["scenario"]["data"].update(alhpa=1), "scenario.data.alhpa"),
    ],
)
def test_bad_plans_are_refused(plan, change, message):
    content = json.loads(plan_to_json(plan))
    change(content)
    with pytest.raises(FedcastError, match=message):
        plan_from_json(json.dumps(content))


def test_unreadable_plans(tmp_path):
    with pytest.raises(FedcastError, match="no such file"):
        load_plan(tmp_path / "none.json")
    (tmp_path / "p.json").write_text("{")
    with pytest.raises(FedcastError, match="not valid JSON"):
        load_plan(tmp_path / "p.json")


def test_replanning_after_users_joined_and_left(plan):
    more = scenario("clustering.rule=daca", "data.num_users=45")
    new = make_plan(more, previous=plan, with_curve=False)
    fresh = make_plan(more, with_curve=False)
    assert new.delay.total_s <= fresh.delay.total_s * 1.02
    difference = diff_plans(plan, new)
    assert difference.of("joined").tolist() == [40, 41, 42, 43, 44]
    assert any(line.startswith("5 users joined: 40 (") for line in difference.lines())
    fewer = make_plan(scenario("clustering.rule=daca", "data.num_users=30"), previous=plan, with_curve=False)
    assert diff_plans(plan, fewer).of("left").tolist() == list(range(30, 40))
    assert (fewer.head_of < 30).all()


def test_the_same_world_gives_the_same_plan(plan):
    again = make_plan(plan.scenario, previous=plan)
    assert diff_plans(plan, again).same


def test_infeasible_users_are_refused_or_left_out():
    poor = ("devices.energy_budget_j=0.01",)
    with pytest.raises(FedcastError, match=r"users cannot upload within their budget"):
        make_plan(scenario(*poor))
    plan = make_plan(scenario(*poor, "allocation.infeasible_users=exclude"), with_curve=False)
    assert 0 < plan.trained.sum() < 40
    assert (plan.head_of[~plan.trained] == -1).all()
    assert (plan.energy_j[~plan.trained] == 0).all()
    assert np.isfinite(plan.delay.total_s)


def test_a_plan_says_which_fit_form_and_measure_it_used(plan):
    content = json.loads(plan_to_json(plan))
    assert [content[name] for name in ("fit", "form", "measure")] == ["mnist", "law", "emd"]
    # Plans of before did not say it: the form is the scenario's.
    content["scenario"]["rounds"]["form"] = "theory"
    del content["form"], content["measure"]
    older = plan_from_json(json.dumps(content))
    assert (older.form, older.measure) == ("theory", "emd")


def test_a_plan_by_kl_and_the_extended_form(tmp_path):
    runs = itertools.product(np.linspace(0, 2.5, 6), np.linspace(0, 0.5, 3))
    skew, shift = np.array(list(runs)).T
    options = {"target_accuracy": 0.9, "form": "extended", "measure": "kl", "bootstrap": 0, "name": "mine"}
    model = fit_rounds(skew, np.exp(3 + 0.8 * skew + 0.5 * shift), shift=shift, **options)
    save_fit(RoundsFit("mine", {"extended": model}, {}, "synthetic"), tmp_path / "mine.json")
    rounds = (f"rounds.fit={tmp_path / 'mine.json'}", "rounds.form=extended", "rounds.target_accuracy=0.9")
    made = make_plan(scenario("clustering.rule=daca", *rounds), with_curve=False)
    assert (made.form, made.measure) == ("extended", "kl")
    assert made.delay.total_s < made.delay_without_s
    skewed = make_world(made.scenario).skew
    after = mix_distributions(skewed, made.head_of, made.shared)
    kl = entropy(after.distributions, skewed.global_distribution, axis=1) @ after.sizes / after.sizes.sum()
    assert made.rounds == pytest.approx(np.exp(3 + 0.8 * kl + 0.5 * made.shift), rel=1e-5)


@pytest.mark.parametrize("rule", ["none", "central", "daca"])
def test_a_plan_without_a_prediction_has_all_the_rest(rule, tmp_path):
    fixed = (*PAPER_ROUNDS, "allocation.method=fixed", f"clustering.rule={rule}")
    made, usual = make_plan(scenario(*fixed, "rounds.target_accuracy=0.5")), make_plan(scenario(*fixed))
    assert (made.rounds, made.rounds_without, made.delay, made.delay_without_s, made.speed_up) == (None,) * 5
    assert made.not_predicted.startswith("invalid value 0.5 for rounds.target_accuracy: fit")
    assert usual.not_predicted is None
    assert (made.sharing_s > 0) == (made.sharing_bytes > 0) == (rule != "none")
    assert made.round_s == pytest.approx(usual.round_s, rel=0.2)
    assert made.round_j == pytest.approx(made.energy_j.sum())
    assert made.trained.all()
    text = plan_to_json(made)
    assert json.loads(text)["delay"] is None
    assert plan_to_json(load_plan(save_plan(made, tmp_path / "plan.json"))) == text
    lines = diff_plans(usual, made).lines()
    assert any(line.startswith("delay of the task: ") and line.endswith("s → not predicted") for line in lines)
    jsonschema = pytest.importorskip("jsonschema", reason="needs jsonschema")
    jsonschema.validate(json.loads(text), plan_schema())


def test_methods_that_optimise_the_delay_need_a_prediction():
    with pytest.raises(OutsideFitError, match=r"rounds.target_accuracy: fit .*; or share a fixed ratio"):
        make_plan(scenario(*PAPER_ROUNDS, "rounds.target_accuracy=0.5", "clustering.rule=daca"))


def test_a_limit_on_leakage_holds_without_a_prediction():
    far = (*PAPER_ROUNDS, "rounds.target_accuracy=0.5", "allocation.method=fixed", "clustering.rule=daca")
    free, limited = make_plan(scenario(*far)), make_plan(scenario(*far, "allocation.max_asr=0.02"))
    assert free.average_sharing_ratio > 0.02 >= limited.average_sharing_ratio > 0.01


def test_no_rule_without_heads_carries_clusters_over(plan):
    for rule in ("none", "central"):
        assert len(make_plan(scenario(f"clustering.rule={rule}"), previous=plan, with_curve=False).heads) == 0


def test_plans_of_before_give_the_costs_of_a_round(plan):
    content = json.loads(plan_to_json(plan))
    for name in ("sharing_s", "download_s", "compute_s", "upload_s", "round_j", "server_samples", "not_predicted"):
        del content[name]
    older = plan_from_json(json.dumps(content))
    for name in ("sharing_s", "download_s", "compute_s", "upload_s", "round_j"):
        assert getattr(older, name) == pytest.approx(getattr(plan, name), rel=1e-12)
    assert older.delay.total_s == pytest.approx(plan.delay.total_s, rel=1e-12)
    assert (older.server_samples, older.not_predicted) == (0, None)
    with pytest.raises(FedcastError, match="sharing_s, download_s, compute_s, upload_s and round_j are missing"):
        plan_from_json(json.dumps({**content, "delay": None}))


WIDE = "user,cat,dog\n0,5,1\n1,0,7\n2,3,3\n"
LONG = "user,class,count\n1,dog,7\n0,cat,5\n2,cat,3\n0,dog,1\n2,dog,3\n"


@pytest.mark.parametrize("content", [WIDE, LONG])
def test_counts_wide_and_long(tmp_path, content):
    path = tmp_path / "counts.csv"
    path.write_text(content)
    people = read_counts(path)
    assert people.counts.tolist() == [[5, 1], [0, 7], [3, 3]]
    assert people.class_names == ("cat", "dog")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("user,cat\n0,5\n0,3\n", "line 3"),
        ("user,cat\n0,-5\n", "line 2"),
        ("user,cat\n0,nan\n", "line 2"),
        ("user\n0\n", "no class columns"),
        ("user,class,count\n0,a,1\n0,a,2\n", "line 3.*second count of class a"),
        ("", "empty"),
    ],
)
def test_bad_counts(tmp_path, content, message):
    path = tmp_path / "counts.csv"
    path.write_text(content)
    with pytest.raises(DataError, match=message):
        read_counts(path)


def test_plan_from_tables_alone_needs_no_torch(tmp_path):
    """Counts, links and devices as a network engineer has them, on the command line, in a process of its own."""
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 100, (12, 3)) * rng.integers(0, 2, (12, 3)) + [50, 0, 0]
    (tmp_path / "counts.csv").write_text(
        "user,a,b,c\n" + "".join(f"{user},{','.join(map(str, row))}\n" for user, row in enumerate(counts))
    )
    (tmp_path / "links.csv").write_text(
        "user_a,user_b,rate_bps,closeness\n" + "".join(f"{a},{b},2e6,0.8\n" for a in range(12) for b in range(a))
    )
    (tmp_path / "devices.csv").write_text(
        "user,energy_budget_j,up_rate_bps,down_rate_bps\n" + "".join(f"{user},0.2,1e6,5e6\n" for user in range(12))
    )
    code = (
        "import sys\nfrom fedcast.cli.app import run\n"
        "files = ['--counts', 'counts.csv', '--links', 'links.csv', '--devices', 'devices.csv']\n"
        "code = run(['plan', *files, '--json', 'p.json'])\n"
        "sys.exit(code or ('torch' in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    plan = load_plan(tmp_path / "p.json")
    assert plan.num_users == 12
    assert plan.emd_before == pytest.approx(average_emd(skew_of(counts)))
    assert plan.delay.total_s < plan.delay_without_s


def test_the_plan_uses_the_scenarios_rule():
    here = scenario(
        "clustering.rule=scc", "clustering.max_passes=1", "allocation.method=fixed", "allocation.fixed.ratio=0.1"
    )
    plan = make_plan(here, with_curve=False)
    assert np.array_equal(plan.head_of, cluster(make_world(here).problem()).head_of)
    assert (plan.shared[plan.heads] == 60).all()


def test_whole_volumes_stay_whole_when_clusters_are_made_again(monkeypatch):
    """1/49 of 49 samples is 0.9999999999999999 of one."""
    problem, offered = make_world(scenario()).problem(), []
    monkeypatch.setattr(search, "cluster", lambda problem: offered.append(problem.volumes) or cluster(problem))
    sizes = np.full_like(problem.skew.sizes, 49)
    problem = replace(problem, skew=replace(problem.skew, sizes=sizes), volumes=np.ones(len(sizes)))
    for volume in range(1, 50):
        search._unseen(problem, [np.full(len(sizes), volume) / sizes], set())
        assert (offered[-1] == volume).all()


def test_an_older_plan_is_carried_as_far_as_its_heads_still_can():
    world = make_world(scenario("clustering.rule=daca"))
    plan = make_plan(world.scenario, world=world, with_curve=False)
    shrunken, unwilling, same = plan.heads[:3]
    problem = world.problem(world.scenario.clustering.model_copy(update={"composition": plan.composition}))
    sizes, volumes = problem.skew.sizes.copy(), problem.volumes.copy()
    sizes[shrunken] = volumes[shrunken] = plan.shared[shrunken] / 2
    volumes[unwilling] = 0
    changed = replace(problem, skew=replace(problem.skew, sizes=sizes), volumes=volumes)
    ratios = search._carried_ratios(changed, plan.head_of, plan.shared)
    assert (ratios[shrunken], ratios[unwilling]) == (1.0, 0.0)
    assert ratios[same] == plan.shared[same] / sizes[same]
    carried = search._carried_clustering(changed, plan.head_of)
    assert unwilling not in carried.heads
    assert (carried.head_of[plan.head_of == same] == same).all()


def test_clusters_of_a_former_plan_end_where_consent_ends(plan, tmp_path):
    """A head whose owner withdrew consent leads nobody, also before volumes are allocated."""
    head = int(max(plan.heads, key=lambda one: plan.shared[one]))
    table = tmp_path / "devices.csv"
    table.write_text("user,consent\n" + "".join(f"{user},{float(user != head)}\n" for user in range(plan.num_users)))
    world = make_world(with_overrides(plan.scenario, {"devices.devices_file": str(table)}))
    carried = search.Search(world).carried(plan)
    assert head not in carried.result.clustering.heads
    assert len(carried.result.clustering.heads) == len(plan.heads) - 1
