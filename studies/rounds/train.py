"""Train the runs that `prepare.py` made; needs PyTorch and NumPy alone.

    python studies/rounds/train.py out/rounds/mnist out/rounds/mnist/accuracy --model cnn --processes 6 --seconds 560

A run ends with the first round that meets the highest target accuracy. Writes one JSON file for each process, with the
test accuracy after every round of each run (round 0 first); a second call leaves out runs that are done.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np


def load_dataset(folder: Path) -> Any:
    """Return the dataset of the study."""
    from fedcast.data import Dataset

    stored = np.load(folder / "dataset.npz")
    classes = int(stored["labels"].max()) + 1
    labels, test_labels = (stored[name].astype(np.int64) for name in ("labels", "test_labels"))
    names = tuple(str(label) for label in range(classes))
    inputs, test_inputs, scale = stored["inputs"], stored["test_inputs"], float(stored["scale"])
    return Dataset("study", inputs, labels, test_inputs, test_labels, classes, 0.0, scale, names)


def load_federation(folder: Path, world: str, dataset: Any) -> Any:
    """Return who trains on what."""
    from fedcast.data import Assignment, assignment_from_owners
    from fedcast.training import Federation

    stored = np.load(folder / "worlds" / f"{world}.npz")
    own = Assignment(stored["samples"].astype(np.int64), stored["offsets"].astype(np.int64))
    owners, samples = [own.owners], [own.samples]
    for number in range(sum(name.startswith("sent") for name in stored.files)):
        sent, receivers = (stored[f"{name}{number}"].astype(np.int64) for name in ("sent", "to"))
        owners.append(np.repeat(receivers, len(sent)))
        samples.append(np.tile(sent, len(receivers)))
    users = assignment_from_owners(np.concatenate(owners), np.concatenate(samples), own.num_users)
    before = stored["before"].astype(np.int64)
    sizes = before.sum(axis=1)
    return Federation(dataset, users, sizes, before / np.maximum(sizes, 1)[:, None])


def train_run(folder: Path, run: dict[str, Any], dataset: Any, model_name: str, top: float) -> list[float]:
    """Train one run until it meets the top target, and return its test accuracy after every round.

    A run that diverges ends with the round before, below its target; of round 0 it has no accuracy.
    """
    from fedcast.errors import FedcastError
    from fedcast.training import TrainingSettings, build_model, train

    settings = TrainingSettings(
        rounds=run["max_rounds"], local_epochs=run["epochs"], learning_rate=run["step"], engine="stacked",
        compile="never", device=os.environ.get("STUDY_DEVICE", "auto"), checkpoint_every=1000,
    )  # fmt: skip
    # Far from the seeds of populations, which other runs use.
    seed = run["seed"] + 10_000 * run.get("repeat", 0)
    model = build_model(model_name, dataset.inputs.shape[1:], dataset.num_classes, seed)
    seen = [0.0]  # round 0 is not reported
    federation = load_federation(folder, run["world"], dataset)
    try:
        outcome = train(
            federation, model, settings, seed=seed, progress=lambda record: seen.append(record.accuracy),
            should_stop=lambda: seen[-1] >= top,
        )  # fmt: skip
    except FedcastError as error:
        if "diverged" not in str(error):
            raise
        print(f"{run['name']}: {error}", flush=True)
        return [round(accuracy, 5) for accuracy in seen]
    return [round(accuracy, 5) for accuracy in outcome.history.column("accuracy")]


def work(queue: Any, folder: Path, out: Path, model: str, deadline: float, top: float) -> None:
    """Train runs from a queue until it is empty or time is over; one that fails does not end the others."""
    import torch

    torch.set_num_threads(1)
    dataset = load_dataset(folder)
    path = out / f"{int(time.time())}-{os.getpid()}.json"
    done: dict[str, list[float]] = {}
    while (run := queue.get()) is not None and time.time() < deadline:
        started = time.time()
        try:
            done[run["name"]] = train_run(folder, run, dataset, model, top)
        except Exception as error:
            print(f"failed: {run['name']}: {type(error).__name__}: {error}", flush=True)
            continue
        path.write_text(json.dumps(done))
        course = done[run["name"]]
        spent = f"{time.time() - started:5.1f} s"
        print(f"{spent}  {run['name']}  {len(course) - 1} rounds, best {max(course):.4f}", flush=True)


def finished(out: Path) -> dict[str, list[float]]:
    """Return the runs that earlier calls trained."""
    merged: dict[str, list[float]] = {}
    for path in out.glob("*.json"):
        merged |= json.loads(path.read_text())
    return merged


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--model", default="cnn")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no new run after so long")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    content = json.loads((options.folder / "runs.json").read_text())
    done = finished(options.out)
    todo = [run for run in content["runs"] if run["name"] not in done]
    context = multiprocessing.get_context("spawn")
    queue: Any = context.Queue()
    for run in [*todo, *[None] * options.processes]:
        queue.put(run)
    deadline = time.time() + options.seconds
    arguments = (queue, options.folder, options.out, options.model, deadline, content["top"])
    workers = [context.Process(target=work, args=arguments) for _ in range(options.processes)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    queue.cancel_join_thread()
    print(f"{len(finished(options.out)) - len(done)} of {len(todo)} runs trained")
    sys.exit(any(worker.exitcode for worker in workers))


if __name__ == "__main__":
    main()
