"""Rounds to a target accuracy as a function of skew and local work: forms, fitting, shipped fits and predictions."""

from fedcast.rounds.fit_files import RoundsFit, load_fit, load_rounds, save_fit, shipped_fits
from fedcast.rounds.fitting import SKEW_FORMS, fit_accuracy, fit_rounds, nmse
from fedcast.rounds.forms import FORMS, FormName
from fedcast.rounds.law import Conditions, RoundsLaw, fit_law, local_steps
from fedcast.rounds.model import AccuracyFit, BetaSet, ExpectedRounds, MeasureName, RoundsModel

__all__ = [
    "FORMS",
    "SKEW_FORMS",
    "AccuracyFit",
    "BetaSet",
    "Conditions",
    "ExpectedRounds",
    "FormName",
    "MeasureName",
    "RoundsFit",
    "RoundsLaw",
    "RoundsModel",
    "fit_accuracy",
    "fit_law",
    "fit_rounds",
    "load_fit",
    "load_rounds",
    "local_steps",
    "nmse",
    "save_fit",
    "shipped_fits",
]
