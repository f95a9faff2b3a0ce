"""fedcast plugins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedcast.cli.options import Overrides, Preset, ScenarioFile, read_scenario

if TYPE_CHECKING:
    from fedcast.registry import Choice


def plugins(path: ScenarioFile = None, preset: Preset = None, overrides: Overrides = None) -> None:
    """List everything that a scenario can choose by name: what it does, where it comes from, its options.

    Plug-in files that the scenario names are run: use only files that you trust.
    """
    from rich.table import Table

    from fedcast.cli.output import screen
    from fedcast.registry import KINDS, choices

    scenario = read_scenario(path, preset, overrides)
    console = screen()
    for kind, known in KINDS.items():
        chosen = getattr(getattr(scenario, known.section), known.key)
        table = Table("name", "what it does", "options", "origin", box=None, header_style="dim", pad_edge=False)
        for choice in choices(kind):
            name = f"[bold]{choice.name}[/] *" if choice.name == chosen else choice.name
            table.add_row(name, choice.summary, _options(choice), choice.origin)
        console.print(f"[bold]{known.noun}[/], {known.section}.{known.key}")
        console.print(table, "")
    console.print("* chosen. Options are keys of the table [section.name]; `fedcast init` explains them.", style="dim")


def _options(choice: Choice) -> str:
    from fedcast.registry import option_fields

    return ", ".join(f"{name} = {field.default}" for name, field in option_fields(choice.options).items())
