"""Rounds to a target accuracy as a function of skew: forms, fitting, shipped fits and predictions."""

from fedcast.rounds.fit_files import RoundsFit, load_fit, load_rounds, save_fit, shipped_fits
from fedcast.rounds.fitting import fit_accuracy, fit_rounds, nmse
from fedcast.rounds.forms import FORMS, FormName
from fedcast.rounds.model import AccuracyFit, BetaSet, MeasureName, RoundsModel

__all__ = [
    "FORMS",
    "AccuracyFit",
    "BetaSet",
    "FormName",
    "MeasureName",
    "RoundsFit",
    "RoundsModel",
    "fit_accuracy",
    "fit_rounds",
    "load_fit",
    "load_rounds",
    "nmse",
    "save_fit",
    "shipped_fits",
]
