"""Plans from a person's own tables, as they come from the command line and leave it."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow.parquet
import pytest

COUNTS = "user,cat,dog,fox\n0,40,40,40\n1,90,0,0\n2,0,80,0\n3,0,0,70\n4,30,30,0\n5,0,60,0\n"
LINKS = "user_a,user_b,rate_bps,closeness\n0,1,5e6,0.9\n0,2,4e6,0.8\n0,3,2e6,0.7\n4,5,6e6,0.9\n"
RULE = ("--set", "clustering.rule=daca", "--set", "training.local_epochs=1")
PROGRAM = [sys.executable, "-c", "from fedcast.cli import main; main()"]


@pytest.fixture
def tables(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "counts.csv").write_text(COUNTS)
    (tmp_path / "links.csv").write_text(LINKS)
    return ["--counts", "counts.csv", "--links", "links.csv"]


def flat(text):
    return " ".join(text.split())


def test_what_no_table_says_is_listed_with_the_way_to_say_it(fedcast, tables, tmp_path):
    out = flat(fedcast("plan", *tables, *RULE, "--json", "p.json")[1])
    assert "6 users, 480 samples, 3 classes: cat, dog, fox" in out
    for assumed in (
        "Positions of users and base stations are drawn with seed 0 (--positions, or rates or SNR of upload and",
        "Rates of upload and download follow from the distance to the base station by path loss macro",
        "All devices have a highest frequency of 1.20 GHz, 250,000 cycles per sample, a transmit power of 10 mW, 50 mJ",
        "All users consent to share any of their samples (consent in --devices).",
        "A model of 21,840 weights, cnn, is sent (training.model_weights).",
        "A shared sample has 6,272 bits, as an MNIST image (data.bits_per_sample).",
        "Rounds follow fit mnist, form law, made on 353 runs of mnist, studies/rounds: 100 users, model cnn, batch",
        "Fit mnist was made for another task: data.dataset = synthetic, its runs have mnist",
    ):
        assert assumed in out
    assert "Links have" not in out
    listed = json.loads((tmp_path / "p.json").read_text())["assumptions"]
    assert flat(" ".join(listed)) in out
    assert len(listed) == 8
    for words in (["network"], ["cluster", "--no-exact", "--rules", "daca"]):
        without = flat(fedcast(*words, *tables[:2])[1])
        assert "rates by distance and radio model four_state, and closeness drawn with seed 0, generator" in without
        assert "(--positions, or rate_bps in --links and rates or SNR of upload and download in --devices)" in without
        assert "Rounds follow" not in without


def test_a_plan_is_drawn_with_names(fedcast, tables, tmp_path):
    quick = ("--set", "clustering.rule=gain", "--set", "training.local_epochs=1")
    code, out, _ = fedcast("plan", *tables, *quick, "--picture", "map.svg", "--width", "page")
    assert (code, flat(out).endswith("wrote map.svg")) == (0, True)
    text = (tmp_path / "map.svg").read_text(encoding="utf-8")
    assert "a schematic layout, in which distances mean nothing" in text
    assert "1 link refused" not in text
    assert fedcast("plan", *tables, "--picture", "map.gif")[2].startswith("fedcast: map.gif: unknown kind of picture")
    assert fedcast("plan", "diff", "a.json", "b.json", "--picture", "map.svg")[0] == 2


def test_numbers_of_a_plan_have_heads(fedcast):
    out = flat(fedcast("plan", "--preset", "digits", "--set", "data.num_users=40", "--set", "clustering.rule=blend")[1])
    found = re.search(r"blend: (\d+) heads share (\d+) of .* with (\d+) of 40 users", out)
    heads, shared, members = map(int, found.groups())
    assert 0 < heads < members < 40
    assert shared > 0
    assert re.search(r"delay against leakage average sharing ratio delay of the task 0\.000 [\d.]+ s", out)


def test_a_plan_says_what_it_chose_and_what_it_is_compared_with(fedcast):
    few = ("--preset", "digits", "--set", "data.num_users=40")
    out = flat(fedcast("plan", *few)[1])
    assert re.search(r"; \d local epochs? a round", out)
    assert re.search(r"rounds expected \(\d+ to \d+ in 90 % of runs\) to 0.85 accuracy", out)
    assert re.search(r"without sharing at its best \(\d local epochs?, learning rate 0.4\): [\d.]+ s, the plan is", out)
    assert "without sharing, 1 local epoch, learning rate 0.4" in out
    assert re.search(r"(\w+) is the fastest of \d rules; \w+ is ([\d.]+ % slower|as fast) \(--compare-rules", out)
    assert "rules rule delay" not in out
    alike = flat(fedcast("plan", *few, "--set", "data.bits_per_sample=1e9")[1])
    assert re.search(r"^share nothing, train \d local epochs? a round", alike)


def test_all_rules_are_shown_and_a_faster_one_is_named(fedcast, tables):
    epochs = ("--set", "training.local_epochs=1")
    out = flat(fedcast("plan", *tables, *epochs, "--rule", "cec", "--compare-rules")[1])
    assert out.startswith("cec: 2 heads")
    assert "rules rule delay of the task local epochs average sharing ratio" in out
    assert re.search(r"note: rule \w+ is [\d.]+ % faster than cec: [\d.]+ s instead of [\d.]+ s; best chooses", out)
    quick = flat(fedcast("plan", *tables, *epochs, "--rule", "cec")[1])
    assert "% faster than cec" in quick
    assert "rules rule delay" not in quick
    assert "faster than cec" not in flat(fedcast("plan", *tables, *epochs, "--rule", "cec", "--no-compare-rules")[1])
    code, _, err = fedcast("plan", *tables, "--rule", "gian")
    assert (code, "did you mean gain?" in err) == (2, True)


def test_rules_for_which_there_are_too_few_users_are_named(fedcast):
    words = ("cluster", "--preset", "digits", "--no-exact", "--set", "data.num_users=8")
    out = flat(fedcast(*words)[1])
    assert "ms: time to find the clusters" in out
    assert "random is left out: it needs 10 users that can share, there are 8" in out
    assert "is left out" not in flat(fedcast(*words, "--rules", "daca")[1])


def test_only_the_rounds_are_assumed_where_all_else_is_said(fedcast, tables, tmp_path):
    columns = "max_frequency_hz,cycles_per_sample,power_w,energy_budget_j,consent,up_rate_bps,down_rate_bps"
    rows = "".join(f"{user},1e9,1e5,0.1,1,1,1e6,1e6,9\n" for user in range(6))
    (tmp_path / "devices.csv").write_text(f"user,{columns},battery_j\n{rows}")
    said = [*RULE, "--set", "training.model_weights=1000", "--set", "data.bits_per_sample=800", "--json", "p.json"]
    code, out, err = fedcast("plan", *tables, "--devices", "devices.csv", *said)
    assert (code, err) == (0, "")
    listed = json.loads((tmp_path / "p.json").read_text())["assumptions"]
    assert [line.split(",")[0] for line in listed] == ["Rounds follow fit mnist", listed[1].split(",")[0]]
    assert listed[1].startswith("Fit mnist was made for another task")
    assert f"devices: {columns.replace(',', ', ')}; unknown and ignored: battery_j" in flat(out)


def test_of_devices_partly_given_the_rest_is_assumed(fedcast, tables, tmp_path):
    (tmp_path / "devices.csv").write_text("user,power_w\n" + "".join(f"{user},0.2\n" for user in range(6)))
    out = flat(fedcast("network", *tables, "--devices", "devices.csv", "--set", "devices.energy_budget_j=3")[1])
    assert "All devices have a highest frequency of 1.20 GHz, 250,000 cycles per sample (--devices)." in out


def test_the_table_says_what_the_plan_says(fedcast, tables, tmp_path):
    code, out, _ = fedcast("plan", *tables, "--json", "p.json", "--table", "p.csv")
    assert code == 0
    assert "wrote p.json and p.csv" in out
    plan = json.loads((tmp_path / "p.json").read_text())
    with (tmp_path / "p.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert list(rows[0]) == [
        "user", "role", "head", "shared_samples", "received_samples", "frequency_hz", "energy_j", "trained",
        "emd_before", "emd_after", "rate_bps", "round_s",
    ]  # fmt: skip
    assert {row["role"] for row in rows} == {"head", "member"}
    for user, row in enumerate(rows):
        head, sent = plan["head_of"][user], plan["shared"][user]
        assert int(row["user"]) == user
        assert row["head"] == ("" if head < 0 else str(head))
        assert (row["role"], int(row["shared_samples"])) == ("head" if head < 0 else "member", sent)
        assert int(row["received_samples"]) == (plan["shared"][head] if head >= 0 else 0)
        assert float(row["frequency_hz"]) == plan["frequency_hz"][user]
        assert float(row["energy_j"]) == plan["energy_j"][user]
        assert row["trained"] == "True"
    assert fedcast("plan", *tables, "--table", "p.parquet")[0] == 0
    assert pyarrow.parquet.read_table("p.parquet").column("role").to_pylist() == [row["role"] for row in rows]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--json", "p.csv"], "--json p.csv: JSON is no table; name it p.json"),
        (["--json", "scenario.toml"], "--json scenario.toml: this command reads that file"),
        (["--table", "counts.csv"], "--table counts.csv: this command reads that file"),
        (["--table", "./links.csv"], "--table links.csv: this command reads that file"),
        (["--table", "p.json"], "--table p.json: unknown kind of table '.json'; expected .csv, .parquet, .xlsx"),
        (["--json", "counts.csv/p.json"], "counts.csv: is not a folder, so it cannot contain p.json"),
        (["--json", "."], ".: is a folder, expected a file"),
    ],
)
def test_places_are_refused_before_any_work(fedcast, tables, tmp_path, monkeypatch, words, message):
    monkeypatch.setattr("fedcast.plan.world.make_world", lambda *_: pytest.fail("work was started"))
    (tmp_path / "scenario.toml").write_text("seed = 1\n")
    code, _, err = fedcast("plan", "scenario.toml", *tables, *words)
    assert code == 2
    assert message in err
    assert (tmp_path / "counts.csv").read_text() == COUNTS
    assert (tmp_path / "links.csv").read_text() == LINKS


def test_json_to_standard_output_stands_alone(fedcast, tables):
    code, out, err = fedcast("plan", *tables, "--json", "-")
    assert code == 0
    assert json.loads(out)["version"] == 1
    assert "largest clusters" in err
    assert "wrote" not in err
    code, out, err = fedcast("cluster", *tables, "--rules", "daca", "--no-exact", "--json", "-")
    assert code == 0
    assert json.loads(out)["comparison"][0]["rule"] == "daca"
    assert json.loads(out)["assumptions"][0].startswith("Positions of users and base stations are drawn")
    assert "average EMD before sharing" in err


def test_the_plan_is_kept_when_the_reader_of_the_screen_goes_away(tables, tmp_path):
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [*PROGRAM, "plan", *tables, "--json", "p.json"], stdout=writer, stderr=subprocess.PIPE, text=True, timeout=60
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads((tmp_path / "p.json").read_text())["version"] == 1


def test_an_interrupted_plan_promises_nothing(tmp_path):
    words = ["plan", "--set", "data.dataset=synthetic", "--set", "data.num_users=3000"]
    # What starts the tests may have told its children to ignore Ctrl-C.
    code = "import signal, sys, time; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    code += "import fedcast.cli.app as a, fedcast.plan as w\n"
    code += "w.make_world = lambda *_: (print('here', flush=True), time.sleep(60))\n"
    code += "sys.exit(a.run(sys.argv[1:]))"
    process = subprocess.Popen(
        [sys.executable, "-c", code, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "here\n"
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err.strip()) == (130, "fedcast: interrupted")


def test_values_in_another_unit_are_remarked_on(fedcast, tables, tmp_path):
    (tmp_path / "links.csv").write_text("user_a,user_b,rate_bps,closeness\n0,1,5.2,0.9\n0,2,3.4,0.2\n")
    (tmp_path / "devices.csv").write_text("user,max_frequency_hz\n" + "".join(f"{user},1.2\n" for user in range(6)))
    slow = "0 of 2 links meet sidelink.min_rate_bps = 350000 (fastest 5.2 bit/s)"
    code, _, err = fedcast("plan", *tables, "--devices", "devices.csv")
    assert code == 0
    assert slow in err
    assert "max_frequency_hz: 6 of 6 devices have less than 1,000,000 Hz (the slowest 1.2); is it in GHz" in err
    assert "trust" not in err, "half of the links are close enough"
    for command in ("network", "cluster"):
        code, _, err = fedcast(command, *tables, *(["--no-exact"] if command == "cluster" else []))
        assert (code, err) == (0, f"fedcast: {slow}\n")


def test_sparse_links_that_meet_the_thresholds_are_no_matter(fedcast, tables, tmp_path):
    (tmp_path / "links.csv").write_text("user_a,user_b,rate_bps,closeness\n0,1,5e6,0.9\n")
    code, _, err = fedcast("plan", *tables)
    assert (code, err) == (0, "")


def test_who_is_left_out_and_who_leads_all_the_same(fedcast, tables, tmp_path):
    budgets = [1e-6, 0.05, 0.05, 0.05, 0.05, 0.05]
    rows = "".join(f"{user},{budget},1e6,1e6\n" for user, budget in enumerate(budgets))
    (tmp_path / "devices.csv").write_text("user,energy_budget_j,up_rate_bps,down_rate_bps\n" + rows)
    exclude = ["--set", "allocation.infeasible_users=exclude", "--set", "clustering.rule=gain", "--table", "p.csv"]
    code, out, err = fedcast("plan", *tables, "--devices", "devices.csv", *exclude)
    assert (code, err) == (0, "")
    line = "1 user cannot take part within the energy budget: left out of training; 1 of them still sends samples"
    assert line in flat(out)
    assert (tmp_path / "p.csv").read_text().splitlines()[1].startswith("0,head,,")
    assert (tmp_path / "p.csv").read_text().splitlines()[1].split(",")[5:8] == ["0.0", "0.0", "False"]


def test_a_difference_lists_every_user_with_old_and_new_values(fedcast, tables, tmp_path):
    assert fedcast("plan", *tables, *RULE, "--json", "a.json")[0] == 0
    assert fedcast("plan", *tables, *RULE, "--rule", "none", "--json", "b.json")[0] == 0
    code, out, _ = fedcast("plan", "diff", "a.json", "b.json", "--json", "d.json", "--table", "d.csv")
    assert code == 0
    assert "4 users lost their head: 1 (0 is no longer a head), 2 (0 is no longer" in flat(out)
    assert "2 users are no longer heads: 0 (sent 24, now alone), 4 (sent 12, now alone)" in flat(out)
    found = json.loads((tmp_path / "d.json").read_text())
    plans = [json.loads((tmp_path / name).read_text()) for name in ("a.json", "b.json")]
    assert found["rule"] == {"old": "daca", "new": "none"}
    assert found["rounds"] == {"old": plans[0]["rounds"], "new": plans[1]["rounds"]}
    users, head_of = found["users"], np.array(plans[0]["head_of"])
    assert users["old_head"] == [None if head < 0 else head for head in head_of.tolist()]
    assert users["new_head"] == [None] * 6
    assert users["old_frequency_hz"] == plans[0]["frequency_hz"]
    assert users["change"] == ["lost its head" if head >= 0 else "is no longer a head" for head in head_of]
    with (tmp_path / "d.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert list(rows[0]) == list(users)
    assert [row["old_head"] for row in rows] == ["" if head < 0 else str(head) for head in head_of]
    code, _, err = fedcast("plan", "diff", "a.json", "b.json", "--json", "a.json")
    assert (code, "this command reads that file" in err) == (2, True)
    code, _, err = fedcast("plan", "diff", "a.json", "b.json", "--previous", "a.json")
    assert (code, "diff takes two plans, --json and --table" in err) == (2, True)


def test_changes_are_tried_without_editing_tables(fedcast, tables, tmp_path):
    code, out, _ = fedcast("plan", *tables, *RULE, "--without", "0", "--changes", "d.csv", "--json", "p.json")
    assert code == 0
    assert "what changes without 0 1 user left: 0 (was a head) 3 users lost their head: 1 (0 left)" in flat(out)
    assert "users without samples" not in out
    assert (tmp_path / "d.csv").read_text().splitlines()[1].startswith("0,left,head,,24,0,")
    found = json.loads((tmp_path / "p.json").read_text())
    assert (found["scenario"]["changes"]["without"], found["notes"][0]) == (["0"], "planned with changes: without 0")
    out = flat(fedcast("plan", *tables, *RULE, "--cut", "0,3", "--consent", "4=0", "--changes", "d.json")[1])
    assert "what changes without the link 0,3; consent 4=0" in out
    assert "3 (0, link cut)" in out
    assert json.loads((tmp_path / "d.json").read_text())["users"]["old_role"][4] == "head"
    for words, message in (
        (["--without", "9"], "invalid value '9' for changes.without: unknown user '9'"),
        (["--cut", "1,2"], "invalid value '1,2' for changes.cut: there is no link between them"),
        (["--consent", "1"], "invalid value '1' for changes.consent: expected a user and a share from 0 to 1"),
        (["--cut", "0,3", "--previous", "p.json"], "--previous: cannot be combined with changes to try"),
        (["--changes", "d.csv"], "--changes needs a plan to compare with"),
    ):
        code, _, err = fedcast("plan", *tables, *RULE, *words)
        assert (code, message in flat(err.replace("│", " "))) == (2, True), words


def test_a_device_that_left_keeps_its_row_with_zeros(fedcast, tables, tmp_path):
    assert fedcast("plan", *tables, "--json", "old.json")[0] == 0
    (tmp_path / "counts.csv").write_text(COUNTS.replace("1,90,0,0", "1,0,0,0"))
    (tmp_path / "links.csv").write_text(LINKS.replace("0,1,5e6,0.9\n", ""))
    code, out, _ = fedcast("plan", *tables, "--previous", "old.json", "--table", "new.csv")
    assert code == 0
    assert "1 user without samples: nothing to train on" in out
    assert "users left" not in out
    with (tmp_path / "new.csv").open(newline="") as stream:
        left = list(csv.DictReader(stream))[1]
    assert (left["role"], left["trained"], float(left["energy_j"])) == ("alone", "False", 0.0)


def test_own_counts_are_inspected_and_clustered(fedcast, tables):
    code, out, _ = fedcast("inspect", "--counts", "counts.csv", "--picture", "p.svg")
    assert code == 0
    assert "counts.csv" in out
    assert "6 users hold 480 samples" in flat(out)
    code, out, _ = fedcast("cluster", *tables, "--rules", "none,daca", "--explain", "daca")
    assert code == 0
    assert "user 0: EMD" in out
    assert "6 users, 1 base station, 4 links" in flat(fedcast("network", *tables)[1])


def test_paths_of_a_scenario_start_at_its_folder(fedcast, tables, tmp_path):
    folder = tmp_path / "w"
    folder.mkdir()
    (tmp_path / "links.csv").rename(folder / "links.csv")
    (folder / "s.toml").write_text('[trust]\nlinks_file = "links.csv"\n')
    code, out, _ = fedcast("plan", "w/s.toml", "--counts", "counts.csv")
    assert code == 0
    assert "links and closeness" not in out
    code, out, _ = fedcast("validate", "w/s.toml", "--counts", "counts.csv")
    assert (code, out.startswith("w/s.toml: ok to plan; not to train: ")) == (0, True)


def test_validate_reads_what_the_scenario_names(fedcast, tables, tmp_path):
    tmp_path.joinpath("s.toml").write_text(
        'data.num_users = 3\nrounds.fit = "none.json"\ntrust.links_file = "links.csv"\n'
        'devices.devices_file = "small.csv"\ngeometry.positions_file = "small.csv"\n'
    )
    (tmp_path / "small.csv").write_text("user,cat\n0,1\n1,1\n2,1\n")
    code, _, err = fedcast("validate", "s.toml")
    assert code == 2
    faults = err.splitlines()
    assert len(faults) == 4
    for part in (
        "invalid value 'none.json' for rounds.fit: no shipped fit and no file has this name",
        "does not exist, expected 0 to 2",
        "small.csv: no column says anything about devices; it has user, cat",
        "small.csv: missing column 'x_m'",
    ):
        assert any(part in fault for fault in faults), part
