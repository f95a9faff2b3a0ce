"""Test that packs keep their content, and that a stopped run resumes where it stopped."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedcast.data import Assignment, Dataset, TextWindows, dataset_from_arrays
from fedcast.errors import FedcastError
from fedcast.training import Clock, TrainingSettings, load_history
from fedcast.training.algorithms.fedavgm import FedAvgMOptions
from fedcast.training.algorithms.fedprox import FedProxOptions
from fedcast.training.pack_files import (
    PackedRun,
    read_dataset,
    read_list,
    read_run,
    smallest,
    write_dataset,
    write_runs,
)
from fedcast.training.packed import train_pack, train_packed

TRAINING = TrainingSettings(
    algorithm="fedprox", options=FedProxOptions(0.0), server_optimizer="momentum",
    server_options=FedAvgMOptions(1.0, 0.0), batch_size=5, rounds=4, learning_rate=0.1,
    device="cpu", compile="never", checkpoint_every=1000,
)  # fmt: skip


def images() -> Dataset:
    rng = np.random.default_rng(0)
    return dataset_from_arrays(rng.integers(0, 256, (60, 8, 8), dtype=np.uint8), np.arange(60) % 3)


def text() -> Dataset:
    codes = np.random.default_rng(1).integers(0, 80, 500).astype(np.uint8)
    train, test = np.arange(0, 300, 3), np.arange(320, 480)
    labels, test_labels = codes[train + 20].astype(np.int64), codes[test + 20].astype(np.int64)
    return Dataset(
        "text", TextWindows(codes, train, 20), labels, TextWindows(codes, test, 20), test_labels, 80, 1.0, None
    )


def packed_run(name: str = "run", **changes: object) -> PackedRun:
    users = Assignment(np.arange(48), np.array([0, 12, 36, 48]))
    run = PackedRun(
        name, "images", "mlp", 3, TRAINING, {}, Clock(1.0, 2.0, 3.0, 4.0, 5.0, 6.0), [[1, 2]], users, None,
        np.array([12, 20, 12]), np.full((3, 3), 1 / 3),
    )  # fmt: skip
    return replace(run, **changes)  # type: ignore[arg-type]


def test_a_run_comes_back_as_it_was(tmp_path: Path) -> None:
    run = packed_run(own=Assignment(np.arange(44), np.array([0, 12, 32, 44])), data={"partition": "noise"})
    write_runs(tmp_path, [run])
    back = read_run(tmp_path, read_list(tmp_path)[0])
    assert (back.name, back.training, back.clock, back.dropped, back.data) == (
        run.name, run.training, run.clock, run.dropped, run.data,
    )  # fmt: skip
    assert back.own is not None
    assert run.own is not None
    for one, other in [(back.users, run.users), (back.own, run.own)]:
        assert one.samples.dtype == np.int64
        assert one.samples.tolist() == other.samples.tolist()
        assert one.offsets.tolist() == other.offsets.tolist()
    assert back.distributions.tobytes() == run.distributions.tobytes()


@pytest.mark.parametrize("dataset", [images(), text()], ids=["images", "text"])
@pytest.mark.parametrize("part_bytes", [2**20, 200])
def test_a_dataset_comes_back_as_it_was_also_in_parts(tmp_path: Path, dataset: Dataset, part_bytes: int) -> None:
    write_dataset(tmp_path, "data", dataset, part_bytes)
    parts = list((tmp_path / "datasets").iterdir())
    assert all(part.stat().st_size <= part_bytes for part in parts)
    assert (len(parts) > 11) == (part_bytes == 200)
    back = read_dataset(tmp_path, "data")
    everything = np.arange(len(dataset))
    assert back.inputs[everything].tobytes() == dataset.inputs[everything].tobytes()
    assert back.test_inputs[:5].tobytes() == dataset.test_inputs[:5].tobytes()
    assert back.labels.tobytes() == dataset.labels.tobytes()
    assert back.test_labels.tobytes() == dataset.test_labels.tobytes()
    assert (back.scale, back.num_classes) == (dataset.scale, dataset.num_classes)


def test_a_missing_part_or_dataset_is_named(tmp_path: Path) -> None:
    write_dataset(tmp_path, "data", images(), 500)
    parts = sorted((tmp_path / "datasets").iterdir(), key=lambda path: int(path.suffix[1:]))
    for part in (parts[-1], parts[2]):
        content = part.read_bytes()
        part.unlink()
        with pytest.raises(FedcastError, match="dataset data is damaged or lacks a part"):
            read_dataset(tmp_path, "data")
        part.write_bytes(content)
    with pytest.raises(FedcastError, match="dataset other is not in it"):
        read_dataset(tmp_path, "other")
    with pytest.raises(FedcastError, match=r"no runs\.json in it"):
        read_list(tmp_path)


def test_a_run_out_of_time_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    run, dataset = packed_run(), images()
    for folder in ("whole", "parts"):
        (tmp_path / folder).mkdir()
    train_packed(run, dataset, tmp_path / "whole")
    said = train_packed(run, dataset, tmp_path / "parts", lambda: True)
    assert said == "stopped after round 1"
    assert [path.name for path in (tmp_path / "parts").iterdir()] == ["run.pt"]
    assert train_packed(run, dataset, tmp_path / "parts").startswith("accuracy")
    assert [path.name for path in (tmp_path / "parts").iterdir()] == ["run.json"]
    assert load_history(tmp_path / "whole" / "run.json") == load_history(tmp_path / "parts" / "run.json")


def test_one_run_that_diverges_does_not_stop_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wild = packed_run("wild", training=replace(TRAINING, learning_rate=1e30))
    write_runs(tmp_path / "pack", [wild, packed_run("tame")])
    write_dataset(tmp_path / "pack", "images", images())
    assert not train_pack(tmp_path / "pack", tmp_path / "out")
    assert "wild  failed: training diverged" in capsys.readouterr().out
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["machine.json", "tame.json"]


def test_no_run_is_begun_after_the_time_is_up(tmp_path: Path) -> None:
    write_runs(tmp_path / "pack", [packed_run()])
    assert train_pack(tmp_path / "pack", tmp_path / "out", seconds=0)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["machine.json"]


def test_smallest_holds_the_largest() -> None:
    assert [smallest(np.array([top])).dtype.itemsize for top in (255, 256, 65536)] == [1, 2, 4]
    assert smallest(np.zeros(0, dtype=np.int64)).dtype == np.uint8


def test_a_pack_of_an_earlier_version_is_invalid(tmp_path: Path) -> None:
    (tmp_path / "runs.json").write_text('[{"name": "run"}]')
    with pytest.raises(FedcastError, match="a pack of version 1, this fedcast reads version 2; pack the runs again"):
        read_list(tmp_path)
