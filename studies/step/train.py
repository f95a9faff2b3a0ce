"""Train the runs that `pack.py` packed; needs PyTorch and NumPy alone.

    python studies/step/train.py out/step/pack out/step/trained --rounds 25 --processes 4
    python studies/step/train.py out/step/pack out/step/trained --runs momentum-0-lr-0.01-s0

The first command trains every run of seed 0 for 25 rounds, the second resumes one of them. Each writes to
accuracy.json the test accuracy after every round of all that is trained so far (round 0 first).
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from pathlib import Path
from typing import Any

import torch

from fedcast.errors import FedcastError
from fedcast.training import load_history
from fedcast.training.pack_files import read_dataset, read_list, read_run
from fedcast.training.packed import machine, train_packed


def label(run: dict[str, Any]) -> str:
    """Return a name that says the settings."""
    training = run["training"]
    return f"momentum-{training['momentum']:g}-lr-{training['learning_rate']:g}-s{run['seed']}"


def accuracies(out: Path, run: dict[str, Any]) -> list[float]:
    """Return the test accuracy after every round that is trained, from the history or the checkpoint."""
    history, checkpoint = (out / f"{run['name']}.{suffix}" for suffix in ("json", "pt"))
    if history.exists():
        return [float(accuracy) for accuracy in load_history(history).column("accuracy")]
    if checkpoint.exists():
        return [record["accuracy"] for record in torch.load(checkpoint, map_location="cpu")["records"]]
    return []


def work(queue: Any, pack: Path, out: Path, most: float, deadline: float) -> None:
    """Train runs from a queue for so many rounds each; one that fails does not end the others."""
    torch.set_num_threads(1)
    for listed in iter(queue.get, None):
        if time.time() >= deadline:
            break
        started, rounds = time.time(), itertools.count(1)
        stop = lambda rounds=rounds: next(rounds) >= most or time.time() >= deadline  # noqa: E731
        try:
            run = read_run(pack, listed)
            result = train_packed(run, read_dataset(pack, run.dataset), out, stop)
        except FedcastError as error:
            result = f"failed: {error}"
        print(f"{time.time() - started:6.1f} s  {label(listed)}  {result}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pack", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--runs", nargs="+", help="which to train or resume, by default all of seed 0")
    parser.add_argument("--rounds", type=float, default=float("inf"), help="stop each run after so many more rounds")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="time limit; then stop with checkpoints")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    packed = {label(run): run for run in read_list(options.pack)}
    wanted = options.runs or [name for name, run in packed.items() if run["seed"] == 0]
    if unknown := set(wanted) - set(packed):
        sys.exit(f"not in the pack: {', '.join(sorted(unknown))}; it holds {', '.join(packed)}")
    context = torch.multiprocessing.get_context("spawn")
    queue = context.Queue()
    for run in [*map(packed.get, wanted), *[None] * options.processes]:
        queue.put(run)
    arguments = (queue, options.pack, options.out, options.rounds, time.time() + options.seconds)
    workers = [context.Process(target=work, args=arguments) for _ in range(options.processes)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    queue.cancel_join_thread()
    courses = {name: accuracies(options.out, run) for name, run in packed.items()}
    lines = [f"{json.dumps(name)}: {json.dumps(course)}" for name, course in courses.items() if course]
    (options.out / "accuracy.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
    (options.out / "machine.json").write_text(json.dumps(machine()))
    sys.exit(any(worker.exitcode for worker in workers))


if __name__ == "__main__":
    main()
