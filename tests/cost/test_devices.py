"""Devices of a scenario and of a person's own table."""

import math

import numpy as np
import pytest

from fedcast import cost
from fedcast.errors import DataError
from fedcast.scenario import Devices
from tests.cost.fleets import fleet_at, scenario


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
        ("consent\n1\n1\n", r"missing column 'user'"),
        ("user,max_frequency_hz\n0,1e9\n1,1e300\n", r"line 3, column max_frequency_hz: '1e300' is above 1e\+15"),
        ("user,cycles_per_sample\n0,1e-300\n1,1\n", r"line 2, column cycles_per_sample: '1e-300' is below 1e-15"),
        ("user,up_snr_db\n0,-4000\n1,10\n", r"line 2, column up_snr_db: '-4000' is below -100"),
        ("user,upload_bps\n0,1\n1,1\n", r"unknown column 'upload_bps'; did you mean 'up_rate_bps'\?"),
        ("user,snr_db\n0,1\n1,1\n", r"unknown column 'snr_db'; did you mean 'up_snr_db'\?"),
        ("user,up_rate_bps,up_snr_db\n0,1,1\n1,1,1\n", r"columns up_rate_bps and up_snr_db both give"),
        ("user,down_snr_db,down_rate_bps\n0,1,1\n1,1,1\n", r"columns down_rate_bps and down_snr_db both give"),
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


def test_the_snr_of_each_user_reaches_the_round(tmp_path):
    """Without fading: SNR 3 on 1 MHz is 2 Mbit/s, SNR 1 is 1 Mbit/s, on 20 MHz 20 times that; 698,880 bits."""
    file = tmp_path / "devices.csv"
    threefold_db = 10 * math.log10(3)
    file.write_text(f"user,up_snr_db,down_snr_db\n0,{threefold_db!r},0\n1,0,{threefold_db!r}\n")
    base = scenario(
        devices={"devices_file": str(file), "energy_budget_j": 10.0}, cellular={"fading": "awgn", "snr_db": 40.0}
    )
    fleet = fleet_at([100, 900], base)
    np.testing.assert_allclose(fleet.upload_s, [0.34944, 0.69888])
    np.testing.assert_allclose(fleet.model_bits * fleet.links.down_s_per_bit, [0.034944, 0.017472])
    np.testing.assert_allclose(fleet.links.up_snr, [3.0, 1.0])


def test_a_rate_one_way_and_an_snr_the_other(tmp_path):
    """At 0 dB Rayleigh fading leaves 0.86034738 bit/s/Hz, on 20 MHz."""
    file = tmp_path / "devices.csv"
    file.write_text("user,up_rate_bps,down_snr_db\n0,1e6,0\n")
    fleet = fleet_at([100], scenario(devices={"devices_file": str(file)}))
    assert fleet.upload_s[0] == pytest.approx(0.69888)
    assert 1 / fleet.links.down_s_per_bit[0] == pytest.approx(20e6 * 0.86034738)


@pytest.mark.parametrize("snr_db", [-100.0, 100.0])
@pytest.mark.parametrize("fading", ["ergodic", "truncated", "nakagami", "awgn"])
@pytest.mark.parametrize("uplink", ["parallel", "waves", "fractional"])
def test_the_widest_values_that_a_table_may_hold_stay_finite(tmp_path, snr_db, fading, uplink):
    file = tmp_path / "devices.csv"
    file.write_text(
        "user,max_frequency_hz,cycles_per_sample,power_w,energy_budget_j,up_snr_db,down_snr_db\n"
        f"0,1e15,1e15,1e-15,1e15,{snr_db},{snr_db}\n1,1e-15,1e-15,1e15,1e15,{snr_db},{snr_db}\n"
    )
    base = scenario(devices={"devices_file": str(file)}, cellular={"fading": fading, "uplink": uplink})
    fleet = fleet_at([100, 900], base)
    able = cost.feasibility(fleet, [600, 600])
    assert np.isfinite(able.smallest_budget_j).all()
    able_now = fleet.of(able.feasible)
    assert np.isfinite(cost.round_cost(able_now, np.full(able.feasible.sum(), 600.0)).round_s)


def test_columns_that_are_read_and_ignored_are_told_apart(tmp_path):
    file = tmp_path / "devices.csv"
    file.write_text("consent,user,battery_j,power_w,model\n1,0,5,0.1,X\n")
    assert cost.device_columns(file) == (("consent", "power_w"), ("battery_j", "model"))
