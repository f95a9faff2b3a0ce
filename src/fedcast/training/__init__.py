"""Training: models, algorithms, engines, histories and checkpoints. The only room that imports PyTorch."""

from fedcast.training.choose import choose_device
from fedcast.training.clock import Clock
from fedcast.training.history import History, Record, load_history
from fedcast.training.models import MODELS, build_model, check_model, with_weights
from fedcast.training.run import Federation, Outcome, train

__all__ = [
    "MODELS",
    "Clock",
    "Federation",
    "History",
    "Outcome",
    "Record",
    "build_model",
    "check_model",
    "choose_device",
    "load_history",
    "train",
    "with_weights",
]
