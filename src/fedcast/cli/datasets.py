"""fedcast datasets."""

from __future__ import annotations

from fedcast.cli.arguments import DataDir


def datasets(data_dir: DataDir = None) -> None:
    """List the datasets: what is here, its size and its terms."""
    from fedcast.cli.output import plain_table, screen
    from fedcast.data import CATALOGUE, data_folders, presence

    table = plain_table("name", "state", "size", "contents", "terms", numbers=False, header_style="bold")
    for name, entry in CATALOGUE.items():
        found = presence(name, data_dir)
        size = "" if found.megabytes is None else f"{found.megabytes:,.1f} MB"
        table.add_row(name, found.state, size, entry.summary, entry.terms)
    console = screen()
    console.print(table)
    console.print("\nSearched: " + ", then ".join(str(folder) for folder in data_folders(data_dir)), style="dim")
