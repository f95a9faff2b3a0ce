"""Jobs of a server, as FLARE's session lists them."""

from types import SimpleNamespace

import pytest

pytest.importorskip("nvflare", reason="nvflare is not installed: pip install fedcast[federation]")

from fedcast.federation.flare import jobs


class Session:
    """A session whose jobs are listed one state after another, and that notes what is aborted."""

    def __init__(self, *states):
        self.states, self.aborted = list(states), []

    def list_jobs(self):
        listed, self.running = self.states[0] if len(self.states) == 1 else self.states.pop(0)
        return [{"job_name": name, "job_id": f"id of {name}", "status": status} for name, status in listed.items()]

    def get_system_info(self):
        return SimpleNamespace(job_info=[SimpleNamespace(job_id=f"id of {name}") for name in self.running])

    def abort_job(self, job_id):
        self.aborted.append(job_id)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(jobs.time, "sleep", lambda _: None)


def active(session, tmp_path):
    return list(jobs._active_runs(SimpleNamespace(folder=tmp_path), session))


def test_jobs_that_run_or_wait_are_active(tmp_path):
    listed = {"a": "RUNNING", "b": "SUBMITTED", "c": "FINISHED:COMPLETED", "d": "RUNNING"}
    session = Session((listed, ["a"]))
    assert active(session, tmp_path) == ["a", "b"]  # d ran in a server that was killed
    assert session.aborted == []


def test_a_job_that_a_killed_server_was_starting_is_closed(tmp_path):
    session = Session(({"a": "DISPATCHED", "b": "RUNNING"}, ["b"]))
    assert active(session, tmp_path) == ["b"]
    assert session.aborted == ["id of a"]


def test_a_job_that_is_being_started_is_active(tmp_path):
    session = Session(({"a": "DISPATCHED"}, []), ({"a": "DISPATCHED"}, ["a"]))
    assert active(session, tmp_path) == ["a"]
    assert session.aborted == []
