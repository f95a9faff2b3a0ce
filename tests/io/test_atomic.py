"""Test where files are written: to a temporary file that is renamed, through links, and into pipes."""

import os
import threading

import pytest

from fedcast.errors import FedcastError
from fedcast.io.atomic import atomic_write


def write(path, text="new"):
    with atomic_write(path) as aside:
        aside.write_text(text)


def test_a_link_stays_and_its_file_is_written(tmp_path):
    real, link = tmp_path / "far" / "real.json", tmp_path / "link.json"
    link.symlink_to(real)
    write(link, "first")
    write(link)
    assert link.is_symlink()
    assert real.read_text() == "new"
    assert [file.name for file in real.parent.iterdir()] == ["real.json"]


def test_a_pipe_is_written_to_not_replaced(tmp_path):
    pipe, received = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: received.append(pipe.read_text()), daemon=True)
    reader.start()
    write(pipe)
    reader.join(timeout=10)
    assert received == ["new"]
    assert pipe.is_fifo()


def test_an_open_pipe_of_the_shell(tmp_path):
    """The argument of ``>(wc -c)``: a name under /dev/fd that leads to no file."""
    end, start = os.pipe()
    write(f"/dev/fd/{start}")
    os.close(start)
    with os.fdopen(end) as stream:
        assert stream.read() == "new"


def test_what_fails_leaves_the_old_file_and_names_the_one_asked_for(tmp_path):
    def half():
        with atomic_write(path) as aside:
            aside.write_text("half")
            raise OSError(28, "full", str(aside))

    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(OSError, match="full") as caught:
        half()
    assert caught.value.filename == str(path)
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["a.txt"]


def test_places_that_hold_no_file(tmp_path):
    (tmp_path / "counts.csv").touch()
    with pytest.raises(FedcastError, match=r"counts.csv: is not a folder, so it cannot contain p.json"):
        write(tmp_path / "counts.csv" / "p.json")
    with pytest.raises(FedcastError, match="is a folder, expected a file"):
        write(tmp_path)
