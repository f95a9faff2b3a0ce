"""Results of reproductions: tables, assumptions and verdicts, stored as JSON with the versions that made them."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from fedcast.errors import FedcastError
from fedcast.io import atomic_write
from fedcast.runs import source_commit, versions

FORMAT = 1
Columns = dict[str, list[Any]]
# partly: in some of the cases; open: inconclusive with these seeds.
Answer = Literal["yes", "partly", "no", "open"]
# Significant digits: more than any use of a result needs, fewer than differ between machines.
_DIGITS = 7


@dataclass(frozen=True)
class Verdict:
    """Verdict on a claim of the paper.

    Attributes:
        claim: the claim.
        holds: the answer.
        evidence: the numbers behind the answer.
        p_value: of the test behind it, for itself alone; None without a test.
    """

    claim: str
    holds: Answer
    evidence: str
    p_value: float | None = None


@dataclass(frozen=True)
class Result:
    """Result that a figure's ``data`` function returns and its ``draw`` function draws.

    Attributes:
        tables: by name; columns of plain values and of equal length.
        scenario: the scenario, section by section; the first one if there are several.
        assumptions: by name: seeds, differences between worlds, and what the paper does not specify.
        verdicts: on the claims that belong to the figure.
        notes: further remarks.
        made_by: versions and commit; empty until it is stored.
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
                raise ValueError(f"table {name}: expected one or more columns of equal length")


def columns_of(rows: Iterable[Mapping[str, Any]]) -> Columns:
    """Convert rows with the same keys to columns of plain values, rounded to the digits that are stored.

    Example:
        >>> columns_of([{"seed": 0, "delay_s": 1 / 3}, {"seed": 1, "delay_s": 2.0}])
        {'seed': [0, 1], 'delay_s': [0.3333333, 2.0]}
    """
    listed = list(rows)
    return {name: [_plain(row[name]) for row in listed] for name in listed[0]}


def where(columns: Columns, **wanted: Any) -> Columns:
    """Return the rows of a table that have the given values.

    Example:
        >>> where({"method": ["jfvo", "saa"], "delay_s": [1.0, 2.0]}, method="saa")
        {'method': ['saa'], 'delay_s': [2.0]}
    """
    names = list(wanted)
    kept = [all(columns[name][row] == wanted[name] for name in names) for row in range(len(columns[names[0]]))]
    return {name: [value for value, keep in zip(column, kept, strict=True) if keep] for name, column in columns.items()}


def result_path(name: str, scale: str, folder: Path) -> Path:
    """Return the file of a stored result."""
    return folder / scale / f"{name}.json"


def save_result(result: Result, name: str, scale: str, folder: Path) -> Result:
    """Store a result with the versions and the commit that made it, and return it with them."""
    stored = replace(result, made_by=origin())
    document = {"format": FORMAT, "id": name, "scale": scale, **asdict(stored)}
    with atomic_write(result_path(name, scale, folder)) as aside:
        aside.write_text(_to_json(document) + "\n", encoding="utf-8")
    return stored


def load_result(name: str, scale: str, folder: Path) -> Result:
    """Read a stored result."""
    path = result_path(name, scale, folder)
    other = "full" if scale == "smoke" else "smoke"
    options = f"--scale {scale}" + ("" if folder == Path("results") else f" --results {folder}")
    command = f"run `fedcast reproduce {name} {options}` to compute it"
    if result_path(name, other, folder).exists():
        command += f", or use --scale {other}, of which there is one"
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FedcastError(f"{path}: no stored result; {command}") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise FedcastError(f"{path}: invalid JSON ({error}); {command}") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT or document.get("id") != name:
        raise FedcastError(f"{path}: expected a result of {name} in format {FORMAT}; {command}")
    verdicts = tuple(Verdict(**verdict) for verdict in document["verdicts"])
    parts = {part: document[part] for part in ("tables", "scenario", "assumptions", "made_by")}
    return Result(**parts, verdicts=verdicts, notes=tuple(document["notes"]))


def _plain(value: Any) -> Any:
    plain = value.item() if hasattr(value, "item") else value
    return float(f"{plain:.{_DIGITS}g}") if isinstance(plain, float) else plain


def _to_json(value: Any, indent: str = "") -> str:
    """Format JSON with a line for each entry of an object and each list on one line, so that diffs are readable."""
    if isinstance(value, list | tuple) and value and isinstance(value[0], dict):
        entries = [f"{indent} {_to_json(item, indent + ' ')}" for item in value]
        return "[\n" + ",\n".join(entries) + f"\n{indent}]"
    if not isinstance(value, dict) or not value:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    entries = [f"{indent} {json.dumps(key)}: {_to_json(item, indent + ' ')}" for key, item in value.items()]
    return "{\n" + ",\n".join(entries) + f"\n{indent}}}"


def origin() -> dict[str, str]:
    """Return the commit of the source and the versions of the packages that determine a result.

    Example:
        >>> list(origin())[:3]
        ['commit', 'python', 'fedcast']
    """
    return {"commit": results_commit(), **versions("cvxpy")}


def results_commit() -> str:
    """Return the commit of fedcast and of this package; ``unknown`` outside of a git checkout."""
    return source_commit(Path(__file__).parent, Path(str(files("fedcast")))) or "unknown"


def processor() -> str:
    """Return the name of the processor of this machine, if it is known."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
