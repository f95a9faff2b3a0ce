"""fedcast plugins."""

from __future__ import annotations

from fedcast.cli.arguments import Overrides, Preset, ScenarioFile, read_scenario


def plugins(path: ScenarioFile = None, preset: Preset = None, overrides: Overrides = None) -> None:
    """List everything that a scenario can choose by name: what it does, where it comes from, its options.

    Plug-in files that the scenario names are run: use only files that you trust.
    """
    from fedcast.cli.output import plain_table, screen
    from fedcast.registry import KINDS, choices, option_fields

    scenario = read_scenario(path, preset, overrides)
    console = screen()
    for kind, known in KINDS.items():
        chosen = getattr(getattr(scenario, known.section), known.key)
        table = plain_table("name", "what it does", "options", "origin", numbers=False)
        for choice in choices(kind):
            options = [f"{name} = {field.default}" for name, field in option_fields(choice.options).items()]
            name = f"{choice.name} *" if choice.name == chosen else choice.name
            table.add_row(name, choice.summary, ", ".join(options), choice.origin)
        console.print(f"{known.noun}, {known.section}.{known.key}", style="bold")
        console.print(table, "")
    console.print("* chosen. Options are keys of the table [section.name]; `fedcast init` explains them.", style="dim")
