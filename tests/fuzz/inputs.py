"""Generators of hostile input: valid files with a few values, cells or bytes replaced by what nobody expects."""

import copy
import io
import json

import numpy as np
from hypothesis import strategies as st

from fedcast.scenario import Scenario

LONG = "9" * 5000
# What a program that expects a number, a name or a table may stumble over.
NUMBERS = (0, -1, 1, 2, 3, 10**6, 10**9, 2**31, 2**63, 10**30, -(2**63), 0.5, 1e-300, 1e300, -0.0, 1e15, 0.1, 7)
TEXTS = (
    "", " ", "a", "unset", "nan", "inf", "-", "=1+1", "\x1b[31mred", "a\nb", "é", "\u202e", "𝔘", "../..", LONG
)  # fmt: skip
NESTED = ([], {}, [[]], [1, "a"], {"a": {}}, [[[[[1]]]]], {"": 1}, [None], [{}])
ANYTHING = (*NUMBERS, *TEXTS, True, False, *NESTED, None, float("nan"), float("inf"))
BYTES = (
    b"\x00", b"\xff", b"\xef\xbb\xbf", b"\r", b"\n", b'"', b",", b"[" * 200, b"\xf0\x9f", b";", b"\t", b"9" * 400, b"-"
)  # fmt: skip
ODD_TOML = (
    "1979-05-27", "07:32:00", "1979-05-27T07:32:00Z", "0x10", "1_000", "'", '"""', "{", "1e999", "+inf", LONG, "[" * 500
)  # fmt: skip
ODD_CELLS = (
    "", " ", "-1", "1e400", "nan", "inf", "1_000", "true", "lobby", "gate", '"', '"a\nb"', "é", "\x1b[0m", "=1+1",
    "1,5", LONG, "9223372036854775808", "0x1", "١", "１",
)  # fmt: skip

_SECTIONS = {name: field.annotation for name, field in Scenario.model_fields.items()}
_PLACES = [
    *((name, key) for name, kind in _SECTIONS.items() for key in getattr(kind, "model_fields", ()) if key != "tables"),
    ("data.dirichlet", "alpha"), ("data.dirichlet", "min_samples"), ("data.synthetic", "num_classes"),
    ("data.synthetic", "samples_per_user"), ("data.shards", "classes_per_user"), ("clustering.blend", "shift_weight"),
    ("clustering.random", "num_clusters"), ("allocation.jfvo", "steps"), ("allocation.fixed", "ratio"),
    ("training.fedprox", "prox_weight"), ("data.alpha", "x"), ("no", "such"), ("data", "num_usrs"),
]  # fmt: skip

anything = st.sampled_from(ANYTHING)
texts = st.sampled_from(TEXTS) | st.text(max_size=8)
cells = st.sampled_from(["0", "1", "2", "7", "0.5", "1e3", "1.0"]) | st.sampled_from(ODD_CELLS)


def toml_value(value):
    """Return a value as TOML, or as something that is almost TOML."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {toml_value(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    return json.dumps(value) if isinstance(value, str) else repr(value)


toml_values = anything.map(toml_value) | st.sampled_from(ODD_TOML)


@st.composite
def assignments(draw, values):
    """Return a key of a scenario and a value, often its default or a small number, which are valid."""
    section, key = draw(st.sampled_from(_PLACES))
    field = getattr(_SECTIONS.get(section), "model_fields", {}).get(key)
    if field is not None and field.default is not None and draw(st.booleans()):
        return section, key, toml_value(field.default)
    return section, key, draw(st.sampled_from(["1", "2", "0.5", "1.5", "3"]) | values)


@st.composite
def with_bytes(draw, content):
    """Insert, remove or repeat a few bytes of some files."""
    for _ in range(draw(st.sampled_from((0, 0, 0, 1, 2)))):
        place = draw(st.integers(0, max(len(content), 1)))
        match draw(st.sampled_from(("insert", "remove", "repeat"))):
            case "insert":
                content = content[:place] + draw(st.sampled_from(BYTES)) + content[place:]
            case "remove":
                content = content[:place] + content[place + draw(st.integers(1, 30)) :]
            case "repeat":
                content = content[: place + 9] + content[place:]
    return content


@st.composite
def scenario_files(draw):
    """Return a TOML file that sets a few values."""
    lines = draw(st.sampled_from(([], ['preset = "digits"'], ['preset = "paper"', "seed = 3"], ['preset = "x"'])))
    chosen = draw(st.lists(assignments(toml_values), min_size=1, max_size=4))
    lines = [*lines, *(f"{section}.{key} = {value}" for section, key, value in chosen)]
    return draw(with_bytes("\n".join(lines).encode("utf-8", "surrogatepass")))


@st.composite
def overrides(draw):
    """Return the values of --set."""
    chosen = draw(st.lists(assignments(toml_values | texts), min_size=1, max_size=3))
    given = [f"{section}.{key}={value}" for section, key, value in chosen]
    return [*given, draw(texts)] if draw(st.integers(0, 4)) == 0 else given


def _paths(value, above=()):
    """Return the place of every value of a document; of lists the first few."""
    yield above
    inside = value.items() if isinstance(value, dict) else enumerate(value[:4]) if isinstance(value, list) else ()
    for key, one in inside:
        yield from _paths(one, (*above, key))


@st.composite
def documents(draw, valid):
    """Return a JSON file: a valid document with values replaced, removed or added somewhere."""
    content = copy.deepcopy(valid)
    for _ in range(draw(st.integers(0, 3))):
        places = [path for path in _paths(content) if path]
        if not places:
            break
        *above, last = draw(st.sampled_from(places))
        parent = content
        for key in above:
            parent = parent[key]
        match draw(st.sampled_from(("replace", "remove", "add"))):
            case "replace":
                parent[last] = copy.deepcopy(draw(anything))
            case "remove":
                del parent[last]
            case "add" if isinstance(parent, dict):
                parent[draw(texts)] = copy.deepcopy(draw(anything))
            case _:
                parent.append(copy.deepcopy(draw(anything)))
    return draw(with_bytes(json.dumps(content).encode()))


@st.composite
def tables(draw, valid):
    """Return a CSV file: rows of a valid table with other cells, names, separators or bytes."""
    rows = [list(row) for row in valid]
    for _ in range(draw(st.sampled_from((0, 0, 1, 1, 2, 3)))):
        row = draw(st.integers(0, len(rows) - 1))
        match draw(st.sampled_from(("cell", "cell", "cell", "cell", "drop", "double", "short", "long"))):
            case "cell" if rows[row]:
                rows[row][draw(st.integers(0, len(rows[row]) - 1))] = draw(cells)
            case "drop" if len(rows) > 1:
                del rows[row]
            case "double":
                rows.append(list(rows[row]))
            case "short":
                rows[row] = rows[row][:-1]
            case _:
                rows[row] = [*rows[row], draw(cells)]
    separator = draw(st.sampled_from([*[","] * 18, ";", "\t"]))
    return draw(with_bytes("\n".join(separator.join(row) for row in rows).encode() + b"\n"))


def rows_of(text):
    return [line.split(",") for line in text.split()]


WIDE = rows_of("user,cat,dog 0,5,1 1,0,7 2,3,3")
NAMED = rows_of("user,cat,dog lobby,5,1 gate,0,7 roof,3,3")
LONG_FORM = rows_of("user,class,count 0,cat,5 1,dog,7 2,cat,3")
LINKS = rows_of("user_a,user_b,rate_bps,closeness 0,1,1e6,0.9 1,2,2e6,0.8")
POSITIONS = rows_of("user,x_m,y_m 0,1,2 1,30,4 2,5,60")
DEGREES = rows_of("user,longitude,latitude 0,11.5,48.1 1,11.6,48.2 2,-180,90")
DEVICES = rows_of("user,max_frequency_hz,energy_budget_j,consent 0,1e9,0.1,1 1,2e9,0.2,0.5 2,1e9,1,0")

_TYPES = ("u1", "i4", "i8", "u8", "f4", "f8", "?", "c8", "U3", "S2", "M8[s]")
_SHAPES = ((), (0,), (1,), (4,), (10,), (10, 4), (10, 2, 2), (10, 1, 2, 2), (0, 4), (10, 0), (2, 2, 2, 2, 2))
_NAMES = ("inputs", "labels", "test_inputs", "test_labels", "groups", "class_names", "samples", "offsets", "x", "")


@st.composite
def arrays(draw):
    """Return an array of any type and shape, perhaps with an extreme value."""
    kind, shape = draw(st.sampled_from(_TYPES)), draw(st.sampled_from(_SHAPES))
    made = (np.arange(int(np.prod(shape))).reshape(shape) % 3).astype(kind)
    if made.size and made.dtype.kind in "uif" and draw(st.booleans()):
        extreme = draw(st.sampled_from((-1, 0, 10**6, 10**12, 2**62, float("nan"), float("inf"))))
        whole = made.dtype.kind in "ui"
        if not whole or np.iinfo(made.dtype).min <= extreme <= np.iinfo(made.dtype).max:
            made.flat[0] = extreme
    return made


@st.composite
def archives(draw):
    """Return an .npz file, its arrays valid or not."""
    content = {"inputs": np.zeros((10, 4), np.float32), "labels": np.arange(10) % 3}
    content |= {"samples": np.arange(6), "offsets": np.array([0, 2, 4, 6])} if draw(st.booleans()) else {}
    for name in draw(st.lists(st.sampled_from(_NAMES), max_size=2)):
        if draw(st.integers(0, 4)) == 0:
            content.pop(name, None)
        else:
            content[name] = draw(arrays())
    stream = io.BytesIO()
    np.savez(stream, **content)
    return draw(with_bytes(stream.getvalue()))
