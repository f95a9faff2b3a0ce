"""Runs whose courses are given by formula, so that every number that follows is known by hand."""

from pathlib import Path

from fedcast.runs import run_folder
from fedcast.scenario import load_scenario
from fedcast_paper import find_reproduction
from fedcast_paper.trained import Trained, archived, save_trained

FACTS = {
    "emd_before": 1.5, "emd_after": 1.4, "emd_after_a": 1.5, "emd_after_b": 1.4, "emd_after_c": 1.3, "js_before": 0.4,
    "js_after": 0.3, "kl_after": 1.0, "shift": 0.02, "heads": 10, "members": 60, "sent_samples": 600,
    "received_samples": 3600, "distinct_samples": 500, "largest_revealed_share": 0.1, "average_sharing_ratio": 0.06,
    "sharing_s": 5.0, "download_s": 1.0, "compute_s": 2.0, "upload_s": 3.0, "sharing_j": 0.1, "round_j": 0.2,
    "sharing_bytes": 600, "round_bytes": 7000,
}  # fmt: skip


def keep(job, scenario, accuracy, curves=None, **facts):
    """Put a run with this course of accuracy, and other curves, into the job's archive; its loss is 2 - accuracy."""
    rounds = len(accuracy) - 1
    curves = (curves or {}) | {
        "train_loss": [None, *[1.0] * rounds], "test_loss": [2 - value for value in accuracy], "accuracy": accuracy,
        "worst_accuracy": accuracy, "drift": [None, *[0.5] * rounds],
    }  # fmt: skip
    path = archived(job, run_folder(Path(), scenario).name)
    save_trained(Trained(scenario, {**FACTS, **facts}, curves, {"device": "none"}), path)


def rising(rounds, reaches, last=0.99):
    """Accuracy that rises in a straight line to 0.95 at round `reaches` and is `last` from there on."""
    return [0.95 * number / reaches if number < reaches else last for number in range(rounds + 1)]


def run_of(seed, accuracy, rule="daca"):
    """A run with this course of accuracy."""
    scenario = load_scenario(overrides=[f"seed={seed}", f"clustering.rule={rule}"])
    return Trained(scenario, FACTS, {"accuracy": accuracy})


def data(name, job):
    """The result of an id."""
    return find_reproduction(name).data(job)
