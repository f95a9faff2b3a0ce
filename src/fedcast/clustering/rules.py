"""The table of clustering rules, and the function that runs one."""

from __future__ import annotations

from dataclasses import replace

from fedcast import registry
from fedcast.clustering.clustering_problem import Problem, Rule
from fedcast.clustering.clustering_result import Clustering
from fedcast.errors import FedcastError

RULES: registry.Values[Rule] = registry.Values("clustering")


def cluster(problem: Problem) -> Clustering:
    """Solve a problem with the rule that its settings name.

    Example:
        >>> from fedcast.clustering.sample_problems import path_problem
        >>> cluster(path_problem([[9, 1], [5, 5], [1, 9]], rule="gain")).head_of.tolist()
        [1, -1, 1]
    """
    name = problem.settings.rule
    found = find_rule(name).choose(with_composition(problem), problem.settings.options("clustering"))
    if not isinstance(found, Clustering):
        raise FedcastError(f"clustering rule {name!r} returned {found!r}: expected a Clustering")
    return found


def find_rule(name: str) -> Rule:
    """Return the rule of that name."""
    rule = registry.find("clustering", name).value
    if not isinstance(rule, Rule):
        raise FedcastError(f"clustering rule {name!r} is {rule!r}: expected a fedcast.clustering.Rule")
    return rule


def allocates(name: str) -> bool:
    """Return whether a rule has volumes to allocate; one that is not installed is taken to have."""
    return name not in RULES or find_rule(name).allocates


def with_composition(problem: Problem, rule: str | None = None) -> Problem:
    """Return the problem for a given rule (default: its own) with composition ``auto`` replaced by the rule's own.

    Where the descriptor does not show labels (`Problem.one_hot` is false) a head can only send a random part, so
    ``auto`` means ``own`` there, and ``balanced`` is an error.
    """
    name = problem.settings.rule if rule is None else rule
    composition = problem.settings.composition
    if composition == "balanced" and not problem.one_hot:
        raise FedcastError(
            "invalid value 'balanced' for clustering.composition: it needs a descriptor that shows labels "
            "(data.descriptor = classes); use own or auto"
        )
    if composition == "auto":
        composition = find_rule(name).composition if problem.one_hot else "own"
    settings = problem.settings.model_copy(update={"rule": name, "composition": composition})
    return problem if settings == problem.settings else replace(problem, settings=settings)
