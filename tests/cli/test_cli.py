"""The command line as a person uses it: most tests start it in this process, a few as a real one."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest


def test_help_names_every_command(fedcast):
    code, out, _ = fedcast("--help")
    assert code == 0
    for command in (
        "init",
        "validate",
        "datasets",
        "plugins",
        "inspect",
        "network",
        "cluster",
        "train",
        "attack",
        "export",
        "import-partition",
        "reproduce",
    ):
        assert command in out
    assert len(out.splitlines()) <= 47


def test_version(fedcast):
    assert fedcast("--version")[:2] == (0, "fedcast 0.1.0\n")
    command = [sys.executable, "-m", "fedcast", "--version"]
    assert subprocess.run(command, capture_output=True, text=True, timeout=60).stdout == "fedcast 0.1.0\n"


def test_init_then_validate_then_inspect(fedcast, tmp_path):
    path = tmp_path / "s.toml"
    code, out, _ = fedcast("init", path, "--preset", "paper", "--set", "data.num_users=20")
    assert code == 0
    assert f"wrote {path}" in out
    assert fedcast("validate", path)[0] == 0
    code, out, _ = fedcast("inspect", path, "--picture", tmp_path / "p.svg")
    assert code == 0
    assert "20 users hold 1,418 samples, 19 go to nobody" in " ".join(out.split())
    assert (tmp_path / "p.svg").stat().st_size > 1000


def test_init_does_not_overwrite_unless_told(fedcast, tmp_path):
    path = tmp_path / "s.toml"
    path.write_text("mine")
    code, _, err = fedcast("init", path)
    assert (code, path.read_text()) == (2, "mine")
    assert "--force replaces it" in err
    assert fedcast("init", path, "--force")[0] == 0
    assert "seed = 0" in path.read_text()


PLUGIN = """
from dataclasses import dataclass
from types import SimpleNamespace
from fedcast.registry import option, register

@dataclass(frozen=True)
class Options:
    weight: float = option(0.5, "how much it counts", ge=0, lt=1)

register("clustering", "cli_own", SimpleNamespace(summary="does [bold]nothing[/]", options=Options))
"""


def test_a_plug_in_from_init_to_validate(fedcast, tmp_path, monkeypatch):
    monkeypatch.setattr("fedcast.registry._registered", {})
    monkeypatch.setattr("fedcast.registry._loaded_files", {})
    file, path = tmp_path / "mine.py", tmp_path / "s.toml"
    file.write_text(PLUGIN)
    words = ("--set", f"plugins=['{file}']", "--set", "clustering.rule=cli_own")
    code, _, err = fedcast("init", path, *words)
    assert code == 0
    assert err.splitlines() == [
        f"fedcast: note: running plug-in file {file}: plug-ins are code, use only files that you trust"
    ]
    text = path.read_text()
    assert "[clustering.cli_own]  # does [bold]nothing[/]" in text
    assert "weight = 0.5  # how much it counts; a number, >= 0, < 1" in text
    assert fedcast("validate", path)[:2] == (0, f"{path}: ok\n")
    code, out, _ = fedcast("plugins", path)
    flat = " ".join(out.split())
    assert code == 0
    assert "clustering rule, clustering.rule name what it does options origin daca" in flat
    assert "cli_own *" in flat
    assert "weight = 0.5" in flat
    assert f"file {file}" in out.splitlines()
    assert "weight = 0.25 (default 0.5)" in " ".join(
        fedcast("plugins", path, "--set", "clustering.cli_own.weight=0.25")[1].split()
    )
    path.write_text(text.replace("weight = 0.5", "weight = 2"))
    code, _, err = fedcast("validate", path, "--set", "allocation.method=foo", "--set", "trust.links_file=no.csv")
    assert code == 2
    assert "cli_own.weight: invalid value 2: expected a number, >= 0, < 1" in err
    assert "allocation.method: invalid value 'foo': no such allocation method; choose one of jfvo" in err


def test_a_plug_in_file_that_fails_is_run_once(fedcast, tmp_path):
    file, path = tmp_path / "mine.py", tmp_path / "s.toml"
    runs = tmp_path / "runs"
    file.write_text(f"with open({str(runs)!r}, 'a') as log:\n    log.write('x')\nraise ValueError('broken')\n")
    path.write_text('plugins = ["mine.py"]\n[clustering]\nrule = "mine"\n')
    code, _, err = fedcast("validate", path)
    assert code == 2
    assert runs.read_text() == "x"
    assert err.splitlines()[1:] == [f"fedcast: {path}: line 1: plugins: {file}: ValueError: broken"]


def test_paths_in_a_file_of_init_start_at_its_folder(fedcast, tmp_path, monkeypatch):
    monkeypatch.setattr("fedcast.registry._registered", {})
    monkeypatch.setattr("fedcast.registry._loaded_files", {})
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(PLUGIN)
    Path("positions.csv").write_text("user,x_m,y_m\n0,1,2\n1,3,4\n")
    changes = ["plugins=['mine.py']", "geometry.positions_file=positions.csv", "data.num_users=2"]
    words = [word for change in [*changes, f"devices.devices_file={tmp_path}/d.csv"] for word in ("--set", change)]
    assert fedcast("init", "sub/s.toml", *words)[0] == 0
    text = Path("sub/s.toml").read_text()
    for line in (
        'plugins = ["../mine.py"]',
        'positions_file = "../positions.csv"',
        f'devices_file = "{tmp_path}/d.csv"',
    ):
        assert line in text
    Path("d.csv").write_text("user,power_w\n0,1\n1,1\n")
    assert fedcast("validate", "sub/s.toml")[:2] == (0, "sub/s.toml: ok\n")
    assert 'plugins = ["mine.py"]' in fedcast("init", "-", *words)[1]


def test_a_moved_key_is_noted_once(fedcast, tmp_path):
    path = tmp_path / "s.toml"
    path.write_text("[clustering]\nshift_weight = 0.4\n[data]\nnum_users = 12\nalpha = 0.5\n")
    for command in ("validate", "plan", "plugins"):
        code, _, err = fedcast(command, path)
        assert code == 0
        (note,) = (line for line in err.splitlines() if line.startswith("fedcast: note:"))
        assert note.startswith(f"fedcast: note: {path}: keys have moved: data.alpha is now data.dirichlet.alpha, cl")


def test_unknown_tables_are_errors_to_every_command(fedcast, tmp_path):
    path = tmp_path / "s.toml"
    path.write_text("[clustering.daka]\n")
    for command in ("validate", "plan", "inspect"):
        code, _, err = fedcast(command, path)
        assert code == 2
        assert err == f"fedcast: {path}: line 1: clustering.daka: unknown key; did you mean daca?\n"


def test_init_to_the_screen(fedcast):
    code, out, _ = fedcast("init", "-")
    assert code == 0
    assert "[sidelink]" in out


def test_validate_names_all_faults(fedcast, tmp_path):
    path = tmp_path / "s.toml"
    path.write_text('[data]\nalhpa = 1\n[devices]\npower_w = "x"\n')
    code, _, err = fedcast("validate", path)
    assert code == 2
    assert [line.split(":")[2].strip() for line in err.splitlines()] == ["line 2", "line 4"]
    path.write_text('[data]\ndataset = "mnits"\npartition = "dirichlett"\nfile = "no.npz"\n')
    code, _, err = fedcast("validate", path)
    assert code == 2
    assert len(err.splitlines()) == 3
    for part in ("did you mean mnist?", "did you mean dirichlet?", f"no such file: {tmp_path / 'no.npz'}"):
        assert part in err


def test_inspect_shows_quantiles(fedcast):
    code, out, _ = fedcast("inspect", "--set", "data.partition=iid", "--set", "data.num_users=10")
    assert code == 0
    assert "digits, iid" in out
    assert "D_EMD" in out
    assert "143" in out


def test_a_picture_that_cannot_be_written_is_refused_before_work(fedcast, monkeypatch):
    monkeypatch.setattr("fedcast.data.make_population", lambda *_: pytest.fail("work was started"))
    code, _, err = fedcast("inspect", "--picture", "p.gif")
    assert code == 2
    assert "unknown kind of picture '.gif'" in err


def test_datasets_lists_state_size_and_terms(fedcast, data_dir):
    code, out, _ = fedcast("datasets", "--data-dir", data_dir)
    assert code == 0
    for part in ("mnist", "here", "11.6 MB", "public domain"):
        assert part in out


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["nonsense"], "No such command 'nonsense'"),
        (["inspect", "--nonsense"], "(see fedcast inspect --help)"),
        (["inspect", "none.toml"], "no such file"),
        (["inspect", "--preset", "papr"], "did you mean paper?"),
        (["inspect", "--data-dir", "/nowhere", "--set", "data.dataset=mnist"], "for --data-dir: no such folder"),
        (["init", "/proc/version/s.toml"], "/proc/version: is not a folder"),
    ],
)
def test_errors_are_one_line_and_code_2(fedcast, words, part):
    code, out, err = fedcast(*words)
    assert (code, out) == (2, "")
    assert part in err
    assert len(err.splitlines()) == 1


def test_a_bug_is_called_a_bug(fedcast, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("boom")

    monkeypatch.setattr("fedcast.registry._registered", {})
    monkeypatch.setattr("fedcast.scenario.load_scenario", broken)
    code, _, err = fedcast("inspect")
    assert code == 1
    assert "this is a bug: RuntimeError: boom" in err
    with pytest.raises(RuntimeError):
        fedcast("inspect", "--debug")


FAILING = """
from dataclasses import dataclass

from fedcast.clustering import Rule
from fedcast.data import Partition
from fedcast.registry import register


def helper(values):
    return {}[values]


def counts(class_sizes, num_users, options, seed):
    return helper("boom")


def rule(problem, _):
    return open("/nowhere")


def no_argument():
    return 1


register("partition", "failing_partition", Partition("fails", counts=counts))
register("clustering", "failing_rule", Rule(rule, "fails", why="fails"))
register("clustering", "wrong_rule", Rule(no_argument, "fails", why="fails"))
"""


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (
            "data.partition=failing_partition",
            "partition 'failing_partition': KeyError: 'boom' (in helper, {}, line 10)",
        ),
        ("clustering.rule=failing_rule", "clustering rule 'failing_rule': FileNotFoundError: [Errno 2] No such file"),
    ],
)
def test_a_plug_in_that_fails_is_named_with_the_place(fedcast, tmp_path, monkeypatch, choice, expected):
    monkeypatch.setattr("fedcast.registry._registered", {})
    monkeypatch.setattr("fedcast.registry._loaded_files", {})
    file = tmp_path / "failing.py"
    file.write_text(FAILING)
    code, _, err = fedcast("cluster", "--set", f"plugins=['{file}']", "--set", choice)
    assert code == 2
    assert f"fedcast: plug-in {expected.format(file)}" in err
    assert "bug" not in err
    assert f"{file}, line " in err


def test_a_plug_in_that_takes_other_arguments_is_named(fedcast, tmp_path, monkeypatch):
    monkeypatch.setattr("fedcast.registry._registered", {})
    monkeypatch.setattr("fedcast.registry._loaded_files", {})
    file = tmp_path / "failing.py"
    file.write_text(FAILING)
    code, _, err = fedcast("plan", "--set", f"plugins=['{file}']", "--set", "clustering.rule=wrong_rule")
    assert code == 2
    assert "fedcast: plug-in clustering rule 'wrong_rule': TypeError: no_argument() takes 0 positional arguments" in err
    assert "correct its arguments" in err


def test_interrupt(fedcast, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("fedcast.scenario.load_scenario", interrupted)
    assert fedcast("inspect")[0] == 130


def real(*words, code="from fedcast.cli import main; main()"):
    return subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, timeout=60)


def test_a_real_process_and_a_closed_pipe():
    done = real("inspect", "--set", "data.num_users=zero")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    shell = f"{sys.executable} -c 'from fedcast.cli import main; main()' init - | head -1"
    piped = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, timeout=60)
    assert piped.stdout.startswith("# fedcast scenario")
    assert piped.stderr == ""


@pytest.mark.parametrize(
    "code",
    [
        "import fedcast",
        "from fedcast.cli.app import run; run(['inspect', '--help'])",
        "from fedcast.cli.app import run; run(['inspect'])",
        "import fedcast; fedcast.load_scenario; fedcast.make_population",
        "from fedcast.federation import described_world, load_state, run_to_end",
    ],
)
def test_torch_is_not_imported(code):
    done = real(code=code + "; import sys; sys.exit('torch' in sys.modules)")
    assert done.returncode == 0, done.stderr


def test_network_summary_and_map(fedcast, tmp_path):
    code, out, _ = fedcast("network", "--picture", tmp_path / "map.svg")
    assert code == 0
    flat = " ".join(out.split())
    for part in (
        "100 users, 1 base station",
        "mean degree 11.1, 0 isolated users",
        "rate of a link",
        "every user can take part",
    ):
        assert part in flat
    assert (tmp_path / "map.svg").stat().st_size > 10_000


def test_network_lists_infeasible_users_with_a_workable_budget(fedcast):
    code, out, _ = fedcast("network", "--preset", "paper", "--set", "training.model=cnn")
    flat = " ".join(out.split())
    assert code == 0
    assert "76 users cannot take part within their energy budget" in flat
    assert "of a budget of 0.005 J per round;" in flat
    assert "would do for all" in flat
    budget = flat.split("devices.energy_budget_j = ")[1].split(" ")[0]
    code, out, _ = fedcast(
        "network",
        "--preset",
        "paper",
        "--set",
        "training.model=cnn",
        "--set",
        f"devices.energy_budget_j={float(budget) * 1.01}",
    )
    assert "every user can take part" in " ".join(out.split())


def test_cluster_compares_explains_and_draws(fedcast, tmp_path):
    import json

    code, out, _ = fedcast(
        "cluster", "--set", "data.num_users=30", "--rules", "none,daca,gain", "--explain", "daca",
        "--json", tmp_path / "c.json", "--picture", tmp_path / "c.png",
    )  # fmt: skip
    assert code == 0
    assert "heads of daca" in out
    content = json.loads((tmp_path / "c.json").read_text())
    rows = {row["rule"]: row for row in content["comparison"]}
    assert list(rows) == ["none", "daca", "gain"]
    assert 0 <= rows["gain"]["gap"] <= rows["daca"]["gap"] <= rows["none"]["gap"]
    assert rows["none"]["emd_after_b"] == rows["none"]["emd_before"] > rows["daca"]["emd_after_b"]
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")


def test_unknown_rule(fedcast):
    code, _, err = fedcast("cluster", "--rules", "daca,gian")
    assert code == 2
    assert "invalid value 'gian' for clustering.rule" in err


def test_each_scenario_trains_in_a_folder_of_its_own(fedcast, tmp_path):
    fixed = ["--set", "allocation.method=fixed"]
    words = ["train", *fixed, "--set", "data.num_users=10", "--set", "training.device=cpu", "--out", tmp_path / "runs"]
    code, out, _ = fedcast(*words, "--set", "training.rounds=3")
    assert code == 0
    assert "after round 3" in out
    code, out, _ = fedcast(*words, "--set", "training.rounds=3", "--set", "training.batch_size=7")
    assert code == 0
    folders = list((tmp_path / "runs").iterdir())
    assert len(folders) == 2
    for folder in folders:
        assert {"checkpoint.pt", "history.csv", "history.json", "ledger.csv", "done.json"} <= {
            path.name for path in folder.iterdir()
        }


def test_ctrl_c_stops_after_a_checkpoint(tmp_path):
    import signal
    import time

    words = ["train", "--preset", "digits", "--set", "training.rounds=100000", "--set", "allocation.method=fixed"]
    words += ["--set", "data.num_users=10", "--set", "training.model=mlp", "--out", str(tmp_path / "run")]
    process = subprocess.Popen(
        [sys.executable, "-c", "from fedcast.cli import main; main()", *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    deadline = time.time() + 200
    while not list(tmp_path.glob("run/*/checkpoint.pt")) and time.time() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=200)
    assert process.returncode == 130, err
    assert "stopping after this round" in err
    assert "interrupted; what is finished is kept, and the same command resumes" in err
    (log,) = tmp_path.glob("run/*/log.txt")
    assert "stopped after round" in log.read_text()


def test_training_needs_samples(fedcast, tmp_path):
    code, _, err = fedcast("train", "--set", "data.dataset=synthetic", "--out", tmp_path)
    assert code == 2
    assert "synthetic data have no samples to train on" in err


def test_a_dropout_file_is_checked(fedcast, tmp_path):
    (tmp_path / "drop.csv").write_text("round,user\n1,3\n0,3\n")
    code, _, err = fedcast("train", "--set", f"training.dropout_file={tmp_path / 'drop.csv'}", "--out", tmp_path)
    assert code == 2
    assert "line 3" in err


def test_a_file_means_the_same_to_every_command(fedcast, tmp_path):
    """Its preset is the one that it names: the fit of digits, not that of another dataset."""
    path = tmp_path / "s.toml"
    assert fedcast("init", path, "--preset", "digits")[0] == 0
    path.write_text("\n".join(line for line in path.read_text().splitlines() if not line.startswith("fit =")))
    small = ("--set", "data.num_users=12", "--set", "training.rounds=1", "--set", "clustering.rule=none")
    assert fedcast("validate", path, *small)[0] == 0
    assert "fit digits, form law" in " ".join(fedcast("plan", path, *small)[1].split())
    assert "target 0.85" in fedcast("train", path, *small, "--out", tmp_path)[1]
    path.write_text('[rounds]\nfit = "paper-0.95"\ntarget_accuracy = 0.85\n')
    for words in (["validate", path], ["plan", path], ["train", path, "--out", tmp_path]):
        code, _, err = fedcast(*words, *small[:4])
        assert (code, "fit 'paper-0.95' is for 0.95" in err) == (2, True), words


OTHER_TARGET = ["rounds.fit=paper-0.95", "rounds.target_accuracy=0.8"]


@pytest.mark.parametrize(
    ("changes", "validated", "trained"),
    [
        (["clustering.rule=none"], "ok", ""),
        ([*OTHER_TARGET, "allocation.method=fixed", "clustering.rule=daca"], "ok", ""),
        ([*OTHER_TARGET, "clustering.rule=none"], "ok", ""),
        ([*OTHER_TARGET, "clustering.rule=daca"], "fit 'paper-0.95' is for 0.95", "fit 'paper-0.95' is for 0.95"),
        (
            ["training.model_weights=5"],
            "not to train: training.model_weights: 5, and",
            "training.model_weights: 5, and",
        ),
        (["data.dataset=synthetic"], "not to train: data.dataset = synthetic", "data.dataset = synthetic"),
        (["training.dropout_file=drop.csv"], "not to train: drop.csv, line 3", "drop.csv, line 3"),
        (
            ["training.over_selection=0.5"],
            "0.5 for training.over_selection: 18 users would be invited",
            "0.5 for training.over_selection: 18 users would be invited",
        ),
        (
            ["training.buffer_size=3", "training.algorithm=scaffold"],
            "training.algorithm = scaffold: it reads the updates",
            "training.algorithm = scaffold: it reads the updates",
        ),
        (
            ["data.partition=indices", "data.indices.file=far.json"],
            "not to train: far.json: user 0",
            "far.json: user 0",
        ),
    ],
)
def test_validate_and_train_agree(fedcast, tmp_path, monkeypatch, changes, validated, trained):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "drop.csv").write_text("round,user\n1,3\n0,3\n")
    (tmp_path / "far.json").write_text(f"[[99999]{', [0]' * 11}]")
    small = ["data.num_users=12", "training.rounds=1", "training.local_epochs=1", "training.model=mlp"]
    words = [word for change in (*small, *changes) for word in ("--set", change)]
    code, out, err = fedcast("validate", *words)
    assert validated in (out + err).splitlines()[0] + out
    assert code == (2 if validated == trained else 0)
    code, _, err = fedcast("train", *words, "--out", tmp_path / "runs")
    assert (code, trained in err) == (2 if trained else 0, True)


def test_a_fixed_ratio_above_the_limit_is_said(fedcast, tmp_path):
    small = ["data.num_users=12", "training.rounds=1", "training.local_epochs=1", "training.model=mlp"]
    fixed = ["clustering.rule=daca", "allocation.method=fixed", "allocation.fixed.ratio=1.0"]
    words = [word for change in (*small, *fixed) for word in ("--set", change)]
    said = "allocation.fixed.ratio = 1, but heads share at most allocation.max_sharing_ratio = 0.2: 0.2 is used"
    assert said in fedcast("validate", *words)[2]
    assert said in " ".join(fedcast("plan", *words)[1].split())
    assert said in fedcast("train", "--preset", "default", *words, "--out", tmp_path)[2]
    enough = [*words, "--set", "allocation.max_sharing_ratio=1.0"]
    assert said[:20] not in fedcast("validate", *enough)[2]


def test_rules_need_not_hold_the_scenarios_own(fedcast):
    code, out, _ = fedcast("cluster", "--set", "data.num_users=12", "--rules", "gain,blend", "--no-exact")
    assert code == 0
    assert "daca" not in out


def test_names_are_validated_all_at_once(fedcast):
    wrong = ["clustering.rule=foo", "allocation.method=bar", "training.model=baz", "rounds.fit=nope"]
    code, _, err = fedcast("validate", *(word for change in wrong for word in ("--set", change)))
    assert code == 2
    lines = err.strip().splitlines()
    assert len(lines) == len(wrong)
    assert all(word.split("=")[0] in line for line, word in zip(lines, wrong, strict=True))


def test_a_run_that_was_done_before_says_so_and_noise_is_scored(fedcast, tmp_path):
    words = ["train", "--out", tmp_path, "--set", "training.rounds=1", "--set", "data.num_users=10"]
    words += ["--set", "data.partition=noise", "--set", "data.descriptor=values", "--set", "clustering.rule=none"]
    first, again = (fedcast(*words)[1] for _ in range(2))
    assert "with the users' noise 0." in first
    stored, took = first.strip().split("\ntraining took ")
    assert took.endswith("samples/s")
    assert again.strip() == stored + ", finished before; --no-resume trains again"


def test_plan_validate_and_train_agree_on_the_size_of_the_model(fedcast, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # The same number of values as 28×28, so that an MLP has 25,450 weights.
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "mine.npz", inputs=rng.random((120, 28, 28)), labels=np.arange(120) % 10)
    words = ["data.dataset=file", "data.file=mine.npz", "training.model=mlp", "training.rounds=1", "data.num_users=8"]
    words += ["clustering.rule=none", "devices.energy_budget_j=9"]
    words = [part for word in words for part in ("--set", word)]
    assert fedcast("plan", *words, "--json", "plan.json")[0] == 0
    assert fedcast("train", *words, "--out", "runs")[0] == 0
    plan = json.loads((tmp_path / "plan.json").read_text())
    # Uploads of all users, and one broadcast.
    assert plan["round_bytes"] == pytest.approx((8 + 1) * 25_450 * 4)
    facts = json.loads(next((tmp_path / "runs").glob("*/facts.json")).read_text())
    assert facts["round_bytes"] == plan["round_bytes"]
    wrong = [*words, "--set", "training.model_weights=2410"]
    differ = "training.model_weights = 2410, but model mlp has 25,450 weights on file"
    for command in ("plan", "validate"):
        code, _, err = fedcast(command, *wrong)
        assert (code, differ in err) == (0, True)
    code, _, err = fedcast("train", *wrong, "--out", "wrong")
    assert code == 2
    assert "training.model_weights: 2410, and the model has 25,450 weights; set it to 25450" in err
    assert not (tmp_path / "wrong").exists(), "nothing is written before the error"
