"""Who is ahead of whom, seed by seed, and what a strategy gains over FedAvg."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from fedcast.study.reproduce.measures import LEVEL
from fedcast.study.reproduce.over_seeds import mean_of
from fedcast.study.reproduce.result import Answer, Columns, Verdict
from fedcast.study.reproduce.settings import STRATEGIES
from fedcast.study.reproduce.trained import Trained


def ahead_verdicts(runs: Iterable[Trained], rule: str, rivals: Sequence[str], where_said: str = "") -> list[Verdict]:
    """Whether a rule ends at a higher accuracy than each rival, by a paired test over seeds."""
    listed = list(runs)
    verdicts = (_ahead(listed, rule, rival, where_said) for rival in rivals)
    return [verdict for verdict in verdicts if verdict is not None]


def _ahead(runs: list[Trained], rule: str, rival: str, where_said: str) -> Verdict | None:
    pairs = accuracy_pairs(runs, rule, rival)
    if not pairs:
        return None
    from fedcast.study.compare import paired_test

    found = paired_test([one for one, _ in pairs], [other for _, other in pairs])
    gap = mean_of(one - other for one, other in pairs)
    points = f"{100 * gap.mean:+.2f}" + ("" if gap.half_width is None else f" ± {100 * gap.half_width:.2f}")
    tested = "no test" if found.p_value is None else f"paired t test p = {found.p_value:.2g}"
    return Verdict(
        f"{STRATEGIES[rule]} ends above {STRATEGIES[rival]}{where_said}",
        answer(gap.mean, found.p_value),
        f"{points} points of accuracy, {seed_count(gap.seeds)}, {tested}",
    )


def answer(gap: float, p_value: float | None) -> Answer:
    """Yes or no where a test tells a difference from none; open where it does not, or one seed allows no test.

    Example:
        >>> answer(0.4, 0.01), answer(-0.4, 0.01), answer(0.4, 0.3), answer(-0.4, None)
        ('yes', 'no', 'open', 'open')
    """
    if p_value is None or p_value >= LEVEL:
        return "open"
    return "yes" if gap > 0 else "no"


def accuracy_pairs(runs: Iterable[Trained], rule: str, rival: str) -> list[tuple[float, float]]:
    """Final accuracies of two rules on the seeds that both have."""
    listed = list(runs)
    own = {run.seed: run.accuracy for run in listed if run.rule == rule}
    other = {run.seed: run.accuracy for run in listed if run.rule == rival}
    return [(own[seed], other[seed]) for seed in sorted(own.keys() & other.keys())]


def gain_over(ends: Columns, rule: str, baseline: str = "none") -> float | None:
    """Mean accuracy of a rule above that of another; None where one is missing.

    Example:
        >>> round(gain_over({"rule": ["none", "daca"], "accuracy": [0.9, 0.95]}, "daca"), 3)
        0.05
    """
    accuracy = dict(zip(ends["rule"], ends["accuracy"], strict=True))
    both = rule in accuracy and baseline in accuracy
    return accuracy[rule] - accuracy[baseline] if both else None


def larger_gain(gains: Mapping[str, float | None], place: str = "", seeds: int = 1) -> list[Verdict]:
    """Whether DACA gains more on CIFAR-10 than on MNIST, in points of accuracy; with one seed it stays partly."""
    cifar, mnist = gains.get("cifar10"), gains.get("mnist")
    if cifar is None or mnist is None:
        return []
    return [
        Verdict(
            f"gains on CIFAR-10 exceed those on MNIST{place}",
            "no" if cifar <= mnist else "yes" if seeds > 1 else "partly",
            f"DACA over FedAvg: {cifar:+.2f} points on CIFAR-10 ({seed_count(seeds)}), {mnist:+.2f} on MNIST",
        )
    ]


def seed_count(seeds: int) -> str:
    """In words.

    Example:
        >>> seed_count(1), seed_count(3)
        ('1 seed', '3 seeds')
    """
    return f"{seeds} seed" if seeds == 1 else f"{seeds} seeds"
