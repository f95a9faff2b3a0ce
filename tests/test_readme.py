"""The README's example and commands do what they say."""

import re
import shlex
from pathlib import Path

import pytest

from fedcast.cli.app import run

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


@pytest.mark.parametrize("page", ["README.md", "docs/tutorial.md", "docs/how-to/plan.md"])
def test_python_examples_run(page, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for code in re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL):
        # A few users, rounds and steps of the search for volumes run the same lines as many.
        few = re.sub(r"training\.rounds=\d+", "training.rounds=2", code)
        few = few.replace("overrides=[", 'overrides=["allocation.jfvo.steps=3", "data.num_users=20", ')
        exec(compile(few, page, "exec"), {})
    speed_up = re.search(r"^[\d.]+", capsys.readouterr().out, re.MULTILINE)
    assert speed_up is not None
    assert float(speed_up[0]) > 0.5


def test_commands_run_in_the_order_given(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "counts.csv").write_text("user,cat,dog\n0,50,1\n1,0,70\n2,30,30\n")
    (tmp_path / "links.csv").write_text("user_a,user_b,rate_bps,closeness\n0,2,1e6,0.9\n1,2,1e6,0.9\n")
    commands = re.findall(r"^fedcast (.*?)(?:\s+#.*)?$", README, re.MULTILINE)
    assert len(commands) >= 5
    for command in commands:
        if "--preset niid-" in command:  # hundreds of runs; tests/runs/test_studies.py has their list
            continue
        # What trains for minutes does the same here for two rounds of few users.
        short = ["training.rounds=2", "data.num_users=20", "allocation.method=fixed", "training.model=mlp"]
        small = [word for change in short for word in ("--set", change)]
        words = [*shlex.split(command), *(small if command.startswith(("run", "compare", "train")) else [])]
        if command.startswith("plan"):
            words += ["--set", "allocation.jfvo.steps=3"]
        if command.startswith("compare"):
            words += ["--seeds", "2", "--workers", "1"]  # the last value of an option counts
        assert run(words) == 0, command


def test_links_lead_somewhere():
    for target in re.findall(r"\]\((?!https?:)([^)]+)\)", README):
        assert (ROOT / target).exists(), target
