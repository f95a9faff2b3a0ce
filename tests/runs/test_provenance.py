"""The commit and versions that a run names."""

import json
import subprocess

import pytest

from fedcast.runs import run_scenario, source_commit, store, versions
from fedcast.runs.provenance import provenance
from fedcast.scenario import with_overrides


@pytest.fixture
def checkout(tmp_path):
    """Return a folder of source files in a git checkout, and a function that calls git there."""

    def git(*words):
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        done = subprocess.run(["git", *identity, *words], cwd=tmp_path, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    git("init")
    source = tmp_path / "src"
    source.mkdir()
    (source / "a.py").write_text("1")
    git("add", ".")
    git("commit", "-m", "first")
    return source, git


def test_the_commit_of_source_files(checkout):
    source, git = checkout
    assert git("rev-parse", "HEAD").startswith(source_commit(source))
    (source.parent / "other.py").write_text("1")
    git("add", "other.py")
    assert not source_commit(source).endswith(" with changes")
    assert source_commit(source, source.parent).endswith(" with changes")
    (source / "a.py").write_text("2")
    assert source_commit(source).endswith(" with changes")


def test_source_files_of_another_project_have_no_commit(checkout, tmp_path_factory, monkeypatch):
    source, _ = checkout
    installed = source.parent / ".venv" / "site-packages"
    installed.mkdir(parents=True)
    (installed / "b.py").write_text("1")
    assert source_commit(installed) is None
    outside = tmp_path_factory.mktemp("outside")
    assert source_commit(outside) is None
    # A commit of one folder does not describe another that is not in its checkout.
    assert source_commit(source, outside) is None
    monkeypatch.setenv("GIT_DIR", str(source.parent / ".git"))  # as in a hook of git
    assert source_commit(outside) is None
    monkeypatch.setenv("PATH", "")
    assert source_commit(source) is None


def test_a_run_names_the_commit_of_its_training(small, tmp_path, monkeypatch):
    monkeypatch.setattr("fedcast.runs.provenance._own_commit", lambda: "0123456789ab with changes")
    folder = run_scenario(small, tmp_path)
    assert json.loads((folder / "versions.json").read_text()) == {**versions(), "commit": "0123456789ab with changes"}
    # Another commit with the same versions takes over what was trained.
    monkeypatch.setattr("fedcast.runs.provenance._own_commit", lambda: "ba9876543210")
    other = run_scenario(with_overrides(small, {"rounds.target_accuracy": 0.6}), tmp_path)
    assert store.load_run(other).history_from == folder.name
    assert store.load_run(other).versions["commit"] == "0123456789ab with changes"
    monkeypatch.setattr("fedcast.runs.provenance._own_commit", lambda: None)
    assert provenance() == versions()


def test_a_run_that_is_resumed_names_all_commits_that_trained_it(small, tmp_path, monkeypatch):
    scenario = with_overrides(small, {"training.checkpoint_every": 1})
    for commit, rounds in (("a", 1), ("b", 99)):
        monkeypatch.setattr("fedcast.runs.provenance._own_commit", lambda commit=commit: commit)
        done = []
        folder = run_scenario(
            scenario, tmp_path, progress=done.append, should_stop=lambda done=done, most=rounds: len(done) > most
        )
    assert store.load_run(folder).versions == {**versions(), "commit": "a, b"}
