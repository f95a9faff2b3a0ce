"""Domains of fits: the domain in its file, what differs from it, and targets beyond its runs."""

import json
import os
from dataclasses import replace

import numpy as np
import pytest

from fedcast.data import dataset_from_arrays
from fedcast.rounds import (
    FitDomain,
    dataset_digest,
    fit_differences,
    fit_notes,
    load_fit,
    load_rounds,
    save_fit,
    shipped_fits,
)
from fedcast.rounds.domain import DATASET_DIGEST, MODEL_DIGEST
from fedcast.scenario import Rounds, Scenario, load_scenario

DIGITS = load_fit("digits")
LIKE_ITS_RUNS = [
    "data.dataset=digits", "data.partition=dirichlet", "training.model=small_cnn", "training.learning_rate=0.2",
    "training.local_epochs=4", "rounds.fit=digits", "rounds.form=law", "rounds.target_accuracy=0.85",
]  # fmt: skip


def scenario(*changes):
    return load_scenario(overrides=[*LIKE_ITS_RUNS, *changes])


@pytest.mark.parametrize("name", [name for name in shipped_fits() if not name.startswith("paper")])
def test_shipped_fits_say_what_they_were_made_from(name):
    fit = load_fit(name)
    values = fit.domain.values
    assert values["data.dataset"] == (fit.dataset,)
    assert values["training.model"] == ({"mnist": "cnn", "digits": "small_cnn"}[fit.dataset],)
    assert 0 <= fit.domain.skew_range[0] < fit.domain.skew_range[1] <= 1.8
    for law in fit.laws:
        assert law.skew_range == fit.domain.skew_range
        rates = values["training.learning_rate"]
        assert law.rate_range == (rates[0], rates[-1])


@pytest.mark.parametrize(
    ("change", "differs"),
    [
        ("data.dataset=mnist", "data.dataset = mnist, its runs have digits"),
        ("training.model=mlp", "training.model = mlp, its runs have small_cnn"),
        ("training.learning_rate=0.5", "training.learning_rate = 0.5, its runs have 0.05 to 0.4"),
        ("training.local_epochs=20", "training.local_epochs = 20, its runs have 1 to 10"),
        ("training.batch_size=20", "training.batch_size = 20, its runs have 10"),
        ("training.momentum=0.9", "training.momentum = 0.9, its runs have 0"),
        ("training.algorithm=scaffold", "training.algorithm = scaffold, its runs have fedavg"),
        ("data.partition=iid", "data.partition = iid, its runs have dirichlet, label_skew, shards"),
    ],
)
def test_every_difference_is_named_with_both_values(change, differs):
    assert fit_differences(DIGITS, scenario()) == ()
    assert fit_differences(DIGITS, scenario(change)) == (differs,)
    assert differs in fit_notes(scenario(change))[0]


def test_forms_of_skew_alone_hold_at_the_epochs_and_the_learning_rate_of_their_runs():
    fit, chosen = load_fit("digits-0.85"), ["rounds.fit=digits-0.85"]
    same = load_scenario(base="digits", overrides=[*chosen, "training.learning_rate=0.1", "training.local_epochs=5"])
    assert fit_differences(fit, same) == ()
    between = load_scenario(
        base="digits", overrides=[*chosen, "training.learning_rate=0.11", "training.local_epochs=4"]
    )
    assert [line.split(",")[0] for line in fit_differences(fit, between)] == [
        "training.learning_rate = 0.11",
        "training.local_epochs = 4",
    ]


def test_data_and_models_of_the_same_name_are_told_apart(tmp_path):
    mine, other = (dataset_from_arrays(np.full((20, 4, 4), grey), np.arange(20) % 2) for grey in (0.25, 0.5))
    assert dataset_digest(mine) == dataset_digest(dataset_from_arrays(np.full((20, 4, 4), 0.25), np.arange(20) % 2))
    net = tmp_path / "net.py"
    net.write_text("def net(shape, classes): ...")
    own = ["data.dataset=file", f"data.file={tmp_path / 'x.npz'}", f"training.model_file={net}", "training.model=net"]
    values = {"data.dataset": ("file",), DATASET_DIGEST: (dataset_digest(mine),), "training.model": ("net",)}
    values |= {name: DIGITS.domain.values[name] for name in ("data.partition", "training.batch_size")}
    values |= {name: DIGITS.domain.values[name] for name in ("training.learning_rate", "training.local_epochs")}
    here = scenario(*own)
    fit = replace(DIGITS, dataset="file", domain=FitDomain(values, (0.0, 1.0)))
    save_fit(fit, tmp_path / "mine.json")
    here = scenario(*own, f"rounds.fit={tmp_path / 'mine.json'}")
    assert fit_notes(here, mine) == fit_notes(here) == ()
    assert f"{DATASET_DIGEST} = {dataset_digest(other)[:12]}…, its runs have" in fit_notes(here, other)[0]
    changed = replace(fit, domain=FitDomain({**values, MODEL_DIGEST: ("0" * 64,)}, (0.0, 1.0)))
    assert [line.split(" = ")[0] for line in fit_differences(changed, here)] == [MODEL_DIGEST]


def test_a_population_from_a_table_has_no_partition():
    assert fit_differences(DIGITS, scenario("data.dataset=synthetic", "data.partition=iid")) == (
        "data.dataset = synthetic, its runs have digits",
    )


def test_beyond_the_targets_of_a_fit_the_nearest_counts_and_a_note_gives_the_number():
    for target, end, word in ((0.99, 0.92, "highest"), (0.3, 0.7, "lowest")):
        settings = Rounds(fit="digits", form="law", target_accuracy=target)
        model = load_rounds(settings, learning_rate=0.2)
        assert model.beta.tolist() == DIGITS.law(end).model("digits", 0.2).beta.tolist()
        assert fit_notes(scenario(f"rounds.target_accuracy={target}")) == (
            f"rounds.target_accuracy = {target}: rounds are those to {end}, the {word} target of fit digits",
        )
    assert fit_notes(scenario("rounds.target_accuracy=0.87")) == ()


def test_a_fit_without_a_domain_is_compared_by_its_dataset_alone():
    assert fit_differences(load_fit("paper-0.95"), load_scenario(base="mnist", overrides=["training.model=mlp"])) == ()
    assert fit_differences(load_fit("paper-0.95"), Scenario()) == ("data.dataset = digits, its runs have mnist",)


def test_the_domain_is_kept_in_the_file_and_a_changed_file_is_read_again(tmp_path):
    path = tmp_path / "mine.json"
    save_fit(DIGITS, path)
    assert load_fit(path).domain == DIGITS.domain
    assert load_fit(path) is load_fit(path), "read once"
    document = json.loads(path.read_text())
    document["name"] = "changed"
    path.write_text(json.dumps(document))
    os.utime(path, ns=(0, 0))
    assert load_fit(path).name == "changed"


def test_laws_and_forms_of_skew_share_a_file(tmp_path):
    both = replace(DIGITS, models=load_fit("digits-0.85").models, runs={"emd": [1.0]})
    save_fit(both, tmp_path / "both.json")
    again = load_fit(tmp_path / "both.json")
    assert again.targets == DIGITS.targets
    assert set(again.models) == {"paper", "theory", "extended"}
    assert again.model("paper").rounds(1.0) == load_fit("digits-0.85").model("paper").rounds(1.0)
