"""An import-linter contract: the table of rooms and what each may import directly."""

from __future__ import annotations

from typing import Any

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output


class RoomsContract(Contract):
    """Each line reads ``room <- imports``; ``*`` means any room, and `open_rooms` may be imported by all."""

    rooms = fields.ListField(subfield=fields.StringField())
    open_rooms = fields.StringField()

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:  # noqa: ARG002
        """Compare every direct import inside the package with the table."""
        table = dict(_row(line) for line in self.rooms)  # type: ignore[attr-defined]
        everywhere = {name.strip() for name in self.open_rooms.split(",")}  # type: ignore[attr-defined]
        faults = []
        for module in sorted(graph.modules):
            importer = _room(module)
            if importer is None:
                continue
            if importer not in table:
                faults.append(f"{module} stands in no room of the table")
                continue
            allowed = table[importer]
            for imported in sorted(graph.find_modules_directly_imported_by(module)):
                room = _room(imported)
                if room is None or room == importer or room in allowed | everywhere or "*" in allowed:
                    continue
                faults.append(f"{module} imports {imported}, but {importer} may not import {room}")
        return ContractCheck(kept=not faults, metadata={"faults": faults})

    def render_broken_contract(self, check: Any) -> None:
        """Print one line per fault."""
        for fault in check.metadata["faults"]:
            output.print_error(fault)


def _row(line: str) -> tuple[str, set[str]]:
    room, _, imports = line.partition("<-")
    return room.strip(), {name.strip() for name in imports.split(",") if name.strip()}


def _room(module: str) -> str | None:
    parts = module.split(".")
    return parts[1] if parts[0] == "fedcast" and len(parts) > 1 else None
