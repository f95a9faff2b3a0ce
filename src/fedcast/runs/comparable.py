"""Groups of runs that can be compared: what varies between runs, other than strategy and seed."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedcast import registry
from fedcast.errors import FedcastError
from fedcast.formatting import setting_text
from fedcast.runs.stored_run import FailedRun, RunsLike, StoredRun, as_runs
from fedcast.scenario import BEST_RULE, NOT_DECIDING, Scenario, flat_values

# Folders of one scenario that an error lists.
_FOLDERS_NAMED = 12
# What makes a strategy, and the seed. Plug-in files may lie elsewhere for each run.
_MAY_DIFFER = {
    "seed", "plugins", "clustering.rule", "allocation.method", "training.algorithm", "sharing.kind",
    *map(".".join, NOT_DECIDING),
}  # fmt: skip
_EPOCHS = "training.local_epochs"

Run = StoredRun | FailedRun


@dataclass(frozen=True, eq=False)
class Facet:
    """Runs that differ only in strategy and seed, and in settings that were tuned."""

    values: Mapping[str, Any]  #: of the parameters that differ between facets, by dotted key
    runs: Sequence[StoredRun]
    failed: Sequence[FailedRun] = ()

    @property
    def name(self) -> str:
        """Return the values as text; empty if there is one facet."""
        return facet_name(self.values)


def facet_name(values: Mapping[str, Any]) -> str:
    """Return values by key as text.

    Example:
        >>> facet_name({"data.dirichlet.alpha": 0.1, "training.rounds": 60})
        'data.dirichlet.alpha = 0.1, training.rounds = 60'
    """
    return ", ".join(f"{key} = {setting_text(value)}" for key, value in values.items())


def facets(runs: RunsLike, failed: Iterable[FailedRun] = (), tuned: Collection[str] = ()) -> list[Facet]:
    """Group runs that can be compared with each other, in the order of what varies between groups.

    An option of a choice, such as ``clustering.blend.shift_weight``, decides nothing in runs that choose another: these
    are part of the facets of all its values. Settings that were `tuned` for each strategy, by dotted key, do not
    separate runs. Where some runs give local epochs as a number and others leave the choice to their plan, those are
    part of the strategy.
    """
    runs, failed = as_runs(runs), list(failed)
    everyone: list[Run] = [*runs, *failed]
    left_out = {*tuned, *([_EPOCHS] if gives_epochs(everyone) else [])}
    settings = [{key: value for key, value in _settings(run).items() if key not in left_out} for run in everyone]
    varied = [key for key in dict.fromkeys(key for one in settings for key in one) if _differs(key, everyone, settings)]
    # Values that vary and decide each run, as JSON.
    own = [
        {key: json.dumps(one.get(key, _default(key))) for key in varied if decides(run.scenario, key)}
        for run, one in zip(everyone, settings, strict=True)
    ]
    groups = []
    for values in _combinations(own, varied):
        inside = {id(run) for run, one in zip(everyone, own, strict=True) if one.items() <= values.items()}
        shown = {key: json.loads(value) for key, value in values.items()}
        finished = [run for run in runs if id(run) in inside]
        groups.append(Facet(shown, finished, [one for one in failed if id(one) in inside]))
    return sorted(groups, key=lambda one: [_place(value) for value in one.values.values()])


def check_comparable(runs: Sequence[StoredRun], tuned: Collection[str] = ()) -> None:
    """Raise an error that lists the groups of comparable runs, if there are several."""
    if not runs:
        raise FedcastError("no runs to compare")
    groups = facets(runs, tuned=tuned)
    if len(groups) == 1:
        return
    groups.sort(key=lambda group: runs.index(group.runs[0]))
    first, second, *_ = groups
    key = next(key for key in first.values if second.values[key] != first.values[key])
    one, other = first.runs[0], next(run for run in second.runs if run not in first.runs)
    raise FedcastError(
        f"{other.folder}: {key} = {setting_text(second.values[key])}, but {one.folder} has "
        f"{setting_text(first.values[key])}; runs that are compared may differ only in rule, method, algorithm, kind "
        "of sharing and seed. Give the folders of one group:\n" + "\n".join(_folders(group.runs) for group in groups)
    )


def gives_epochs(runs: Iterable[Run]) -> bool:
    """Return whether some runs give local epochs as a number and others leave the choice to their plan."""
    return mixes_epochs([run.scenario for run in runs])


def mixes_epochs(scenarios: Iterable[Scenario]) -> bool:
    """Return the same of scenarios."""
    return len({isinstance(scenario.training.local_epochs, int) for scenario in scenarios}) > 1


def setting(scenario: Scenario, key: str) -> Any:
    """Return the value of a parameter or option by dotted key, also where it is the default of an option."""
    return flat_values(scenario).get(key, _default(key))


def cell(value: Any) -> Any:
    """Return a value for a table, which has no lists."""
    return json.dumps(value) if isinstance(value, list | tuple) else value


def stacked(found: Sequence[Facet], table_of: Callable[[Facet], dict[str, list[Any]]]) -> dict[str, list[Any]]:
    """Return the tables of all facets that have runs as one, with columns of what varies in front."""
    return stack_tables((facet.values, table_of(facet)) for facet in found if facet.runs)


def stack_tables(tables: Iterable[tuple[Mapping[str, Any], dict[str, list[Any]]]]) -> dict[str, list[Any]]:
    """Return tables as one, each with columns of values in front; a column that a table lacks is empty."""
    columns: dict[str, list[Any]] = {}
    total = 0
    for values, table in tables:
        rows = len(next(iter(table.values()), []))
        own = {key: [cell(value)] * rows for key, value in values.items()} | table
        for key in dict.fromkeys([*columns, *own]):
            columns.setdefault(key, [None] * total).extend(own.get(key, [None] * rows))
        total += rows
    return columns


def _settings(run: Run) -> dict[str, Any]:
    """Return what decides a run, by dotted key, without strategy and seed, and without options at their default."""
    values = flat_values(run.scenario)
    # The table of a plug-in that is not loaded holds defaults, too, but only in runs that choose it.
    known: Mapping[str, Any] = getattr(run, "plugin_options", {})
    usual = {key for key, (default, _) in known.items() if values.get(key) == default}
    kept = {
        key: value for key, value in values.items() if key not in _MAY_DIFFER | usual and decides(run.scenario, key)
    }
    return {key: "unset" if value is None else value for key, value in kept.items()}


def decides(scenario: Scenario, key: str) -> bool:
    """Return whether a parameter can change a run: an option of a choice does so only if the scenario makes it."""
    choice = choice_of(key)
    if choice is None:
        return True
    known = registry.KINDS[choice.kind]
    chosen = getattr(getattr(scenario, known.section), known.key)
    return chosen == choice.name or (choice.kind == "clustering" and chosen == BEST_RULE)


def choice_of(key: str) -> registry.Choice | None:
    """Return the choice that an option belongs to, by dotted key; None: it is none, or unknown here."""
    section, *rest = key.split(".")
    return registry.find_in_section(section, rest[0]) if len(rest) == 2 else None


def _differs(key: str, runs: Sequence[Run], settings: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether runs that a parameter decides have different values of it."""
    default = _default(key)
    found = {
        json.dumps(one.get(key, default))
        for run, one in zip(runs, settings, strict=True)
        if key in one or decides(run.scenario, key)
    }
    return len(found) > 1


def _combinations(own: Sequence[Mapping[str, str]], varied: Sequence[str]) -> list[dict[str, str]]:
    """Return the values of each facet: those of runs that all parameters decide; without any, all combinations."""
    whole = {tuple(one[key] for key in varied) for one in own if len(one) == len(varied)}
    if not whole:
        whole = set(itertools.product(*({one[key] for one in own if key in one} for key in varied)))
    return [dict(zip(varied, values, strict=True)) for values in sorted(whole)]


def _default(key: str) -> Any:
    """Return the default of an option; None: it is unknown here."""
    choice = choice_of(key)
    return None if choice is None else getattr(choice.options(), key.rpartition(".")[2], None)


def _place(value: Any) -> tuple[bool, float, str]:
    """Return a sort key: numbers by size, others as text."""
    is_number = isinstance(value, int | float)
    return not is_number, float(value) if is_number else 0.0, str(value)


def _folders(runs: Sequence[StoredRun]) -> str:
    names, more = [str(run.folder) for run in runs[:_FOLDERS_NAMED]], len(runs) - _FOLDERS_NAMED
    return f"  {' '.join(names)}" + (f" and {more} more" if more > 0 else "")
