"""Find a finished run with the same training: scenarios may differ and still give every user the same samples.

A plan acts on training only by the samples, local epochs and clock that it gives. Another target accuracy or another
fit of rounds often leaves all of these as they are; the history is then the same to the last bit.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np

from fedcast.errors import FedcastError
from fedcast.runs.prepare import PreparedRun
from fedcast.runs.provenance import read_provenance, without_commit
from fedcast.scenario import deciding_values, files_by_key
from fedcast.text_files import parse_json, read_text
from fedcast.training import settings_text

# Parts of a scenario that act on training itself; all others act through the plan.
_ACTING = ("seed", "data", "training")
# What each finished run of a store trained, by folder; files of finished runs do not change.
_known: dict[Path, str | None] = {}


def training_key(prepared: PreparedRun) -> str:
    """Return a hash of all that decides the history of a run: model, algorithm, samples of each user, clock."""
    scenario, shared = prepared.world.scenario, prepared.shared
    values = {name: value for name, value in deciding_values(scenario).items() if name in _ACTING}
    del values["training"]["local_epochs"]  # the plan's choice is part of the settings of training
    settings = {name: str(getattr(prepared.training, name)) for name in settings_text(prepared.training)}
    del settings["checkpoint_every"]
    clock = asdict(prepared.clock)
    del clock["download_bytes"]  # follows from the model
    content = [values, settings, clock]
    digest = hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode())
    for key, file in files_by_key(scenario):
        if key.partition(".")[0].partition("[")[0] in (*_ACTING, "plugins"):
            digest.update(file.read_bytes())
    arrays = [shared.assignment.samples, shared.assignment.offsets, prepared.trained]
    if shared.generated is not None:
        arrays += [getattr(shared.generated, item.name) for item in fields(shared.generated)]
    for array in arrays:
        digest.update(b"absent" if array is None else np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def same_training(store: Path, key: str, versions: dict[str, str]) -> Path | None:
    """Return the folder of a finished run with that key, made by the same versions of packages; None: there is none."""
    for done in store.glob("*/done.json"):
        folder = done.parent
        if _key_of(folder) == key and without_commit(read_provenance(folder)) == versions:
            return folder
    return None


def _key_of(folder: Path) -> str | None:
    if folder not in _known:
        found = _read(folder / "done.json")
        _known[folder] = found.get("training") if isinstance(found, dict) else None
    return _known[folder]


def _read(path: Path) -> Any:
    try:
        return parse_json(read_text(path), str(path))
    except (FedcastError, OSError):
        return None
