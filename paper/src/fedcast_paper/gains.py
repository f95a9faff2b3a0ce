"""Who is ahead of whom, seed by seed, and what a strategy gains over FedAvg."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fedcast.formatting import pluralize
from fedcast_paper.measures import LEVEL
from fedcast_paper.over_seeds import mean_of, side_by_side
from fedcast_paper.result import Answer, Verdict
from fedcast_paper.settings import STRATEGIES
from fedcast_paper.trained import Trained
from fedcast_paper.wording import mean_text, number

if TYPE_CHECKING:
    from fedcast.runs.comparison import PairedTest

ABOVE, NOT_WORSE = "ends above", "is at least as good as"


def ahead_verdicts(
    runs: Sequence[Trained], rule: str, rivals: Iterable[str], where_said: str = "", relation: str = ABOVE
) -> list[Verdict]:
    """Whether a rule ends at a higher accuracy than each rival, by a paired test over seeds.

    Args:
        runs: of all rules.
        rule: the one judged.
        rivals: those without a seed in common are left out.
        where_said: where, for the claim.
        relation: what is claimed. Whether at least as good or better, the test is one: it says yes to what is better,
            no to what is worse, and leaves open what it cannot tell apart.
    """
    tests = {rival: _test(runs, rule, rival, lambda run: 100 * run.accuracy) for rival in rivals}
    return [
        Verdict(
            f"{STRATEGIES[rule]} {relation} {STRATEGIES[rival]}{where_said}",
            answer(test.difference.mean, test.p_value),
            evidence(test, "+z.2f", "points of accuracy"),
        )
        for rival, test in tests.items()
        if test is not None
    ]


def sooner_verdicts(
    runs: Sequence[Trained], rule: str, rivals: Iterable[str], target: float, where_said: str = ""
) -> list[Verdict]:
    """Whether a rule needs fewer rounds to a target than each rival, by a paired test over seeds where both met it."""
    there = {run.rule for run in runs}
    verdicts = []
    for rival in rivals:
        if not {rule, rival} <= there:
            continue
        claim = f"{STRATEGIES[rule]} needs fewer rounds than {STRATEGIES[rival]}{where_said}"
        test = rounds_test(runs, rule, rival, target)
        if test is None:
            met = ", ".join(f"{STRATEGIES[one]} on {_met(runs, one, target)}" for one in (rule, rival))
            verdicts.append(Verdict(claim, "open", f"no seed on which both met the target: {met}"))
        else:
            holds = answer(-test.difference.mean, test.p_value)
            verdicts.append(Verdict(claim, holds, evidence(test, "+z.1f", "rounds")))
    return verdicts


def rounds_test(runs: Iterable[Trained], rule: str, rival: str, target: float) -> PairedTest | None:
    """Rounds of a rule to a target against those of a rival, over the seeds on which both met it."""
    return _test(runs, rule, rival, lambda run: run.rounds_to(target))


def _test(
    runs: Iterable[Trained], rule: str, rival: str, value: Callable[[Trained], float | None]
) -> PairedTest | None:
    from fedcast.runs.comparison import paired_test

    both = [(value(own), value(other)) for own, other in on_common_seeds(runs, rule, rival)]
    pairs = [(own, other) for own, other in both if own is not None and other is not None]
    return paired_test([own for own, _ in pairs], [other for _, other in pairs]) if pairs else None


def _met(runs: Iterable[Trained], rule: str, target: float) -> str:
    rounds = [run.rounds_to(target) for run in runs if run.rule == rule]
    return f"{sum(number is not None for number in rounds)} of {pluralize(len(rounds), 'seed')}"


def on_common_seeds(runs: Iterable[Trained], rule: str, rival: str) -> list[tuple[Trained, Trained]]:
    """Runs of two rules side by side, seed by seed."""
    listed = list(runs)
    own, others = ([run for run in listed if run.rule == one] for one in (rule, rival))
    return side_by_side(own, others)


def evidence(test: PairedTest, form: str, unit: str) -> str:
    """A difference with its interval, the seeds behind it, and the test.

    Example:
        >>> from fedcast.runs.comparison import paired_test
        >>> evidence(paired_test([3.0, 4.0, 6.0], [1.0, 3.0, 3.0]), "+.1f", "rounds")
        '+2.0 ± 2.5 rounds, 3 seeds, paired t test p = 0.074'
    """
    gap = test.difference
    told = number(gap.mean, form, gap.half_width)
    return f"{told} {unit}, {pluralize(gap.count, 'seed')}, {_told('paired t test', test.p_value)}"


def answer(gap: float, p_value: float | None) -> Answer:
    """Yes or no where a test tells a difference from none; open where it does not, or one seed allows no test.

    Example:
        >>> answer(0.4, 0.01), answer(-0.4, 0.01), answer(0.4, 0.3), answer(-0.4, None)
        ('yes', 'no', 'open', 'open')
    """
    if p_value is None or p_value >= LEVEL:
        return "open"
    return "yes" if gap > 0 else "no"


def gains_over(runs: Iterable[Trained], rule: str, baseline: str = "none") -> list[float]:
    """By how many points of accuracy a rule ends above another, on each seed that both have."""
    return [100 * (own.accuracy - other.accuracy) for own, other in on_common_seeds(runs, rule, baseline)]


def larger_gain(gains: Mapping[str, Sequence[float]], place: str = "") -> list[Verdict]:
    """Whether DACA gains more on CIFAR-10 than on MNIST, by Welch's test; partitions of two datasets make no pairs.

    Args:
        gains: points of accuracy on each seed, by dataset.
        place: where, for the claim.
    """
    cifar, mnist = gains.get("cifar10"), gains.get("mnist")
    if not cifar or not mnist:
        return []
    p_value = welch_test(cifar, mnist)
    said = [
        f"{mean_text(some, '+z.2f')} points on {name} ({pluralize(len(some), 'seed')})"
        for some, name in ((cifar, "CIFAR-10"), (mnist, "MNIST"))
    ]
    return [
        Verdict(
            f"gains on CIFAR-10 exceed those on MNIST{place}",
            answer(mean_of(cifar).mean - mean_of(mnist).mean, p_value),
            f"DACA over FedAvg: {', '.join(said)}, {_told('Welch t test', p_value)}",
        )
    ]


def welch_test(first: Sequence[float], second: Sequence[float]) -> float | None:
    """How likely means at least as far apart are by chance; None where one value, or no spread, allows no test.

    Example:
        >>> round(welch_test([8.0, 8.2, 7.9], [0.1, 0.2, 0.0]), 6), welch_test([8.0], [0.1, 0.2])
        (1e-06, None)
    """
    if min(len(first), len(second)) < 2 or np.ptp(first) == np.ptp(second) == 0:
        return None
    from scipy import stats

    return float(stats.ttest_ind(first, second, equal_var=False).pvalue)


def _told(test: str, p_value: float | None) -> str:
    return "no test" if p_value is None else f"{test} p = {p_value:.2g}"


def seeds_told(seeds: Iterable[int]) -> str:
    """How many seeds several strategies have.

    Example:
        >>> seeds_told([5, 5]), seeds_told([3, 1, 0])
        ('5 seeds', '1 to 3 seeds')
    """
    some = sorted({number for number in seeds if number})
    return pluralize(some[0], "seed") if len(some) == 1 else f"{some[0]} to {pluralize(some[-1], 'seed')}"
