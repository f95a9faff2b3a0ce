"""Everything that a scenario chooses by name: clustering rules, allocation methods, algorithms, partitions and more.

A choice is found the same way wherever it comes from: built in (`BUILT_IN`), an installed package (entry point group
``fedcast.plugins``), or a Python file that the scenario names (``plugins = ["mine.py"]``). A plug-in calls `register`
when it is imported.

Options of a choice are a frozen dataclass whose fields are made by `option`. They need no pydantic, since training on
another machine loads them with PyTorch and NumPy alone; `fedcast.scenario` validates them.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import importlib.util
import logging
import re
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from types import CodeType, FrameType, UnionType
from typing import Any, Literal, Protocol, TypeVar, Union, get_args, get_origin, get_type_hints

from fedcast.errors import FedcastError
from fedcast.formatting import did_you_mean, similar_name
from fedcast.text_files import read_bytes

_log = logging.getLogger(__name__)

_MOST_BYTES = 2**24  # of a plug-in file

# The code of a model file, `training.model_file`, runs in a module of this name.
MODEL_FILE_MODULE = "fedcast_model_file"


@dataclass(frozen=True)
class Kind:
    """A kind of choice."""

    section: str  #: section of the scenario that names the choice and holds its option tables
    key: str  #: parameter of that section that names the choice
    noun: str  #: what one of them is called in messages


KINDS = {
    "clustering": Kind("clustering", "rule", "clustering rule"),
    "allocation": Kind("allocation", "method", "allocation method"),
    "algorithm": Kind("training", "algorithm", "algorithm"),
    "upload": Kind("training", "upload", "kind of upload"),
    "model": Kind("training", "model", "model"),
    "partition": Kind("data", "partition", "partition"),
    "dataset": Kind("data", "dataset", "dataset"),
    "sharing": Kind("sharing", "kind", "kind of sharing"),
}

# Modules are named as text, so that looking up a name imports the one module that defines it.
BUILT_IN: dict[str, dict[str, str]] = {
    "clustering": {
        name: f"fedcast.clustering.{'random_clusters' if name == 'random' else name}:RULE"
        for name in ("daca", "scc", "cec", "random", "central", "none", "gain", "blend", "exact")
    },
    "allocation": {
        name: f"fedcast.allocation.{name}:METHOD" for name in ("jfvo", "jfvo_literal", "smm", "saa", "fixed", "oracle")
    },
    "algorithm": {
        name: f"fedcast.training.algorithms.{name}:ALGORITHM"
        for name in ("fedavg", "fedprox", "scaffold", "fednova", "feddyn", "fedavgm", "fedadam", "fedyogi")
    },
    "upload": {name: f"fedcast.training.uploads:{name.upper()}" for name in ("full", "quantized", "top_k")},
    "model": {
        "mlp": "fedcast.training.models:MLP",
        "small_cnn": "fedcast.training.models:SMALL_CNN",
        "cnn": "fedcast.training.models:CNN",
        "lenet5": "fedcast.training.models:LENET5",
        "vgg16": "fedcast.training.models:VGG16",
        "resnet18": "fedcast.training.models:RESNET18",
        "lstm": "fedcast.training.models:CHAR_LSTM",
        "transformer": "fedcast.training.models:CHAR_TRANSFORMER",
    },
    "partition": {
        name: f"fedcast.data.partitions.{name}:PARTITION"
        for name in ("label_skew", "dirichlet", "shards", "quantity", "natural", "iid", "indices", "noise", "concept")
    },
    "dataset": {
        "digits": "fedcast.data.digits:DATASET",
        "mnist": "fedcast.data.mnist:DATASET",
        "fashion_mnist": "fedcast.data.fashion_mnist:DATASET",
        "emnist": "fedcast.data.emnist:DATASET",
        "femnist": "fedcast.data.femnist:DATASET",
        "cifar10": "fedcast.data.cifar10:DATASET",
        "cifar100": "fedcast.data.cifar100:DATASET",
        "shakespeare": "fedcast.data.shakespeare:DATASET",
        "tiny_shakespeare": "fedcast.data.shakespeare:TINY_DATASET",
        "file": "fedcast.data.own:DATASET",
        "synthetic": "fedcast.data.population:SYNTHETIC_DATASET",
    },
    "sharing": {
        **{name: f"fedcast.sharing.{name}:SHARING" for name in ("raw", "mixed", "prototypes", "synthetic")},
        "work_control": "fedcast.sharing.controls:WORK",
        "epochs_control": "fedcast.sharing.controls:EPOCHS",
    },
}


@dataclass(frozen=True)
class NoOptions:
    """The options of a choice that has none."""


class Plugin(Protocol):
    """Attributes that a choice of any kind declares."""

    @property
    def summary(self) -> str:
        """One line that says what it does."""
        ...

    @property
    def options(self) -> type[Any]:
        """The frozen dataclass of its options; `NoOptions` if it has none."""
        ...


@dataclass(frozen=True)
class Choice:
    """A registered choice."""

    kind: str  #: key of `KINDS`
    name: str  #: under which scenarios name it
    value: Any  #: what the kind's room works with, for example a `fedcast.clustering.Rule`
    origin: str  #: where it comes from (``built in``, a package with its version, or a file)
    module: str = ""  #: the module that registered it; empty if it is neither a package's nor a file

    @property
    def summary(self) -> str:
        """One line that says what it does."""
        return str(self.value.summary)

    @property
    def options(self) -> type[Any]:
        """The dataclass of its options."""
        options: type[Any] = self.value.options
        return options


def option(
    default: Any,
    description: str,
    *,
    ge: float | None = None,
    gt: float | None = None,
    le: float | None = None,
    lt: float | None = None,
) -> Any:
    """Declare a field of an options dataclass: its default, what it means, and its range.

    Example:
        >>> @dataclass(frozen=True)
        ... class Options:
        ...     weight: float = option(0.01, "weight of the proximal term", ge=0)
        >>> Options().weight
        0.01
    """
    limits = {"ge": ge, "gt": gt, "le": le, "lt": lt}
    limits = {name: limit for name, limit in limits.items() if limit is not None}
    return dataclasses.field(default=default, metadata={"description": description, "limits": limits})


T = TypeVar("T")


class Values(Mapping[str, T]):
    """Values of all choices of a kind, by name. It reads the registry, so loaded plug-ins appear in it."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __getitem__(self, name: str) -> T:
        if name not in names(self.kind):
            raise KeyError(name)
        value: T = find(self.kind, name).value
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(names(self.kind))

    def __len__(self) -> int:
        return len(names(self.kind))


_registered: dict[tuple[str, str], Choice] = {}
_loaded_files: dict[Path, str] = {}
_origin, _module = "registered by Python code", ""


def register(kind: str, name: str, value: Plugin) -> None:
    """Make a choice available under a name; plug-ins call this when they are imported.

    Args:
        kind: one of `KINDS`.
        name: lower-case letters, digits and underscores; unique among the choices of a section.
        value: what the kind's room works with; it has `summary` and `options`.
    """
    known = _kind(kind)
    if not isinstance(name, str) or not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise FedcastError(f"plug-in {name!r}: expected a name of lower-case letters, digits and underscores")
    if name == "auto" or name in [KINDS[other].key for other in kinds_of(known.section)]:
        raise FedcastError(f"plug-in {name!r}: a reserved name in [{known.section}]; choose another")
    for needed in ("summary", "options"):
        if not hasattr(value, needed):
            raise FedcastError(f"plug-in {name!r}: a {known.noun} has no {needed}: {value!r}")
    if problem := _problem_of(value.options):
        raise FedcastError(f"plug-in {name!r}: {problem}")
    for other in kinds_of(known.section):
        taken = _registered.get((other, name))
        if name in BUILT_IN[other] or (taken is not None and (other != kind or taken.origin != _origin)):
            found = f"{KINDS[other].noun} {name!r} exists already ({taken.origin if taken else 'built in'})"
            raise FedcastError(f"plug-in {name!r}: {found}; choose another name")
    _registered[kind, name] = Choice(kind, name, value, _origin, _module)


def find(kind: str, name: str) -> Choice:
    """Return the choice of that kind and name, or explain which there are.

    Example:
        >>> find("clustering", "blend").origin
        'built in'
    """
    known = _kind(kind)
    if name in BUILT_IN[kind]:
        return _built_in(kind, name)
    load_packages()
    if (kind, name) in _registered:
        return _registered[kind, name]
    raise FedcastError(f"invalid value {name!r} for {known.section}.{known.key}: {unknown_name(kind, name)}")


def unknown_name(kind: str, name: str) -> str:
    """Return the message on a name that no choice of a kind has: the most similar name, and all names."""
    known = names(kind)
    choose = f"choose one of {', '.join(known)}, or name a plug-in file in plugins"
    return f"no such {KINDS[kind].noun}{did_you_mean(similar_name(name, known), choose)}"


def names(kind: str) -> list[str]:
    """Return the names of all choices of a kind, built-in ones first.

    Example:
        >>> names("sharing")
        ['raw', 'mixed', 'prototypes', 'synthetic', 'work_control', 'epochs_control']
    """
    load_packages()
    return [*BUILT_IN[kind], *(name for other, name in _registered if other == kind)]


def choices(kind: str) -> list[Choice]:
    """Return all choices of a kind, built-in ones first."""
    return [find(kind, name) for name in names(kind)]


def kinds_of(section: str) -> list[str]:
    """Return the kinds whose option tables stand in a section of the scenario.

    Example:
        >>> kinds_of("data")
        ['partition', 'dataset']
    """
    return [kind for kind, known in KINDS.items() if known.section == section]


def find_in_section(section: str, name: str) -> Choice | None:
    """Return the choice that a table ``[section.name]`` belongs to; None: there is none."""
    return next((find(kind, name) for kind in kinds_of(section) if name in names(kind)), None)


@cache
def load_packages() -> None:
    """Import the plug-ins of installed packages; a package that fails is reported and skipped."""
    for entry in entry_points(group="fedcast.plugins"):
        origin = f"package {entry.dist.name} {entry.dist.version}" if entry.dist else f"package {entry.value}"
        try:
            with _registering(origin, entry.module):
                entry.load()
        except Exception as error:
            _log.warning("plug-in %s could not be loaded: %s: %s", origin, type(error).__name__, error)


def load_file(path: str | Path) -> str:
    """Run a plug-in file, which registers what it defines, and return the SHA-256 of its content.

    A file is run once in a process; it is run again if its content has changed, and what it registered before is
    removed. A file that fails leaves nothing registered.
    """
    file = Path(path).resolve()
    try:
        content = read_bytes(file, _MOST_BYTES)
    except OSError as error:
        raise FedcastError(f"plugins: {path}: {error.strerror}; expected a Python file") from None
    digest = hashlib.sha256(content).hexdigest()
    if _loaded_files.get(file) == digest:
        return digest
    _log.info("running plug-in file %s: plug-ins are code, use only files that you trust", path)
    _loaded_files.pop(file, None)
    _run_file(file, path, content, digest)
    _loaded_files[file] = digest
    return digest


def plugin_error(error: BaseException) -> FedcastError | None:
    """Return an error that names the plug-in whose code raised an exception, and the place; None: no plug-in did.

    The code of a model file is named likewise. A plug-in may call `sys.exit`, and may not take the arguments that it is
    called with.
    """
    if isinstance(error, FedcastError | KeyboardInterrupt):
        return None
    frames = list(traceback.walk_tb(error.__traceback__))
    reason = f"{type(error).__name__}: {error}"
    if passed := [(frame, line, owners) for frame, line in frames if (owners := _owners(frame))]:
        frame, line, owners = passed[-1]
        called = [choice for choice in owners if passed[0][0].f_code in _codes(choice.value)]
        where = f"{reason} (in {_place(frame, line)})"
        return FedcastError(f"plug-in {_listed(called or owners)}: {where}; correct the plug-in")
    if in_file := [(frame, line) for frame, line in frames if frame.f_globals.get("__name__") == MODEL_FILE_MODULE]:
        where = f"{reason} (in {_place(*in_file[-1])})"
        return FedcastError(f"training.model_file = {in_file[-1][0].f_code.co_filename}: {where}; correct the model")
    if called := _wrongly_called(error):
        return FedcastError(f"plug-in {_listed(called)}: {reason}; correct its arguments")
    return None


def _place(frame: FrameType, line: int) -> str:
    return f"{frame.f_code.co_name}, {frame.f_code.co_filename}, line {line}"


def _wrongly_called(error: BaseException) -> list[Choice]:
    """Return the plug-ins with a function that does not take its arguments: Python raises that in its caller."""
    said = re.match(r"(.+?)\(\) (takes|missing|got) ", str(error)) if isinstance(error, TypeError) else None
    return [
        choice
        for choice in _registered.values()
        if said and any(code.co_qualname == said[1] for code in _codes(choice.value))
    ]


def loaded_plugins() -> str:
    """Return kind and name of everything that packages and files have registered, for messages."""
    return _listed([choice for choice in _registered.values() if choice.module])


def _listed(choices: list[Choice]) -> str:
    return ", ".join(f"{KINDS[choice.kind].noun} {choice.name!r}" for choice in choices)


def _owners(frame: FrameType) -> list[Choice]:
    """Return the choices that the package or file of a frame has registered."""
    package = str(frame.f_globals.get("__name__")).partition(".")[0]
    return [choice for choice in _registered.values() if choice.module.partition(".")[0] == package]


def _codes(value: Plugin) -> list[CodeType]:
    parts = [*vars(type(value)).values(), *getattr(value, "__dict__", {}).values()]
    return [part.__code__ for part in parts if hasattr(part, "__code__")]


def option_fields(options: type[Any]) -> Mapping[str, dataclasses.Field[Any]]:
    """Return the fields of an options dataclass by name."""
    return {field.name: field for field in dataclasses.fields(options)}


def _run_file(file: Path, shown: str | Path, content: bytes, digest: str) -> None:
    # Classes of the file are pickled by this name; workers run the file before they need them.
    name = f"fedcast_plugin_{digest[:12]}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None:
        raise FedcastError(f"plugins: {shown}: expected a Python file, its name ending in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    origin = f"file {file}"
    _remove(origin)
    try:
        with _registering(origin, name):
            # Not by the loader, whose compiled copy is that of before if a file changes within a second.
            exec(compile(content, file, "exec"), module.__dict__)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):  # of the person at the keyboard
            raise
        del sys.modules[name]
        _remove(origin)
        reason = str(error) if isinstance(error, FedcastError) else f"{type(error).__name__}: {error}"
        raise FedcastError(f"plugins: {shown}: {reason}") from error


def _remove(origin: str) -> None:
    for key in [key for key, choice in _registered.items() if choice.origin == origin]:
        del _registered[key]


@contextmanager
def _registering(origin: str, module: str) -> Iterator[None]:
    """Note the origin of what is registered inside."""
    global _origin, _module
    before = _origin, _module
    _origin, _module = origin, module
    try:
        yield
    finally:
        _origin, _module = before


@cache
def _built_in(kind: str, name: str) -> Choice:
    module, _, attribute = BUILT_IN[kind][name].partition(":")
    return Choice(kind, name, getattr(importlib.import_module(module), attribute), "built in")


def _problem_of(options: Any) -> str | None:
    """Return why a class cannot hold the options of a choice; None: it can."""
    if not (isinstance(options, type) and dataclasses.is_dataclass(options) and options.__dataclass_params__.frozen):  # type: ignore[attr-defined]
        return f"its options are {options!r}; expected a frozen dataclass"
    try:
        types = get_type_hints(options)
    except Exception as error:
        return f"its options have a type that cannot be read: {error}"
    for field in dataclasses.fields(options):
        hint = types[field.name]
        if field.default is dataclasses.MISSING:
            return f"option {field.name} has no default; declare it with option(default, description)"
        if not _is_option_type(hint):
            expected = "bool, int, float, str, a tuple of these, Literal, or one of them or None"
            name = hint.__name__ if isinstance(hint, type) else hint
            return f"option {field.name} has type {name}; expected {expected}"
        if field.metadata.get("limits") and (get_origin(hint) is tuple or not {int, float} & {hint, *get_args(hint)}):
            return f"option {field.name} has limits, which only a number can have"
    try:
        options()
    except Exception as error:
        return f"its default options are invalid: {type(error).__name__}: {error}"
    return None


def _is_option_type(hint: Any) -> bool:
    parts = [part for part in get_args(hint) if part not in (type(None), Ellipsis)]
    if get_origin(hint) in (Union, UnionType):
        return len(parts) == 1 and _is_option_type(parts[0])
    if get_origin(hint) is tuple:
        return all(part in (bool, int, float, str) for part in parts)
    return get_origin(hint) is Literal or hint in (bool, int, float, str)


def _kind(kind: str) -> Kind:
    if kind not in KINDS:
        raise FedcastError(f"invalid kind of plug-in {kind!r}: expected one of {', '.join(KINDS)}")
    return KINDS[kind]
