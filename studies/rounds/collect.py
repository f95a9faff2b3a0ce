"""Add trained runs to the study.

    python studies/rounds/collect.py mnist out/rounds/mnist out/rounds/mnist/accuracy

adds settings and accuracies of every run that was trained, and the class counts of its population before and after
sharing. Runs that the study already has stay as they are.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent


def main(dataset: str, folder: Path, out: Path) -> None:
    home = HERE / dataset
    home.mkdir(exist_ok=True)
    accuracies = _json(home / "accuracy.json")
    settings = _json(home / "settings.json")
    counts = dict(np.load(home / "counts.npz")) if (home / "counts.npz").exists() else {}
    trained = {name: course for path in sorted(out.glob("*.json")) for name, course in _json(path).items()}
    for run in _json(folder / "runs.json")["runs"]:
        name, world = run.pop("name"), run["world"]
        if name in accuracies or name not in trained:
            continue
        accuracies[name], settings[name] = trained[name], run
        with np.load(folder / "worlds" / f"{world}.npz") as stored:
            before, after = stored["before"], stored["after"]
        counts[f"{world}/before"] = before
        counts[f"{world}/received"] = (after - before).astype(np.uint16)
    _write(home / "accuracy.json", accuracies)
    _write(home / "settings.json", settings)
    np.savez_compressed(home / "counts.npz", **counts)
    print(f"{len(accuracies)} runs in {home}")


def _json(path: Path):  # type: ignore[no-untyped-def]
    return json.loads(path.read_text()) if path.exists() else {}


def _write(path: Path, values: dict[str, object]) -> None:
    """Write one line for each entry, so that a new run is a new line."""
    lines = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in values.items()]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
