"""Files and values that nobody writes in good faith: one clear line, exit code 2, in bounded time and memory."""

import json
import time
from pathlib import Path

import numpy as np
import pytest

from fedcast import load_scenario, make_plan
from fedcast.cli.app import run
from fedcast.data import read_counts
from fedcast.errors import FedcastError
from fedcast.plan import plan_from_json, plan_to_json
from fedcast.registry import load_file, plugin_error
from fedcast.text_files import parse_json

DIGITS = "1" * 5000
DEEP = "[" * 100_000


@pytest.fixture
def refused(capsys, tmp_path, monkeypatch):
    """Return a function that runs a command, which must be refused in one line and soon, and returns the line."""
    monkeypatch.chdir(tmp_path)

    def call(*words):
        started = time.process_time()
        assert run([str(word) for word in words]) == 2
        assert time.process_time() - started < 5
        lines = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("fedcast: note:")]
        assert len(lines) == 1
        assert lines[0].isprintable()
        assert len(lines[0]) < 500
        assert "this is a bug" not in lines[0]
        return lines[0].removeprefix("fedcast: ")

    return call


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (f"a = {DEEP}".encode(), "s.toml: not valid TOML: nested too deeply"),
        (("a." * 3000 + "a = 1").encode(), "s.toml: not a scenario: nested too deeply"),
        (("[" + "a." * 3000 + "a]").encode(), "s.toml: not a scenario: nested too deeply"),
        (f"seed = {DIGITS}".encode(), "s.toml: not valid TOML: Exceeds the limit (4300 digits)"),
        (b"seed = 3 # \xff", "s.toml: not UTF-8 text (byte 11); save the file as UTF-8"),
        ("seed = 3".encode("utf-16"), "s.toml: not UTF-8 text: it contains a NUL byte"),
        (b'"\\u001b[31mred" = 1', r"s.toml: \x1b[31mred: unknown key"),
        (b'["a\\u001b[31m"]\nb = 1', r"s.toml: a\x1b[31m: unknown key"),
        (b"x" * (2**24 + 1), "s.toml: larger than 16,777,216 bytes"),
    ],
    ids=range(9),
)
def test_scenario_files(refused, content, message):
    Path("s.toml").write_bytes(content)
    assert refused("validate", "s.toml").startswith(message)


def test_a_byte_order_mark_is_no_part_of_a_scenario(tmp_path):
    (tmp_path / "s.toml").write_bytes(b"\xef\xbb\xbfseed = 3\n")
    assert load_scenario(tmp_path / "s.toml").seed == 3


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("a." * 3000 + "a=1", "--set a.a.a."),
        ("seed=" + "[" * 3000 + "]" * 3000, "--set seed: invalid value '[[["),
        (f"seed={DIGITS}", "--set seed: invalid value '111"),
        ("\x1b[31mred=1", r"--set \x1b[31mred: unknown key"),
        ("data.num_users=1000000000", "--set data.num_users: invalid value 1000000000: expected a whole number, >="),
        ("data.synthetic.num_classes=1000000000", "--set data.synthetic.num_classes: invalid value 1000000000"),
        ("allocation.jfvo.steps=1000000000000", "--set allocation.jfvo.steps: invalid value 1000000000000"),
        ("data.value_bins=1000000000000", "--set data.value_bins: invalid value 1000000000000"),
        ("rounds.beta_samples=1000000000000", "--set rounds.beta_samples: invalid value 1000000000000"),
        ("trust.communities=10000000000000000000000", "--set trust.communities: invalid value 1"),
    ],
)  # fmt: skip
def test_overrides(refused, value, message):
    assert refused("validate", "--set", value).startswith(message)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"num_users": 10**7, "synthetic.num_classes": 10**5}, "10,000,000 users × 100,000 classes are"),
        ({"synthetic.samples_per_user": 10**15}, "invalid value 1000000000000000 for data.synthetic.samples_per_user"),
    ],
)
def test_memory_is_not_taken_for_populations_that_are_too_large(refused, values, message):
    given = [word for key, value in values.items() for word in ("--set", f"data.{key}={value}")]
    assert refused("inspect", "--set", "data.dataset=synthetic", *given).startswith(message)


@pytest.mark.parametrize("content", [DEEP, DIGITS, '{"version": NaN}', "\ufeff[]"])
def test_json_of_plans_fits_and_partitions(refused, content):
    Path("x.json").write_text(content, encoding="utf-8")
    assert refused("plan", "diff", "x.json", "x.json").startswith("x.json: ")
    assert "x.json: " in refused("validate", "--set", "rounds.fit=x.json")
    indices = "--set", "data.partition=indices", "--set", "data.indices.file=x.json"
    assert refused("inspect", *indices).startswith("x.json: ")


def test_json_numbers_are_finite():
    with pytest.raises(Exception, match="^p.json: not valid JSON: NaN is not a number in JSON"):
        parse_json("[NaN]", "p.json")


def test_a_sample_index_beyond_int64(refused):
    Path("x.json").write_text(f"[[{10**30}]]")
    indices = "--set", "data.num_users=1", "--set", "data.partition=indices", "--set", "data.indices.file=x.json"
    assert refused("inspect", *indices) == f"x.json: user 0: {10**30} is not a sample index"


def test_a_fit_that_is_not_text(refused):
    Path("fit.json").write_bytes(b"\xff\xfe{}")
    assert "fit.json: not UTF-8 text (byte 0)" in refused("validate", "--set", "rounds.fit=fit.json")


def test_files_without_end(refused):
    for name in ("zero.csv", "zero.npz", "zero.toml", "zero.json"):
        Path(name).symlink_to("/dev/zero")
    assert "NUL byte" in refused("validate", "/dev/zero")
    assert "NUL byte" in refused("plan", "diff", "zero.json", "zero.json")
    assert "NUL byte" in refused("inspect", "--counts", "zero.csv")
    assert "NUL byte" in refused("validate", "--set", "plugins=['/dev/zero']")
    own = "--set", "data.dataset=file", "--set", "data.file=zero.npz"
    assert refused("inspect", *own) == "zero.npz: not a plain file"


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"labels": [0] * 9 + [10**12]}, "x.npz: labels: sample 9 has 1000000000000; expected whole numbers"),
        ({"labels": [0] * 10, "groups": [0] * 9 + [10**12]}, "x.npz: groups: sample 9 has 1000000000000"),
        ({"labels": [0, 1] * 5, "class_names": ["\x1b[31mred", "b"]}, r"x.npz: invalid class name '\x1b[31mred'"),
    ],
)
def test_npz_files(refused, arrays, message):
    np.savez("x.npz", inputs=np.zeros((10, 4)), **{name: np.array(values) for name, values in arrays.items()})
    assert refused("inspect", "--set", "data.dataset=file", "--set", "data.file=x.npz").startswith(message)


def test_an_npz_that_claims_to_be_huge(refused):
    """Zeros compress well: a small file may hold more than the memory."""
    import io
    import zipfile

    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "|u1", "fortran_order": False, "shape": (2**40,)})
    with zipfile.ZipFile("x.npz", "w") as archive:
        archive.writestr("inputs.npy", header.getvalue())
        archive.writestr("labels.npy", header.getvalue())
    assert "x.npz: not a readable .npz file" in refused(
        "inspect", "--set", "data.dataset=file", "--set", "data.file=x.npz"
    )


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (f"user,a\n0,{DIGITS}\n", "c.csv, line 2, column a: '111"),
        ("user,\x1b[31mred\n0,1\n", r"c.csv: invalid class name '\x1b[31mred'"),
        ("user,class,count\n0,\x1b]0;t\x07,1\n", r"c.csv: invalid class name '\x1b]0;t\x07'"),
    ],
)
def test_tables(refused, table, message):
    Path("c.csv").write_text(table)
    assert refused("inspect", "--counts", "c.csv").startswith(message)


def test_20000_classes_are_read_in_linear_time(tmp_path):
    names = [f"c{label}" for label in range(20_000)]
    (tmp_path / "c.csv").write_text(",".join(["user", *names]) + "\n" + ",".join(["0", *["1"] * 20_000]) + "\n")
    started = time.process_time()
    assert read_counts(tmp_path / "c.csv").counts.shape == (1, 20_000)
    assert time.process_time() - started < 3


@pytest.fixture(scope="module")
def plan():
    overrides = ["data.num_users=20", "allocation.method=fixed", "clustering.rule=daca"]
    return json.loads(plan_to_json(make_plan(load_scenario(base="digits", overrides=overrides), with_curve=False)))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("shared", -5), ("shared", 10**30), ("frequency_hz", -1.0), ("energy_j", -1.0), ("rounds", -3.0),
        ("rounds", 0.0), ("round_bytes", -1.0), ("emd_after", -1.0), ("emd_before", 9.0), ("shift", 3.0),
        ("js_after", -1.0), ("passes", 0), ("delay_without_s", 0.0), ("sharing_j", -1.0),
        ("head_of", 10**30), ("names", "\x1b[31m"),
    ],
)  # fmt: skip
def test_plans_with_impossible_numbers(plan, field, value):
    users = len(plan["head_of"])
    per_user = (
        {"names": [value, *(f"n{user}" for user in range(1, users))]} if field == "names" else {field: [value] * users}
    )
    changed = plan | (
        per_user if field in ("shared", "frequency_hz", "energy_j", "head_of", "names") else {field: value}
    )
    with pytest.raises(Exception, match=f"^p.json: .*{field}"):
        plan_from_json(json.dumps(changed), "p.json")


def test_a_plan_without_users(plan):
    empty = plan | {name: [] for name in ("head_of", "shared", "frequency_hz", "energy_j")}
    with pytest.raises(Exception, match="head_of: there are no users"):
        plan_from_json(json.dumps(empty), "p.json")


def test_a_folder_that_does_not_exist_is_not_made(refused):
    for option, file in (("--json", "no/p.json"), ("--table", "no/p.csv")):
        assert refused("plan", option, file) == f"{option} {file}: there is no folder no; create it first"
    assert not list(Path().iterdir())


RULE = """
import sys
from fedcast.clustering import Rule
from fedcast.registry import register
def {name}{function}
register("clustering", "{name}", Rule({name}, "why", "what it does"))
"""


@pytest.mark.parametrize(
    ("name", "function", "message"),
    [
        ("leaves", "(problem, options): sys.exit(5)", "plug-in clustering rule 'leaves': SystemExit: 5 (in leaves, "),
        (
            "raises",
            "(problem, options): raise ValueError('no')",
            "plug-in clustering rule 'raises': ValueError: no (in",
        ),
        ("takes_none", "(): pass", "plug-in clustering rule 'takes_none': TypeError: takes_none() takes 0 positional"),
        ("answers_1", "(problem, options): return 1", "clustering rule 'answers_1' returned 1: expected a Clustering"),
    ],
)
def test_plug_ins_that_misbehave_are_named(refused, registered, name, function, message):
    Path("rule.py").write_text(RULE.format(name=name, function=function))
    given = "--set", "data.num_users=20", "--set", "plugins=['rule.py']", "--no-exact"
    assert refused("cluster", "--rules", name, *given).startswith(message)


@pytest.mark.parametrize(
    ("text", "reason"), [("import sys; sys.exit(3)", "SystemExit: 3"), ("raise GeneratorExit", "Gen")]
)
def test_a_plug_in_file_that_ends_the_process(tmp_path, text, reason):
    (tmp_path / "p.py").write_text(text)
    with pytest.raises(Exception, match=f"^plugins: .*p.py: {reason}"):
        load_file(tmp_path / "p.py")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        ("raise ValueError('x')", "ValueError: x"),
        ("def net(): pass", r"net: TypeError: net\(\) takes 0 positional arguments but 2 were given"),
        ("import sys\ndef net(shape, classes): sys.exit(1)", "net: SystemExit: 1"),
    ],
)
def test_model_files_that_misbehave_are_named(tmp_path, text, message):
    from fedcast.training import build_model

    (tmp_path / "m.py").write_text(text)
    with pytest.raises(Exception, match=f"^training.model_file = .*m.py: {message}$"):
        build_model("net", (1, 8, 8), 10, file=tmp_path / "m.py")


def test_a_model_that_ends_the_process_in_training_is_named(tmp_path):
    from fedcast.training import build_model

    (tmp_path / "m.py").write_text(
        "import sys\nclass Net:\n def __call__(self): sys.exit(4)\ndef net(*_): return Net()\n"
    )
    with pytest.raises(SystemExit) as caught:
        build_model("net", (1, 8, 8), 10, file=tmp_path / "m.py")()
    assert str(plugin_error(caught.value)).startswith(
        f"training.model_file = {tmp_path}/m.py: SystemExit: 4 (in __call__"
    )


def test_names_too_long_for_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    long = "x" * 5000
    Path("s.toml").write_text(f'rounds.fit = "{long}"')
    for words in (("s.toml",), ("--set", f"geometry.positions_file={long}.csv"), ("--set", f"data.file={long}.npz")):
        assert run(["validate", *words]) == 2


@pytest.mark.parametrize("value", ["nan", "9" * 500, True, [], None])
def test_a_fit_with_a_number_that_is_none(tmp_path, value):
    from fedcast.rounds import load_fit
    from fedcast.rounds.fit_files import fit_to_json

    document = json.loads(fit_to_json(load_fit("paper-0.95")))
    document["forms"]["paper"]["nmse"] = value
    (tmp_path / "fit.json").write_text(json.dumps(document))
    with pytest.raises(FedcastError, match="rounds.fit .*fit.json: invalid content"):
        load_fit(tmp_path / "fit.json")


def test_class_names_that_are_no_list(refused):
    np.savez("x.npz", inputs=np.zeros((4, 2)), labels=np.arange(4) % 2, class_names=np.array("cat"))
    own = "--set", "data.dataset=file", "--set", "data.file=x.npz"
    assert refused("inspect", *own).startswith("x.npz: class_names: shape (); expected one name for each class")
