"""Train the runs of a pack on another machine, which needs PyTorch and NumPy alone.

    python -m fedcast.training.packed PACK OUT --processes 4 --seconds 500

trains every run of a pack that OUT does not hold yet, in the order of the pack. OUT then has a history for each, and a
checkpoint for those that ran out of time: a second call resumes them. `fedcast.runs.packing` makes packs.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedcast import registry
from fedcast.data import Dataset, extend
from fedcast.errors import FedcastError
from fedcast.io import write_file
from fedcast.training.engines import choose_device
from fedcast.training.history import Record
from fedcast.training.models import build_model
from fedcast.training.pack_files import PackedRun, read_dataset, read_list, read_run
from fedcast.training.trainer import Federation, train


def train_packed(run: PackedRun, dataset: Dataset, out: Path, should_stop: Callable[[], bool] | None = None) -> str:
    """Train one run, from its checkpoint in `out` if there is one, write its history there and return a message."""
    if run.own is not None:
        partition = registry.find("partition", run.data["partition"]).value
        dataset = partition.transform(dataset, run.own, partition.options(**run.data["options"]), run.seed)

    def report(record: Record) -> None:
        if record.round % run.training.checkpoint_every == 0:
            of = f"round {record.round} of {run.training.rounds}"
            print(f"{time.strftime('%H:%M:%S')}  {run.name}  {of}, accuracy {record.accuracy:.4f}", flush=True)

    options = registry.find("model", run.model).options(**run.model_options)
    checkpoint = out / f"{run.name}.pt"
    outcome = train(
        Federation(extend(dataset, run.generated), run.users, run.own_sizes, run.distributions, run.own_tests),
        build_model(run.model, dataset.sample_shape, dataset.num_classes, run.seed, options=options),
        run.training, seed=run.seed, clock=run.clock, dropped={(number, user) for number, user in run.dropped},
        checkpoint=checkpoint, progress=report, should_stop=should_stop,
    )  # fmt: skip
    if outcome.stopped:
        return outcome.stopped
    outcome.history.save(out / f"{run.name}.json")
    checkpoint.unlink(missing_ok=True)
    return f"accuracy {outcome.history.records[-1].accuracy:.4f}"


def machine() -> dict[str, str]:
    """Return device and versions of this machine."""
    device = choose_device("auto")
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    return {"device": name, "torch": torch.__version__, "numpy": np.__version__, "python": platform.python_version()}


def train_pack(pack: Path, out: Path, processes: int = 1, seconds: float = float("inf")) -> bool:
    """Train all runs of a pack that `out` does not hold; return whether none failed.

    Args:
        pack: made by `fedcast.runs.packing`.
        out: folder of histories and checkpoints.
        processes: number of processes that train at the same time on the same device.
        seconds: time limit; then runs in progress write a checkpoint and no other is started.
    """
    todo = [run for run in read_list(pack) if not (out / f"{run['name']}.json").exists()]
    write_file(out / "machine.json", json.dumps(machine()))
    deadline = time.time() + seconds
    if processes <= 1:
        return _train_from(iter(todo), pack, out, deadline)
    context = torch.multiprocessing.get_context("spawn")
    queue = context.Queue()
    for run in [*todo, *[None] * processes]:
        queue.put(run)
    workers = [context.Process(target=_work, args=(queue, pack, out, deadline)) for _ in range(processes)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    queue.cancel_join_thread()
    return all(worker.exitcode == 0 for worker in workers)


def _work(queue: Any, pack: Path, out: Path, deadline: float) -> None:
    torch.set_num_threads(1)
    sys.exit(not _train_from(iter(queue.get, None), pack, out, deadline))


def _train_from(todo: Iterator[dict[str, Any]], pack: Path, out: Path, deadline: float) -> bool:
    read = lru_cache(maxsize=2)(lambda name: read_dataset(pack, name))
    failed = False
    for listed in todo:
        if time.time() >= deadline:
            break
        started = time.time()
        try:
            run = read_run(pack, listed)
            result = train_packed(run, read(run.dataset), out, lambda: time.time() >= deadline)
        except FedcastError as error:
            failed, result = True, f"failed: {error}"
        print(f"{time.strftime('%H:%M:%S')} {time.time() - started:6.1f} s  {listed['name']}  {result}", flush=True)
    return not failed


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description="Train the runs of a pack.")
    parser.add_argument("pack", type=Path, help="folder made by fedcast reproduce --pack")
    parser.add_argument("out", type=Path, help="folder of histories and checkpoints")
    parser.add_argument("--processes", type=int, default=1, help="number of processes that train at the same time")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="time limit; then stop with checkpoints")
    options = parser.parse_args()
    sys.exit(not train_pack(options.pack, options.out, options.processes, options.seconds))


if __name__ == "__main__":
    main()
