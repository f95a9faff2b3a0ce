import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from fedcast import cost
from fedcast.errors import DataError, ScenarioError
from fedcast.scenario import Devices, Scenario, preset
from fedcast.wireless.geometry import Layout, place_users
from fedcast.wireless.uplink import schedule

CYCLES = 2.5e5 * 600
UPLINKS = ["parallel", "waves", "fractional"]


def scenario(**sections):
    return Scenario.model_validate({"training": {"model": "cnn"}, **sections})


def fleet_at(distances, base=None):
    base = base or scenario()
    places = np.column_stack([distances, np.zeros(len(distances))])
    return cost.fleet_of(base, Layout(places, np.zeros((1, 2)), np.zeros(len(places), dtype=np.int64)))


# Model size


@pytest.mark.parametrize(
    ("sections", "bits"),
    [
        ({"training": {"model": "cnn"}}, 698_880),
        ({"data": {"dataset": "mnist"}}, 698_880),
        ({"data": {"dataset": "cifar10"}}, 14_728_266 * 32),
        ({"data": {"dataset": "digits"}}, 1_898 * 32),
        ({"training": {"model_weights": 1_663_370}}, 53_227_840),
        ({"training": {"model": "mine", "model_weights": 1000, "bits_per_weight": 16}}, 16_000),
    ],
)
def test_model_bits(sections, bits):
    assert cost.model_bits(Scenario.model_validate(sections)) == bits


def test_an_unknown_model_is_refused_with_the_way_out():
    with pytest.raises(ScenarioError, match=r"training.model: 'mine'.*training.model_weights"):
        cost.model_bits(Scenario.model_validate({"training": {"model": "mine"}}))


# Devices


def test_devices_of_the_scenario():
    table = cost.device_table(3, Devices())
    assert table.max_frequency_hz.tolist() == [1.2e9] * 3
    assert table.energy_budget_j.tolist() == [0.05] * 3
    assert table.consent.tolist() == [1.0] * 3
    assert table.up_rate_bps is None
    assert table.down_rate_bps is None


CSV = "user,consent,max_frequency_hz,up_rate_bps\n2,0,3e8,3e6\n0,0.5,1e8,1e6\n1,1,2e8,2e6\n"


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_devices_of_a_file(tmp_path, kind):
    file = tmp_path / f"devices.{kind}"
    if kind == "csv":
        file.write_text(CSV)
    else:
        pyarrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        columns = {"user": [2, 0, 1], "consent": [0, 0.5, 1], "max_frequency_hz": [3e8, 1e8, 2e8]}
        parquet.write_table(pyarrow.table({**columns, "up_rate_bps": [3e6, 1e6, 2e6]}), file)
    table = cost.device_table(3, Devices(devices_file=str(file), power_w=0.2))
    assert table.consent.tolist() == [0.5, 1, 0]
    assert table.max_frequency_hz.tolist() == [1e8, 2e8, 3e8]
    assert table.up_rate_bps.tolist() == [1e6, 2e6, 3e6]
    assert table.power_w.tolist() == [0.2] * 3
    assert table.down_rate_bps is None
    assert table.of([2, 0]).consent.tolist() == [0, 0.5]
    assert table.of(np.array([False, True, False])).up_rate_bps.tolist() == [2e6]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("user,consent\n0,0.5\n1,1.2\n", r"devices.csv, line 3, column consent: '1.2' is above 1"),
        ("user,up_rate_bps\n0,0\n1,5\n", r"line 2, column up_rate_bps: '0' is not above 0"),
        ("user,power_w\n0,0.1\n1,-1\n", r"line 3, column power_w"),
        ("user,energy_budget_j\n0,nan\n1,1\n", r"line 2, column energy_budget_j"),
        ("user,consent\n0,1\n4,1\n", r"line 3.*user 4 does not exist"),
        ("consent\n1\n1\n", r"no column 'user'"),
    ],
)
def test_bad_device_files_name_file_line_and_reason(tmp_path, text, reason):
    file = tmp_path / "devices.csv"
    file.write_text(text)
    with pytest.raises(DataError, match=reason):
        cost.device_table(2, Devices(devices_file=str(file)))


def test_a_device_file_reaches_the_round(tmp_path):
    file = tmp_path / "devices.csv"
    file.write_text("user,up_rate_bps,down_rate_bps,max_frequency_hz\n0,1e6,1e7,1e8\n1,2e6,2e7,2e8\n")
    base = scenario(devices={"devices_file": str(file), "energy_budget_j": 10.0})
    cost_of_round = cost.round_cost(fleet_at([100, 900], base), [600, 600])
    np.testing.assert_allclose(cost_of_round.upload_s, [0.69888, 0.34944])
    np.testing.assert_allclose(cost_of_round.broadcast_s, 0.069888)
    np.testing.assert_allclose(cost_of_round.compute_s, [1.5, 0.75])


# Sharing


def naive_sharing(head_of, shared, rates, bits, power):
    delays = {}
    for user, head in enumerate(head_of):
        if head >= 0 and shared[head] > 0:
            delays[head] = max(delays.get(head, 0), bits * shared[head] / rates[user])
    return max(delays.values(), default=0), {head: power * delay for head, delay in delays.items()}


@given(st.integers(0, 10_000))
def test_sharing_against_a_loop(seed):
    rng = np.random.default_rng(seed)
    users = int(rng.integers(1, 40))
    heads = rng.random(users) < 0.3
    head_of = np.where(heads | ~heads.any(), -1, rng.choice(np.append(np.flatnonzero(heads), -1), users))
    shared = np.where(rng.random(users) < 0.3, 0, rng.uniform(0, 100, users))
    rates = np.where(head_of >= 0, rng.uniform(1e5, 1e8, users), np.nan)
    ours = cost.sharing_cost(head_of, shared, rates, 6272, 0.01)
    delay, energy = naive_sharing(head_of, shared, rates, 6272, 0.01)
    assert ours.sharing_s == pytest.approx(delay)
    assert dict(zip(ours.heads.tolist(), ours.energy_j, strict=True)) == pytest.approx(energy)
    assert ours.sent_bytes == pytest.approx(sum(6272 * shared[head] / 8 for head in energy))


def test_sharing_nothing_costs_nothing():
    empty = cost.sharing_cost([-1, -1], [5, 5], [0, 0], 6272, 0.01)
    assert (empty.sharing_s, empty.sent_bytes, len(empty.heads)) == (0, 0, 0)


def test_ten_seconds_at_ten_milliwatts_are_a_tenth_of_a_joule():
    shared = cost.sharing_cost([-1, 0], [100, 0], [0, 1e5], 1e4, 0.01)
    assert shared.sharing_s == pytest.approx(10)
    assert shared.energy_j.sum() == pytest.approx(0.1)


def test_a_member_without_a_link_is_named():
    with pytest.raises(ValueError, match="user 1 has no link to its head 0"):
        cost.sharing_cost([-1, 0], [100, 0], [0, 0], 1e4, 0.01)


# Computing


@pytest.mark.parametrize(
    ("coefficient", "energy_j", "capped_hz", "capped_s"),
    [(4e-26, 8.64, 28.9e6, 5.20), (1e-27, 0.216, 183e6, 0.82), (1e-28, 21.6e-3, 577e6, 0.26)],
)
def test_computing_600_samples(coefficient, energy_j, capped_hz, capped_s):
    assert cost.compute_s(CYCLES, 1.2e9) == pytest.approx(0.125)
    assert cost.compute_energy_j(CYCLES, 1.2e9, coefficient) == pytest.approx(energy_j, rel=1e-3)
    frequency = cost.best_frequency_hz(CYCLES, 0.005, 1.2e9, coefficient)
    assert frequency == pytest.approx(capped_hz, rel=3e-3)
    assert cost.compute_s(CYCLES, frequency) == pytest.approx(capped_s, abs=6e-3)


def test_energy_coefficient_at_which_5_mj_reach_the_highest_frequency():
    assert cost.compute_energy_j(CYCLES, 1.2e9, 2.31e-29) == pytest.approx(0.005, rel=3e-3)


positive = st.floats(1e-6, 1e-1)


@settings(max_examples=50)
@given(st.floats(1e6, 1e10), positive, st.floats(1e8, 5e9), st.sampled_from([4e-26, 1e-27, 1e-28]))
def test_the_best_frequency_is_the_solvers(cycles, energy, highest, coefficient):
    """The shortest time with f <= f_max and the energy within its limit, by SLSQP in f / f_max."""

    def energy_left(x):
        return 1 - cost.compute_energy_j(cycles, x[0] * highest, coefficient) / energy

    solution = optimize.minimize(
        lambda x: -x[0],
        x0=[1e-3],
        bounds=[(0, 1)],
        constraints=[{"type": "ineq", "fun": energy_left}],
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    ours = cost.best_frequency_hz(cycles, energy, highest, coefficient)
    assert ours / highest == pytest.approx(solution.x[0], rel=1e-4)
    assert cost.compute_energy_j(cycles, ours, coefficient) <= energy * (1 + 1e-12)


@given(st.floats(1, 1e12), positive, st.floats(1e8, 5e9), st.sampled_from([4e-26, 1e-28]))
def test_fastest_computing_is_the_printed_maximum(cycles, energy, highest, coefficient):
    printed = max(cycles / highest, cycles**1.5 * math.sqrt(coefficient / energy))
    assert cost.fastest_compute_s(cycles, energy, highest, coefficient) == pytest.approx(printed, rel=1e-12)


@given(st.lists(st.just(0.0) | st.floats(1, 1e12), min_size=3, max_size=3), st.floats(-0.1, 0.1))
def test_fastest_computing_is_convex_and_never_nan(cycles, energy):
    low, middle, high = sorted(cycles)
    weight = 0.5 if high == low else (high - middle) / (high - low)
    at_low, at_middle, at_high = cost.fastest_compute_s([low, middle, high], energy, 1.2e9, 1e-28)
    assert not np.isnan([at_low, at_middle, at_high]).any()
    if np.isfinite(at_high):
        assert at_middle <= (weight * at_low + (1 - weight) * at_high) * (1 + 1e-9)


@pytest.mark.parametrize("energy", [0.0, -1.0])
def test_without_energy_only_empty_users_finish(energy):
    assert cost.best_frequency_hz([CYCLES, 0.0], energy, 1.2e9, 1e-28).tolist() == [0.0, 1.2e9]
    assert cost.fastest_compute_s([CYCLES, 0.0], energy, 1.2e9, 1e-28).tolist() == [np.inf, 0.0]


# A round


@pytest.mark.parametrize(
    ("coefficient", "model", "frequency_mhz", "round_s"),
    [(4e-26, "macro", 25.0, 6.13), (4e-26, "uma", 21.9, 7.08), (1e-28, "macro", 500, 0.43), (1e-28, "uma", 437, 0.56)],
)
def test_a_round_of_one_user_at_200_m_with_5_mj(coefficient, model, frequency_mhz, round_s):
    base = Scenario.model_validate(
        {
            "training": {"model_weights": 700_000, "bits_per_weight": 1},
            "devices": {"energy_coefficient": coefficient, "energy_budget_j": 0.005},
            "cellular": {"path_loss": model},
        }
    )
    one = cost.round_cost(fleet_at([200], base), [600])
    assert one.frequency_hz[0] == pytest.approx(frequency_mhz * 1e6, rel=2e-3)
    assert one.round_s == pytest.approx(round_s, abs=6e-3)
    assert one.energy_j[0] == pytest.approx(0.005)


def test_the_default_budget_just_reaches_the_edge_of_the_cell():
    base = Scenario.model_validate({"training": {"model_weights": 700_000, "bits_per_weight": 1}})
    one = cost.round_cost(fleet_at([1000], base), [600])
    assert one.upload_energy_j[0] == pytest.approx(29.1e-3, rel=2e-3)
    assert one.frequency_hz[0] == pytest.approx(1.180e9, rel=1e-3)
    assert one.compute_s[0] == pytest.approx(0.127, abs=5e-4)


def fleets(draw_seed, uplink, cells=True):
    rng = np.random.default_rng(draw_seed)
    base = scenario(cellular={"uplink": uplink}, geometry={"users_per_cell": 30}, devices={"energy_budget_j": 0.4})
    users = int(rng.integers(1, 150)) if cells else int(rng.integers(1, 30))
    layout = place_users(users, base.geometry, draw_seed)
    return cost.fleet_of(base, layout), rng.uniform(0, 900, users)


@pytest.mark.parametrize("uplink", UPLINKS)
@given(st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_a_round_ends_when_the_last_cell_ends(uplink, seed):
    fleet, samples = fleets(seed, uplink)
    whole = cost.round_cost(fleet, samples)
    cells = [fleet.links.cell_of == cell for cell in np.unique(fleet.links.cell_of)]
    parts = [cost.round_cost(fleet.of(cell), samples[cell]) for cell in cells]
    assert whole.round_s == pytest.approx(max(part.round_s for part in parts), rel=2e-5)
    assert sum(whole.phases_s) == whole.round_s
    assert whole.broadcast_bytes == pytest.approx(len(cells) * 698_880 / 8)
    assert whole.uploaded_bytes == pytest.approx(len(samples) * 698_880 / 8)


@given(st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_parallel_is_the_printed_formula(seed):
    fleet, samples = fleets(seed, "parallel", cells=False)
    ours = cost.round_cost(fleet, samples)
    down = fleet.model_bits * fleet.links.down_s_per_bit
    up = fleet.model_bits * fleet.links.up_s_per_bit
    frequency = np.minimum(1.2e9, np.sqrt((0.4 - 0.01 * up) / (1e-28 * 2.5e5 * np.maximum(samples, 1e-300))))
    assert ours.round_s == pytest.approx(down.max() + (2.5e5 * samples / frequency + up).max())
    np.testing.assert_allclose(ours.frequency_hz, frequency)
    np.testing.assert_allclose(ours.energy_j, 0.01 * up + 1e-28 * 2.5e5 * samples * frequency**2)


@given(st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_waves_are_parallel_up_to_the_number_of_subcarriers(seed):
    rng = np.random.default_rng(seed)
    distances, samples = rng.uniform(0, 1000, 10), rng.uniform(0, 900, 10)
    parallel, waves = (
        cost.round_cost(fleet_at(distances, scenario(cellular={"uplink": uplink})), samples).round_s
        for uplink in ("parallel", "waves")
    )
    assert waves == parallel
    more = np.append(distances, 500.0), np.append(samples, 600.0)
    slower = cost.round_cost(fleet_at(more[0], scenario(cellular={"uplink": "waves"})), more[1]).round_s
    assert slower >= parallel


@pytest.mark.parametrize("uplink", UPLINKS)
@given(st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_every_budget_holds(uplink, seed):
    fleet, samples = fleets(seed, uplink)
    ours = cost.round_cost(fleet, samples)
    assert np.isfinite(ours.round_s)
    assert (ours.energy_j <= fleet.devices.energy_budget_j * (1 + 1e-9)).all()
    assert (ours.frequency_hz <= fleet.devices.max_frequency_hz).all()


def test_fractional_beats_the_equal_split_it_starts_from():
    base = scenario(cellular={"uplink": "fractional"}, devices={"energy_budget_j": 1.0})
    fleet = fleet_at(np.linspace(50, 1000, 40), base)
    samples = np.linspace(900, 100, 40)
    ours = cost.round_cost(fleet, samples)
    equal = ours.broadcast_s + ours.compute_s + fleet.upload_s
    assert ours.round_s < 0.8 * equal.max()


def test_fractional_does_not_spend_the_energy_of_early_users():
    """Users that have computed early could send for long on little bandwidth, but their energy would not last."""
    base = scenario(cellular={"uplink": "fractional"}, devices={"energy_budget_j": 0.03})
    fleet = fleet_at(np.linspace(50, 700, 40), base)
    samples = np.where(np.arange(40) == 0, 6000.0, 10.0)
    ours = cost.round_cost(fleet, samples)
    unlimited = schedule(fleet.model_bits, ours.compute_s, fleet.links, fleet.cellular)
    assert (0.01 * unlimited.upload_s + ours.compute_energy_j > 0.03).any()
    assert (ours.energy_j <= 0.03 * (1 + 1e-9)).all()


def test_epochs_and_cycles_multiply():
    fleet = fleet_at([100, 200], scenario(training={"model": "cnn", "local_epochs": 3}))
    np.testing.assert_allclose(fleet.cycles([2, 4]), [1.5e6, 3e6])


def test_given_frequencies_are_kept():
    fleet = fleet_at([200, 400])
    ours = cost.round_cost(fleet, [600, 300], frequency_hz=[1e9, 5e8])
    np.testing.assert_allclose(ours.compute_s, [0.15, 0.15])
    np.testing.assert_allclose(ours.compute_energy_j, [0.015, 1e-28 * 7.5e7 * 2.5e17])


@pytest.mark.parametrize("uplink", UPLINKS)
def test_an_infeasible_user_makes_the_round_endless_but_nothing_nan(uplink):
    base = scenario(cellular={"uplink": uplink}, devices={"energy_budget_j": 1e-3})
    fleet = fleet_at([100, 1000], base)
    ours = cost.round_cost(fleet, [600, 600])
    assert ours.round_s == np.inf
    assert ours.critical_user == 1
    for name in ("broadcast_s", "compute_s", "upload_s", "span_s", "frequency_hz", "energy_j"):
        assert not np.isnan(getattr(ours, name)).any()
    assert np.isfinite(cost.round_cost(fleet.of([0]), [600]).round_s)


# Feasibility


def test_paper_preset_leaves_out_most_of_the_cell():
    """Uniform in a disc of 1 km, 0.7 Mbit, 5 mJ: those within 526 m can take part, 27.7 %."""
    changes = {"training": {"model_weights": 700_000, "bits_per_weight": 1}, "geometry": {"layout": "cell"}}
    paper = Scenario.model_validate({**preset("paper").model_dump(), **changes})
    layout = place_users(20_000, paper.geometry, seed=0)
    found = cost.feasibility(cost.fleet_of(paper, layout), np.full(20_000, 600))
    assert found.feasible.mean() == pytest.approx(0.277, abs=0.01)
    distance = layout.cell_distance_m()
    assert found.feasible[distance < 525.5].all()
    assert not found.feasible[distance > 526.5].any()
    assert (found.smallest_budget_j[found.infeasible_users] > 0.005).all()


@pytest.mark.parametrize("seed", range(20))
def test_default_preset_leaves_nobody_out(seed):
    base = scenario()
    fleet = cost.fleet_of(base, place_users(100, base.geometry, seed))
    assert cost.feasibility(fleet, np.full(100, 600)).feasible.all()
    assert np.isfinite(cost.round_cost(fleet, np.full(100, 600)).round_s)


@given(st.integers(0, 1000), st.sampled_from([4e-26, 1e-28]))
@settings(max_examples=30, deadline=None)
def test_the_smallest_budget_does_and_the_upload_energy_does_not(seed, coefficient):
    rng = np.random.default_rng(seed)
    distances, samples = rng.uniform(0, 1500, 12), rng.uniform(1, 900, 12)
    devices = {"energy_coefficient": coefficient, "energy_budget_j": 1e-3}
    found = cost.feasibility(fleet_at(distances, scenario(devices=devices)), samples)

    def with_budget(user, budget):
        return fleet_at(distances[[user]], scenario(devices={**devices, "energy_budget_j": float(budget)}))

    for user in found.infeasible_users:
        sample = samples[[user]]
        assert not cost.feasibility(with_budget(user, found.upload_energy_j[user]), sample).feasible[0]
        enough = with_budget(user, found.smallest_budget_j[user])
        assert cost.feasibility(enough, sample).feasible[0]
        # It computes as fast as it would today if its upload were free.
        free = cost.best_frequency_hz(enough.cycles(sample), 1e-3, 1.2e9, coefficient)
        np.testing.assert_allclose(cost.round_cost(enough, sample).frequency_hz, free, rtol=1e-6)


def test_a_user_without_data_needs_no_energy_to_compute():
    fleet = fleet_at([500, 500], scenario(devices={"energy_budget_j": 0.1}))
    exact = scenario(devices={"energy_budget_j": float(fleet.upload_energy_j[0])})
    assert cost.feasibility(fleet_at([500, 500], exact), [0, 1]).feasible.tolist() == [True, False]


def test_a_report_names_user_upload_budget_and_way_out():
    found = cost.feasibility(fleet_at([100, 1000], scenario(devices={"energy_budget_j": 0.005})), [600, 600])
    assert found.infeasible_users.tolist() == [1]
    assert "would do" not in found.explain(0)
    assert found.explain(1).startswith(
        "user 1: the upload takes 0.0291 J of a budget of 0.005 J per round; 0.0341 J would do"
    )


# The whole task, and what an import costs


def test_task():
    assert cost.task_s(2.0, 0.5, 100) == 52
    assert cost.task_s(2.0, math.inf, 100) == math.inf
    with pytest.raises(ValueError, match="rounds"):
        cost.task_s(2.0, math.inf, 0)


def test_importing_costs_pulls_in_nothing_heavy():
    heavy = "{'scipy', 'numba', 'torch', 'pyarrow', 'matplotlib'}"
    code = f"import sys, fedcast.cost, fedcast.wireless.sidelink; sys.exit(str({heavy} & set(sys.modules) or ''))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == ""
