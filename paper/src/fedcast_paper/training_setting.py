"""The strategies and the training tasks on which they are compared. The paper leaves most of the settings open.

A task is a tuple of changes to a preset. At smoke scale the digits replace every dataset, with few users and rounds:
the same code runs in seconds, and its numbers mean nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from fedcast.formatting import pluralize
from fedcast.scenario import Scenario, load_scenario
from fedcast.sharing import CONTROLS as KINDS
from fedcast_paper.job import Job

if TYPE_CHECKING:
    from fedcast_paper.trained import Trained

STRATEGIES = {
    "none": "FedAvg",
    "scc": "SCC",
    "cec": "CEC",
    "central": "central",
    "daca": "DACA",
    "gain": "gain",
    "blend": "blend",
}
SHARING = tuple(rule for rule in STRATEGIES if rule != "none")
# Strategies that train as much as another and share nothing: "daca work" is the work control of DACA.
CONTROLS = {f"{rule} {control}": f"{STRATEGIES[rule]}, {control} control" for rule in SHARING for control in KINDS}
DATASETS = {"mnist": "MNIST", "cifar10": "CIFAR-10", "shakespeare": "Shakespeare"}
RATIO = 0.1
ONE_CLASS_SHARE = 0.8
DIRICHLET = (0.1, 1.0, 10.0)
# Target accuracy on MNIST, and one that the digits of the smoke scale reach in a few rounds.
TARGET, SMOKE_TARGET = 0.95, 0.2

Changes = tuple[str, ...]

NOISE: Changes = ("data.partition=noise", "data.descriptor=values")
# The random clusters of Fig. 1 have no network: all users reach and trust each other.
EVERYBODY_LINKED: Changes = ("sidelink.min_rate_bps=0.0", "trust.min_closeness=0.0")

_SMOKE: Changes = (
    "allocation.method=fixed", "data.num_users=20", "training.model=mlp", "training.rounds=6",
    "training.local_epochs=5", "training.learning_rate=0.1",
)  # fmt: skip
# The paper trains one local epoch and predicts rounds by skew alone.
_AS_PRINTED: Changes = (
    "allocation.method=fixed", "rounds.form=paper", "rounds.fit=mnist-0.95", "rounds.target_accuracy=0.95",
    "training.local_epochs=1", "training.learning_rate=0.05",
)  # fmt: skip
# An upload of VGG-16 or the LSTM costs the farthest user 19 J or 1.1 J; the default budget of a round is 0.05 J.
_FULL: dict[str, Changes] = {
    "mnist": (*_AS_PRINTED, "data.dataset=mnist", "training.rounds=100"),
    "cifar10": (
        *_AS_PRINTED, "data.dataset=cifar10", "data.num_users=50",
        "devices.energy_budget_j=50.0", "training.rounds=100", "training.batch_size=32",
        "training.learning_rate=0.005", "training.precision=bf16", "training.compile=always",
    ),
    "shakespeare": (
        *_AS_PRINTED, "data.dataset=shakespeare", "data.partition=natural", "data.shakespeare.stride=20",
        "clustering.composition=own", "devices.energy_budget_j=5.0", "training.rounds=50",
        "training.learning_rate=0.8",
    ),
}  # fmt: skip
_TRAINED = {
    "mnist": "inputs from 0 to 1: 100 users, all in every round; CNN of 21,840 weights, FedAvg, {epochs}, batch "
    "size 10, learning rate {rates}",
    "cifar10": "50 users, all in every round; VGG-16 with group norm, FedAvg, {epochs}, batch size 32, "
    "learning rate {rates}, bf16; energy budget raised so that every user can upload 14.7 M weights",
    "shakespeare": "100 of the roles with 1,000 characters or more, a sequence at every 20th character; "
    "LSTM of 819,920 weights, FedAvg, {epochs}, batch size 10, learning rate {rates} as in LEAF; tested on the last "
    "fifth of all roles; heads send a random sample under every rule",
}
# How the learning rate of CIFAR-10 was chosen, by momentum.
_RATE_CHOSEN = {
    0.0: "without momentum (the best of five from 0.005 to 0.1 for FedAvg at Dir 0.1: benchmarks/elsewhere.md)",
    0.9: "with momentum 0.9 (of five from 0.00025 to 0.004, best for the test accuracy of FedAvg at Dir 0.1 with seed "
    "0: studies/step, where 0.005 without momentum is as good over two seeds)",
}
# Changes to the task on CIFAR-10: a better step than that of the first runs.
TUNED_RATE: dict[str, Changes] = {"cifar10": ("training.momentum=0.9", "training.learning_rate=0.001")}
_SHARED = (
    "every head sends the same fraction of its samples ({ratios}) to each member, drawn at random, under gain and "
    "blend balanced over classes as far as possible; central sends one set of samples to all users, balanced over "
    "classes if there are classes, as large as what a member receives under DACA, so with far fewer distinct samples"
)
_NETWORK = (
    "preset default: one cell of 1,000 m, 28 GHz sidelink with 12 dB of gain at each end, v_th = 3.5e5 bit/s, "
    "e_th = 0.5, trust uniform in [0, 1]"
)


def task(job: Job, dataset: str, *changes: str, rounds: int | None = None) -> Changes:
    """Return the task on a dataset with changes; `rounds` replaces the dataset's number of rounds at full scale."""
    own_rounds = () if rounds is None else (f"training.rounds={rounds}",)
    return (*job.sized(smoke=_SMOKE, full=(*_FULL[dataset], *own_rounds)), *changes)


def label_skew(share: float = ONE_CLASS_SHARE) -> Changes:
    """Return the changes by which a fraction of users holds one class only."""
    return ("data.partition=label_skew", f"data.label_skew.single_class_share={share}")


def dirichlet(alpha: float) -> Changes:
    """Return the changes by which class proportions are drawn from a Dirichlet distribution."""
    return ("data.partition=dirichlet", f"data.dirichlet.alpha={alpha}")


def shared_by(rule: str, ratio: float = RATIO) -> Changes:
    """Return the changes by which every head sends a fraction of its samples; FedAvg ignores the ratio.

    The rule of a control is a key of `CONTROLS`.
    """
    rule, _, control = rule.partition(" ")
    ratio = RATIO if rule == "none" else ratio
    kind = (f"sharing.kind={KINDS[control]}",) if control else ()
    cap = (f"allocation.max_sharing_ratio={ratio}",) if ratio > RATIO else ()
    ratios = (f"clustering.sharing_ratio={ratio}", f"allocation.fixed.ratio={ratio}")
    return (f"clustering.rule={rule}", *ratios, *cap, *kind)


def scenario(job: Job, *changes: str) -> Scenario:
    """Return the scenario with these changes."""
    return load_scenario(base=job.sized(smoke="digits", full="default"), overrides=changes)


def under_rules(
    job: Job, setting: Changes, rules: Iterable[str], seeds: Sequence[int], ratio: float = RATIO
) -> list[Scenario]:
    """Return the scenarios of a task under several rules and seeds."""
    return [scenario(job, *setting, *shared_by(rule, ratio), f"seed={seed}") for rule in rules for seed in seeds]


def target_of(job: Job, full: float = TARGET) -> float:
    """Return the target accuracy."""
    return job.sized(smoke=SMOKE_TARGET, full=full)


def assumptions(job: Job, runs: Sequence[Trained], **more: str) -> dict[str, str]:
    """Return the assumptions of a result from training runs."""
    by_dataset = {
        dataset: [run for run in runs if run.scenario.data.dataset == dataset]
        for dataset in dict.fromkeys(run.scenario.data.dataset for run in runs)
    }
    trained = {
        f"training on {DATASETS[dataset]}": _trained(dataset, some)
        for dataset, some in by_dataset.items()
        if dataset in _TRAINED
    }
    seeds = {
        DATASETS.get(dataset, dataset): _listed({run.seed for run in some}) for dataset, some in by_dataset.items()
    }
    # Results at several volumes have the same run of FedAvg at each.
    different = {run.scenario.model_dump_json(): run for run in runs}.values()
    smoke = "20 users, digits instead of every dataset, six rounds: the numbers mean nothing"
    same = len(set(seeds.values())) == 1
    return {
        **job.sized(smoke={"training": smoke}, full=trained),
        "sharing": _sharing(runs),
        "network": _NETWORK,
        "seeds": next(iter(seeds.values())) if same else "; ".join(f"{name} {some}" for name, some in seeds.items()),
        "trained on": _counted(map(_machine, different)),
        "trained at commit": _counted(run.made_by.get("commit", "not recorded") for run in different),
        **more,
    }


def _counted(names: Iterable[str]) -> str:
    """List names with the number of runs that have them, most first.

    Example:
        >>> _counted(["CPU", "GPU", "GPU"])
        'GPU (2 runs), CPU (1 run)'
    """
    return ", ".join(f"{name} ({pluralize(count, 'run')})" for name, count in Counter(names).most_common())


def _machine(run: Trained) -> str:
    # Runs on a CPU name its architecture, or nothing.
    device = run.made_by.get("device", "")
    return f"{device if device.startswith('NVIDIA') else 'CPU'}, torch {run.made_by.get('torch')}"


def _trained(dataset: str, runs: Sequence[Trained]) -> str:
    epochs = {run.local_epochs for run in runs}
    words = "one local epoch" if epochs == {1} else f"{_listed(epochs)} local epochs"
    steps = sorted({(run.scenario.training.momentum, run.scenario.training.learning_rate) for run in runs})
    chosen = {momentum: f" {how}" if dataset == "cifar10" else "" for momentum, how in _RATE_CHOSEN.items()}
    rates = ", ".join(f"{rate:g}{chosen[momentum]}" for momentum, rate in steps)
    return _TRAINED[dataset].format(epochs=words, rates=rates)


def _sharing(runs: Sequence[Trained]) -> str:
    fixed = [run.scenario for run in runs if run.rule != "none" and run.scenario.allocation.method == "fixed"]
    ratios = {scenario.allocation.options("allocation", "fixed").ratio for scenario in fixed}
    return _SHARED.format(ratios=_listed(ratios, ".0%")) if ratios else "nothing is shared"


def _listed(values: Iterable[float], form: str = "g") -> str:
    """Format values in ascending order.

    Example:
        >>> _listed({0.1, 0.05}, ".0%")
        '5%, 10%'
    """
    return ", ".join(f"{value:{form}}" for value in sorted(values))
