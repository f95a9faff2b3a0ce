"""Tables named by options and by the scenario, in all commands that use them."""

import pytest

from fedcast import load_scenario, make_world

COUNTS = "user,cat,dog\nlobby,5,1\ngate,0,7\nroof,3,3\n"
TABLES = {
    "counts.csv": COUNTS,
    "links.csv": "user_a,user_b,rate_bps,closeness\nlobby,gate,1e6,0.9\ngate,roof,2e6,0.8\n",
    "positions.csv": "user,x_m,y_m\nlobby,1,2\ngate,30,4\nroof,5,60\n",
    "base-stations.csv": "x_m,y_m,operator\n0,0,gate\n4000,0,gate\n",
    "devices.csv": "user,max_frequency_hz\nlobby,1e9\ngate,2e9\nroof,1e9\n",
}
SCENARIO = """
data.dataset = "synthetic"
data.synthetic.counts_file = "counts.csv"
trust.links_file = "links.csv"
geometry.positions_file = "positions.csv"
geometry.base_stations_file = "base-stations.csv"
devices.devices_file = "devices.csv"
"""
OPTIONS = [word for name in TABLES for word in (f"--{name.removesuffix('.csv')}", name)]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in {**TABLES, "s.toml": SCENARIO}.items():
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize("command", [["network"], ["cluster", "--rules", "daca", "--no-exact"]])
def test_options_and_scenario_give_the_same(fedcast, folder, command):
    by_options, by_scenario = fedcast(*command, *OPTIONS), fedcast(*command, "s.toml")
    assert by_options[0] == 0
    assert [line for line in by_options[1].splitlines() if "daca" not in line] == [
        line for line in by_scenario[1].splitlines() if "daca" not in line  # it has milliseconds
    ]  # fmt: skip


@pytest.mark.parametrize("table", TABLES)
def test_a_fault_in_any_table_is_found(fedcast, folder, table):
    said = "s.toml: ok to plan; not to train: a table of label counts has no samples\n"
    assert fedcast("validate", "s.toml")[:2] == (0, said)
    (folder / table).write_text(TABLES[table].replace("gate", "gat").replace("x_m,y_m,operator", "gat,y_m,operator"))
    code, _, err = fedcast("validate", "s.toml")
    assert code == 2
    assert "gat" in err
    for command in ("network", "cluster"):
        assert fedcast(command, *OPTIONS)[0] == 2


def test_the_table_gives_the_number_of_users(folder):
    world = make_world(load_scenario("s.toml"))
    assert (world.scenario.data.num_users, world.population.names.tolist()) == (3, ["lobby", "gate", "roof"])


def test_base_stations_are_assumed_only_where_no_table_gives_them(fedcast, folder):
    tables = [word for name in ("counts", "positions") for word in (f"--{name}", f"{name}.csv")]
    out = " ".join(fedcast("network", *tables)[1].split())
    assert "One base station is placed in the middle of the users (--base-stations)." in out
    given = " ".join(fedcast("network", *tables, "--base-stations", "base-stations.csv")[1].split())
    assert "3 users, 1 base station" in given
    assert "--base-stations" not in given
    code, _, err = fedcast("network", "--counts", "counts.csv", "--base-stations", "base-stations.csv")
    assert (code, "for geometry.base_stations_file: positions of users are not given" in err) == (2, True)


def test_a_byte_order_mark_for_excel(fedcast, folder):
    settings = [word for change in ("rounds.fit=digits-0.85", "rounds.target_accuracy=0.85", "allocation.method=fixed")
                for word in ("--set", change)]  # fmt: skip
    assert fedcast("plan", "s.toml", *settings, "--table", "p.csv", "--bom")[0] == 0
    assert (folder / "p.csv").read_bytes().startswith(b"\xef\xbb\xbfuser,")
