"""Training: algorithms, models, engines, histories and checkpoints.

Names are imported when first used: algorithms and models declare their options without importing PyTorch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedcast._lazy import lazy_names

if TYPE_CHECKING:
    from fedcast.training.algorithms import Algorithm, State, Tensors, Terms, Upload, weighted_sum, zeros_like
    from fedcast.training.device_data import own_accuracies
    from fedcast.training.engines import choose_device
    from fedcast.training.engines.forward import CannotStackError, Forward, stacked_forward
    from fedcast.training.fine_tuning import train_separately
    from fedcast.training.history import Clock, History, Record, load_history, mean_and_worst
    from fedcast.training.model_checks import check_model, check_scores, with_weights
    from fedcast.training.models import MODELS, Model, build_model, count_weights
    from fedcast.training.pack_files import PackedRun, write_dataset, write_plugin, write_runs
    from fedcast.training.remote import LocalTraining, RemoteUsers, train_remotely
    from fedcast.training.settings import (
        TrainingSettings,
        check_augmentation,
        settings_from_dict,
        settings_text,
        settings_to_dict,
        training_settings,
    )
    from fedcast.training.trainer import Federation, Outcome, train
    from fedcast.training.uploads import UploadKind

__all__ = [
    "MODELS",
    "Algorithm",
    "CannotStackError",
    "Clock",
    "Federation",
    "Forward",
    "History",
    "LocalTraining",
    "Model",
    "Outcome",
    "PackedRun",
    "Record",
    "RemoteUsers",
    "State",
    "Tensors",
    "Terms",
    "TrainingSettings",
    "Upload",
    "UploadKind",
    "build_model",
    "check_augmentation",
    "check_model",
    "check_scores",
    "choose_device",
    "count_weights",
    "load_history",
    "mean_and_worst",
    "own_accuracies",
    "settings_from_dict",
    "settings_text",
    "settings_to_dict",
    "stacked_forward",
    "train",
    "train_remotely",
    "train_separately",
    "training_settings",
    "weighted_sum",
    "with_weights",
    "write_dataset",
    "write_plugin",
    "write_runs",
    "zeros_like",
]

__getattr__ = lazy_names(__name__, __file__)
