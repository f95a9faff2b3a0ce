"""Hints about units in scenario errors: the plain number to write, and the name with the right unit."""

import pytest

from fedcast.errors import ScenarioError
from fedcast.scenario import load_scenario


def fault(override):
    with pytest.raises(ScenarioError) as caught:
        load_scenario(overrides=[override])
    (line,) = str(caught.value).splitlines()
    return line


@pytest.mark.parametrize(
    ("key", "value", "number"),
    [
        ("sidelink.carrier_hz", "28 GHz", "2.8e10"),
        ("sidelink.carrier_hz", "28GHz", "2.8e10"),
        ("sidelink.carrier_hz", " 5.2 MHz ", "5.2e6"),
        ("sidelink.carrier_hz", "700 kHz", "700000.0"),
        ("sidelink.carrier_hz", "700 Hz", "700.0"),
        ("sidelink.carrier_hz", "2.8e1 GHz", "2.8e10"),
        ("sidelink.min_rate_bps", "3 Mbit/s", "3e6"),
        ("devices.power_w", "10 mW", "0.01"),
        ("devices.power_w", "7 uW", "7e-6"),
        ("devices.power_w", "7 µW", "7e-6"),
        ("devices.energy_budget_j", "-2 kJ", "-2000.0"),
    ],
)
def test_a_value_with_a_unit_is_answered_with_the_number_to_write(key, value, number):
    assert fault(f"{key}={value}").endswith(f"; write {number}")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("sidelink.carrier_hz", "28 GW"),
        ("sidelink.carrier_hz", "28 ghz"),
        ("sidelink.carrier_hz", "28 GHz or so"),
        ("sidelink.carrier_hz", "GHz"),
        ("sidelink.carrier_hz", "28"),
        ("data.num_users", "28 G"),
        ("data.num_users", "28 None"),
    ],
)
def test_a_value_without_the_unit_of_its_field_gets_no_number(key, value):
    assert "write" not in fault(f'{key}="{value}"')


@pytest.mark.parametrize("number", ["1.2.3", "e", "-", "1e"])
def test_what_is_no_number_is_an_error_without_a_hint(number):
    line = fault(f"sidelink.carrier_hz={number} GHz")
    assert f"{number} GHz" in line
    assert "write" not in line


@pytest.mark.parametrize(
    ("section", "key", "meant"),
    [
        ("sidelink", "power_mw", "power_w"),
        ("sidelink", "power_dbm", "power_w"),
        ("sidelink", "min_rate_mbps", "min_rate_bps"),
        ("sidelink", "carrier_ghz", "carrier_hz"),
        ("devices", "energy_budget_mj", "energy_budget_j"),
        # Another key is spelled more like it: only its unit tells which one is meant.
        ("sidelink", "noise_density_per_m2", "noise_density_dbm_hz"),
        ("cellular", "snr_per_m2", "snr_db"),
    ],
)
def test_a_key_with_another_unit_is_answered_with_the_key_and_the_word_unit(section, key, meant):
    line = fault(f"{section}.{key}=3")
    assert f"did you mean {meant}?" in line
    assert "unit" in line.partition(f"{meant}?")[2]


def test_a_misspelled_key_with_the_right_unit_gets_no_word_on_units():
    line = fault("sidelink.pwer_w=3")
    assert "did you mean power_w?" in line
    assert "unit" not in line.partition("?")[2]
