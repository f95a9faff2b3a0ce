"""Training: algorithms, models, engines, histories and checkpoints.

Names are imported when first used: algorithms and models declare their options without importing PyTorch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import nn

    from fedcast.training.algorithms import Algorithm, State, Tensors, Terms, Upload, weighted_sum, zeros_like
    from fedcast.training.engines import choose_device
    from fedcast.training.history import Clock, History, Record, load_history
    from fedcast.training.model_checks import check_model, with_weights
    from fedcast.training.models import Model, build_model
    from fedcast.training.pack_files import PackedRun, write_dataset, write_runs
    from fedcast.training.settings import TrainingSettings, training_settings
    from fedcast.training.trainer import Federation, Outcome, train

    MODELS: dict[str, Callable[..., nn.Module]]

_HOME_OF = {
    "Algorithm": "algorithms",
    "Clock": "history",
    "Federation": "trainer",
    "History": "history",
    "Model": "models",
    "Outcome": "trainer",
    "PackedRun": "pack_files",
    "Record": "history",
    "State": "algorithms",
    "Tensors": "algorithms",
    "Terms": "algorithms",
    "TrainingSettings": "settings",
    "Upload": "algorithms",
    "build_model": "models",
    "check_model": "model_checks",
    "choose_device": "engines",
    "load_history": "history",
    "train": "trainer",
    "training_settings": "settings",
    "weighted_sum": "algorithms",
    "with_weights": "model_checks",
    "write_dataset": "pack_files",
    "write_runs": "pack_files",
    "zeros_like": "algorithms",
}

__all__ = [
    "MODELS",
    "Algorithm",
    "Clock",
    "Federation",
    "History",
    "Model",
    "Outcome",
    "PackedRun",
    "Record",
    "State",
    "Tensors",
    "Terms",
    "TrainingSettings",
    "Upload",
    "build_model",
    "check_model",
    "choose_device",
    "load_history",
    "train",
    "training_settings",
    "weighted_sum",
    "with_weights",
    "write_dataset",
    "write_runs",
    "zeros_like",
]


def __getattr__(name: str) -> Any:
    if name == "MODELS":
        from fedcast import registry

        return {choice.name: choice.value.build for choice in registry.choices("model")}
    if name not in _HOME_OF:
        raise AttributeError(f"module 'fedcast.training' has no attribute {name!r}")
    return getattr(import_module(f"fedcast.training.{_HOME_OF[name]}"), name)
