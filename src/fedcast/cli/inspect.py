"""fedcast inspect."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedcast.cli.arguments import Counts, DataDir, Overrides, PictureWidth, Preset, ScenarioFile, read_with_counts

if TYPE_CHECKING:
    from rich.table import Table

    from fedcast.data import Population, Skew

Picture = Annotated[Path | None, typer.Option(help="Draw samples per class and user: .png, .svg or .pdf.")]


def inspect(
    path: ScenarioFile = None,
    preset: Preset = None,
    overrides: Overrides = None,
    data_dir: DataDir = None,
    counts: Counts = None,
    picture: Picture = None,
    width: PictureWidth = "screen",
) -> None:
    """Show how data are spread over users, and how skewed they are."""
    from fedcast.cli.output import screen
    from fedcast.data import describe, make_population, skew_of
    from fedcast.report import check_figure_path, class_dots, class_dots_figure, save_figure

    if picture is not None:
        check_figure_path(picture, width)
    scenario, population = read_with_counts(path, preset, overrides, counts)
    if population is None:
        population = make_population(scenario.data, scenario.seed, data_dir)
    skew = skew_of(describe(population, scenario.data, scenario.seed))
    title = f"{scenario.data.dataset}, {scenario.data.partition}" if counts is None else counts.name
    console = screen()
    console.print(_summary(title, population, skew))
    if picture is not None:
        dots = class_dots(population.counts, skew.emd, population.class_names, names=population.names)
        figure = class_dots_figure(dots, f"Samples per class and user: {title}")
        console.print(f"\ndrew {save_figure(figure, picture, width)}")


def _summary(title: str, population: Population, skew: Skew) -> Table:
    from fedcast.cli.output import QUANTILES, plain_table, quantile_row
    from fedcast.data import average_emd, average_js, average_kl, js_divergence, kl_divergence

    held = (population.counts > 0).sum(axis=1)
    given = int(population.sizes.sum())
    left = 0 if population.dataset is None else len(population.dataset) - given
    caption = (
        f"{population.num_users:,} users hold {given:,} samples"
        + (f", {left:,} go to nobody" if left else "")
        + "; averages of D_EMD, KL and JS are weighted by size"
    )
    table = plain_table("", *QUANTILES, "average", title=title, caption=caption)
    rows = (
        ("samples of a user", population.sizes, f"{population.sizes.mean():,.1f}", ",.0f"),
        ("classes of a user", held, f"{held.mean():.1f}", ".0f"),
        ("D_EMD (0 to 2)", skew.emd, f"{average_emd(skew):.3f}", ".3f"),
        ("KL, nats", kl_divergence(skew.distributions, skew.global_distribution), f"{average_kl(skew):.3f}", ".3f"),
        ("JS, nats", js_divergence(skew.distributions, skew.global_distribution), f"{average_js(skew):.3f}", ".3f"),
    )
    for name, values, average, form in rows:
        table.add_row(name, *quantile_row(values, form), average)
    return table
