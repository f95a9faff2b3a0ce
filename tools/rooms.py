"""Import-linter contracts: which room may import which, and only through its ``__init__``."""

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


class InterfaceContract(Contract):
    """A module imports another room through its ``__init__``: ``fedcast.io``, not ``fedcast.io.atomic``.

    Modules of `open_rooms` may be imported directly. Each line of `allowed` reads ``module number``: so many imports of
    that module by other rooms are still to be changed. A line without any such import is a fault.
    """

    allowed = fields.ListField(subfield=fields.StringField(), required=False)
    open_rooms = fields.StringField()

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:  # noqa: ARG002
        """Count the imports past an ``__init__`` and compare them with the allowed numbers."""
        everywhere = {name.strip() for name in self.open_rooms.split(",")}  # type: ignore[attr-defined]
        lines: list[str] = self.allowed or []  # type: ignore[assignment]
        allowed = {module: int(number) for module, number in map(str.split, lines)}
        importers: dict[str, list[str]] = {module: [] for module in allowed}
        for module in sorted(graph.modules - {"fedcast"}):
            for imported in graph.find_modules_directly_imported_by(module):
                if imported.count(".") > 1 and _room(imported) not in {_room(module), None} | everywhere:
                    importers.setdefault(imported, []).append(module)
        faults = []
        for imported, modules in sorted(importers.items()):
            if not modules:
                faults.append(f"allowed: no other room imports {imported}; remove the line")
            elif len(modules) > allowed.get(imported, 0):
                faults.append(f"import from fedcast.{_room(imported)}, not {imported}: {', '.join(modules)}")
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
