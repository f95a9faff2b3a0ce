"""The table of rules, and how one is run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from fedcast.clustering.blend import blend
from fedcast.clustering.cec import cec
from fedcast.clustering.central import central
from fedcast.clustering.daca import daca
from fedcast.clustering.exact import exact
from fedcast.clustering.gain import gain
from fedcast.clustering.none import none
from fedcast.clustering.problem import Composition, Problem
from fedcast.clustering.random import random
from fedcast.clustering.result import Clustering
from fedcast.clustering.scc import scc
from fedcast.errors import FedcastError


@dataclass(frozen=True)
class Rule:
    """A clustering rule.

    Attributes:
        choose: from a problem to a clustering; the same problem always gives the same one.
        why: what makes a user a head, as the end of "it is a head because it ...".
        composition: what its heads send unless the settings say otherwise.
    """

    choose: Callable[[Problem], Clustering]
    why: str
    composition: Composition = "own"


RULES: dict[str, Rule] = {
    "daca": Rule(daca, "comes next in order of EMD where the graph was not covered yet"),
    "scc": Rule(scc, "has the largest sum of closeness where the graph was not covered yet"),
    "cec": Rule(cec, "has the fastest links on average where the graph was not covered yet"),
    "random": Rule(random, "was drawn by lot"),
    "central": Rule(central, "is none: the server sends"),
    "none": Rule(none, "is none: nobody shares"),
    "gain": Rule(gain, "brings the largest drop of the average EMD, given the heads before it", "balanced"),
    "blend": Rule(blend, "lowers mean JS divergence plus the shift of the overall mixture", "balanced"),
    "exact": Rule(exact, "belongs to a set of heads of least average EMD", "balanced"),
}


def cluster(problem: Problem) -> Clustering:
    """Solve a problem with the rule its settings name.

    Composition ``auto`` becomes the rule's own; where the descriptor does not show labels (`Problem.one_hot` is
    false) a head can only send a random part, so ``auto`` means ``own`` there and ``balanced`` is refused.

    Example:
        >>> from fedcast.clustering.worlds import path_problem
        >>> cluster(path_problem([[9, 1], [5, 5], [1, 9]], rule="gain")).head_of.tolist()
        [1, -1, 1]
    """
    name = problem.settings.rule
    found = find_rule(name).choose(settled(problem))
    if not isinstance(found, Clustering):
        raise FedcastError(f"clustering.rule: {name!r} returned {found!r}; a rule returns a Clustering")
    return found


def find_rule(name: str) -> Rule:
    """The rule of that name."""
    if name not in RULES:
        raise FedcastError(f"clustering.rule: there is no rule {name!r}; choose one of {', '.join(RULES)}")
    rule = RULES[name]
    if not isinstance(rule, Rule):
        raise FedcastError(
            f"clustering.rule: RULES[{name!r}] is {rule!r}, which is no Rule; "
            f"write RULES[{name!r}] = Rule(your_function, 'what makes a user a head')"
        )
    return rule


def settled(problem: Problem, rule: str | None = None) -> Problem:
    """The same problem for a given rule (default: its own) with the composition decided."""
    name = problem.settings.rule if rule is None else rule
    composition = problem.settings.composition
    if composition == "balanced" and not problem.one_hot:
        raise FedcastError(
            "clustering.composition: 'balanced' needs a descriptor that shows labels (data.descriptor = classes); "
            "values and clusters do not: use own or auto"
        )
    if composition == "auto":
        composition = find_rule(name).composition if problem.one_hot else "own"
    settings = problem.settings.model_copy(update={"rule": name, "composition": composition})
    return problem if settings == problem.settings else replace(problem, settings=settings)
