"""Rounds to a target accuracy as a function of skew and local work: forms, fitting, shipped fits and predictions."""

from fedcast.rounds.domain import FitDomain, dataset_digest, task_values
from fedcast.rounds.fit_files import RoundsFit, fit_of, load_fit, load_rounds, save_fit, shipped_fits
from fedcast.rounds.fitting import SKEW_FORMS, fit_accuracy, fit_rounds, nmse
from fedcast.rounds.forms import FORMS, FormName
from fedcast.rounds.law import Conditions, RoundsLaw, fit_law, local_steps
from fedcast.rounds.model import AccuracyFit, BetaSet, ExpectedRounds, MeasureName, RoundsModel
from fedcast.rounds.notes import fit_differences, fit_notes, rounds_assumptions

__all__ = [
    "FORMS",
    "SKEW_FORMS",
    "AccuracyFit",
    "BetaSet",
    "Conditions",
    "ExpectedRounds",
    "FitDomain",
    "FormName",
    "MeasureName",
    "RoundsFit",
    "RoundsLaw",
    "RoundsModel",
    "dataset_digest",
    "fit_accuracy",
    "fit_differences",
    "fit_law",
    "fit_notes",
    "fit_of",
    "fit_rounds",
    "load_fit",
    "load_rounds",
    "local_steps",
    "nmse",
    "rounds_assumptions",
    "save_fit",
    "shipped_fits",
    "task_values",
]
