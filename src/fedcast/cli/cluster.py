"""The command `fedcast cluster`."""

from __future__ import annotations

from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedcast.cli import arguments
from fedcast.cli.output import check_file, plain_table, screen, write_text
from fedcast.cli.remarks import print_assumptions, print_doubts
from fedcast.formatting import pluralize, user_label

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from fedcast.clustering import Clustering, Problem, RuleComparison
    from fedcast.typing import Names

_LISTED = 8


def cluster(
    path: arguments.ScenarioFile = None,
    preset: arguments.Preset = None,
    overrides: arguments.Overrides = None,
    data_dir: arguments.DataDir = None,
    counts: arguments.Counts = None,
    links: arguments.Links = None,
    positions: arguments.Positions = None,
    base_stations: arguments.BaseStations = None,
    devices: arguments.DeviceFile = None,
    rules: Annotated[str | None, typer.Option(help="Rules to compare, separated by commas; default: all.")] = None,
    exact: Annotated[bool, typer.Option(help="Prove the optimum, show gaps to it.")] = True,
    explain: Annotated[str | None, typer.Option(metavar="RULE", help="Explain the choices of this rule.")] = None,
    json: Annotated[Path | None, typer.Option(help="Write all results as JSON; - for standard output.")] = None,
    picture: Annotated[Path | None, typer.Option(help="Draw the clusters of --explain or the scenario's rule.")] = None,
    width: arguments.PictureWidth = "screen",
) -> None:
    """Compare clustering rules: heads, members, skew after sharing, and the gap to the optimum."""
    from fedcast.clustering import compare, find_rule, proving_rule
    from fedcast.clustering import explain as explained
    from fedcast.plan import make_world
    from fedcast.report import check_figure_path, cluster_figure, cluster_map, save_figure
    from fedcast.scenario import named_files

    if picture is not None:
        check_figure_path(picture, width)
    tables = {"links": links, "positions": positions, "base_stations": base_stations, "devices": devices}
    scenario, population = arguments.read_with_counts(path, preset, overrides, counts, **tables)
    check_file("--json", json, [path, counts, *named_files(scenario)])
    named = [*(arguments.words("--rules", rules) if rules is not None else []), *filter(None, [explain])]
    for name in named:
        find_rule(name)
    world = make_world(scenario, data_dir, population)
    names = named if rules is not None else _all_names(world.problem(), named)
    print_doubts(world)
    limit_s = scenario.clustering.options("clustering", proving_rule()).time_limit_s if exact else None
    rows = compare(world.problem(), names, exact_limit_s=limit_s)
    shown_rule = explain or (scenario.clustering.rule if scenario.clustering.rule in names else names[0])
    shown = next(row.clustering for row in rows if row.rule == shown_rule)
    if json is not None:
        users = {} if world.population.names is None else {"names": world.population.names.tolist()}
        content = {
            "comparison": [row.as_dict() for row in rows],
            "explanation": explained(shown).as_dict(),
            "assumptions": world.assumptions,
        }
        write_text(json, dumps(users | content, indent=1, allow_nan=False) + "\n")
    console = screen(json)
    console.print(_table(rows))
    for line in _too_few_users(world.problem()) if rules is None else ():
        console.print(line, style="dim")
    if explain is not None:
        _print_explanation(console, shown, world.population.names)
    print_assumptions(console, world.assumptions)
    if picture is not None:
        places = cluster_map(world.layout, shown, schematic=not world.places_known)
        figure = cluster_figure(places, f"Clusters of rule {shown.rule}")
        console.print(f"\ndrew {save_figure(figure, picture, width)}")


def _all_names(problem: Problem, named: list[str]) -> list[str]:
    """Return all rules for which enough users can share, those that are named, and the scenario's own."""
    from fedcast.clustering import quick_rules
    from fedcast.scenario import BEST_RULE

    own = problem.settings.rule
    return list(dict.fromkeys([*quick_rules(problem), *named, *([own] if own != BEST_RULE else [])]))


def _too_few_users(problem: Problem) -> list[str]:
    """Return a note for each rule that is not compared since it needs more users."""
    from fedcast.clustering import RULES, can_share, least_users

    users, least = can_share(problem), {name: least_users(problem, name) for name in RULES}
    return [
        f"{name} is left out: it needs {need:,} users that can share, there are {users:,}"
        for name, need in least.items()
        if need > users
    ]


def _table(rows: list[RuleComparison]) -> Table:
    table = plain_table(
        "rule", "heads", "members", "A", "B", "C", "JS", "shift", "gap", "Mbit/s", "ASR", "ms",
        padding=(0, 1, 0, 0), pad_edge=True,
        title=f"average EMD before sharing {rows[0].emd_before:.4f}, JS {rows[0].js_before:.4f}",
        caption="heads share clustering.sharing_ratio (a plan chooses); A, B, C: average EMD after sharing, users "
        "weighted by ñ/n, ñ/Σñ, n/Σn; gap: above the optimum (≤: above a proven "
        "bound); Mbit/s: slowest multicast; ASR: average sharing ratio; ms: time to find the clusters; "
        "*: heads send as equal over classes as they can",
    )  # fmt: skip
    for column in table.columns:
        column.no_wrap = True
    for row in rows:
        gap = "" if row.gap is None else f"{'' if row.gap_exact else '≤'}{100 * row.gap:.2f}%"
        rate = "" if row.worst_rate_bps is None else f"{row.worst_rate_bps / 1e6:.2f}"
        table.add_row(
            row.rule + ("*" if row.composition == "balanced" else ""), f"{row.heads:,}", f"{row.members:,}",
            f"{row.emd_after_a:.3f}", f"{row.emd_after_b:.3f}", f"{row.emd_after_c:.3f}", f"{row.js_after:.3f}",
            f"{row.shift:.3f}", gap, rate, f"{row.average_sharing_ratio:.3f}", f"{1e3 * row.seconds:,.0f}",
        )  # fmt: skip
    return table


def _print_explanation(console: Console, clustering: Clustering, names: Names | None) -> None:
    from fedcast.clustering import explain

    explanation = explain(clustering)
    heads = explanation.heads
    if heads:
        console.print(f"\nheads of {clustering.rule}: {heads[0].why}", style="bold")
    for row in heads[:_LISTED]:
        sent = pluralize(round(row.shared), "sample")
        console.print(
            f"  {user_label(row.head, names)}: EMD {row.emd:.3f} (rank {row.emd_rank}), reaches {row.reaches}, "
            f"leads {row.members}, sends {sent}; its members' EMD {row.mean_emd_before:.3f} → {row.mean_emd_after:.3f}",
        )
    if len(heads) > _LISTED:
        console.print(f"  … and {len(heads) - _LISTED} more (--json FILE has them all)")
    left = {status: count for status, count in explanation.counts().items() if count}
    console.print("users: " + ", ".join(f"{count} {status}" for status, count in left.items()))
    for user in explanation.left_out[:_LISTED]:
        console.print(f"  {user_label(user.user, names)} is left out: {user.reason}")
