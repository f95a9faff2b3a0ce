"""What a reproduction brings: plain tables, every assumption behind them, what follows; kept as small JSON files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from fedcast.errors import FedcastError
from fedcast.io import atomic_write
from fedcast_paper.origin import origin

FORMAT = 1
Columns = dict[str, list[Any]]
# partly: in some of what was looked at; open: the seeds there are do not settle it.
Answer = Literal["yes", "partly", "no", "open"]
# Enough for every use of a result; what computers disagree on lies behind it.
_DIGITS = 7


@dataclass(frozen=True)
class Verdict:
    """Whether something that the paper claims was seen here.

    Attributes:
        claim: the paper's, in a sentence.
        holds: the answer.
        evidence: the numbers behind it, in a sentence.
    """

    claim: str
    holds: Answer
    evidence: str


@dataclass(frozen=True)
class Result:
    """What a data function returns and a renderer draws.

    Attributes:
        tables: by name; columns of equal length, of plain values.
        scenario: that was run, section by section; of the first world, where there are several.
        assumptions: by name: seeds, what differs between worlds, and what the paper leaves open.
        verdicts: on the claims that go with it.
        notes: what else a reader should know.
        made_by: versions and commit, once it has been stored.
    """

    tables: Mapping[str, Columns]
    scenario: Mapping[str, Any]
    assumptions: Mapping[str, Any]
    verdicts: tuple[Verdict, ...] = ()
    notes: tuple[str, ...] = ()
    made_by: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, columns in self.tables.items():
            if len({len(column) for column in columns.values()}) != 1:
                raise ValueError(f"table {name}: its columns differ in length, or there are none")


def columns_of(rows: Iterable[Mapping[str, Any]]) -> Columns:
    """Rows with the same keys as columns of plain values, numbers rounded to what is stored.

    Example:
        >>> columns_of([{"seed": 0, "delay_s": 1 / 3}, {"seed": 1, "delay_s": 2.0}])
        {'seed': [0, 1], 'delay_s': [0.3333333, 2.0]}
    """
    listed = list(rows)
    return {name: [_plain(row[name]) for row in listed] for name in listed[0]}


def where(columns: Columns, **wanted: Any) -> Columns:
    """The rows of a table that have the wanted values.

    Example:
        >>> where({"method": ["jfvo", "saa"], "delay_s": [1.0, 2.0]}, method="saa")
        {'method': ['saa'], 'delay_s': [2.0]}
    """
    names = list(wanted)
    kept = [all(columns[name][row] == wanted[name] for name in names) for row in range(len(columns[names[0]]))]
    return {name: [value for value, keep in zip(column, kept, strict=True) if keep] for name, column in columns.items()}


def result_path(name: str, scale: str, folder: Path) -> Path:
    """Where a result is stored."""
    return folder / scale / f"{name}.json"


def save_result(result: Result, name: str, scale: str, folder: Path) -> Result:
    """Store a result with the versions and the commit that made it, and return it with them."""
    stored = replace(result, made_by=origin())
    document = {"format": FORMAT, "id": name, "scale": scale, **asdict(stored)}
    with atomic_write(result_path(name, scale, folder)) as aside:
        aside.write_text(_text(document) + "\n", encoding="utf-8")
    return stored


def load_result(name: str, scale: str, folder: Path) -> Result:
    """Read a stored result."""
    path = result_path(name, scale, folder)
    way_out = f"`fedcast reproduce {name} --scale {scale}` makes it"
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FedcastError(f"{path}: no stored result; {way_out}") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise FedcastError(f"{path}: damaged ({error}); {way_out}") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT or document.get("id") != name:
        raise FedcastError(f"{path}: holds no result of {name} in format {FORMAT}; {way_out}")
    verdicts = tuple(Verdict(**verdict) for verdict in document["verdicts"])
    parts = {part: document[part] for part in ("tables", "scenario", "assumptions", "made_by")}
    return Result(**parts, verdicts=verdicts, notes=tuple(document["notes"]))


def _plain(value: Any) -> Any:
    plain = value.item() if hasattr(value, "item") else value
    return float(f"{plain:.{_DIGITS}g}") if isinstance(plain, float) else plain


def _text(value: Any, indent: str = "") -> str:
    """JSON with a line for each entry of an object, and a list in one line: columns can be read and compared."""
    if isinstance(value, list | tuple) and value and isinstance(value[0], dict):
        entries = [f"{indent} {_text(item, indent + ' ')}" for item in value]
        return "[\n" + ",\n".join(entries) + f"\n{indent}]"
    if not isinstance(value, dict) or not value:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    entries = [f"{indent} {json.dumps(key)}: {_text(item, indent + ' ')}" for key, item in value.items()]
    return "{\n" + ",\n".join(entries) + f"\n{indent}}}"
