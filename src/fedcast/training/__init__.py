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
    from fedcast.training.pack_files import PackedRun, write_dataset, write_plugin, write_runs
    from fedcast.training.settings import TrainingSettings, training_settings
    from fedcast.training.trainer import Federation, Outcome, train

    MODELS: dict[str, Callable[..., nn.Module]]

_NAMES = {
    "algorithms": ("Algorithm", "State", "Tensors", "Terms", "Upload", "weighted_sum", "zeros_like"),
    "engines": ("choose_device",),
    "history": ("Clock", "History", "Record", "load_history"),
    "model_checks": ("check_model", "with_weights"),
    "models": ("Model", "build_model"),
    "pack_files": ("PackedRun", "write_dataset", "write_plugin", "write_runs"),
    "settings": ("TrainingSettings", "training_settings"),
    "trainer": ("Federation", "Outcome", "train"),
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
    "write_plugin",
    "write_runs",
    "zeros_like",
]


def __getattr__(name: str) -> Any:
    if name == "MODELS":
        from fedcast import registry

        return {choice.name: choice.value.build for choice in registry.choices("model")}
    module = next((module for module, names in _NAMES.items() if name in names), None)
    if module is None:
        raise AttributeError(f"module 'fedcast.training' has no attribute {name!r}")
    return getattr(import_module(f"fedcast.training.{module}"), name)
