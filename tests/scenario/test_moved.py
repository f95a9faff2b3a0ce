"""Keys that have moved into option tables: old files and overrides mean what they meant."""

import warnings

import pytest

from fedcast.errors import MovedKeyWarning, ScenarioError
from fedcast.registry import find_in_section
from fedcast.scenario import Scenario, load_scenario
from fedcast.scenario.moved import MOVED, SHORTHANDS

# None of them is the default.
VALUES = {
    "data": {
        "single_class_share": 0.5, "alpha": 0.3, "min_samples": 2, "quantity_alpha": 0.4, "classes_per_user": 3,
        "noise_level": 0.2, "concept": "labels", "concept_groups": 5, "indices_file": "i.csv", "text_stride": 4,
        "samples_per_user": 50, "num_classes": 7, "file": "mine.npz",
    },
    "clustering": {
        "order": "descending", "scan": "covers_new", "num_clusters": 3, "respect_graph": False, "shift_weight": 0.7,
        "time_limit_s": 5.0,
    },
    "allocation": {"fixed_ratio": 0.2, "steps": 9, "surrogate_exponent": 0.7, "iterate_exponent": 0.95},
    "training": {"prox_weight": 0.2},
}  # fmt: skip
OLD = [(section, key, value) for section, keys in VALUES.items() for key, value in keys.items()]


def test_every_moved_key_is_tested_and_leads_to_an_option():
    assert {section: set(keys) for section, keys in VALUES.items()} == {name: set(keys) for name, keys in MOVED.items()}
    for section, keys in MOVED.items():
        for places in keys.values():
            for table, name in places:
                assert hasattr(find_in_section(section, table).options(), name)


@pytest.mark.parametrize(("section", "key", "value"), OLD)
def test_an_old_key_sets_its_options_with_one_note(section, key, value):
    change = {f"{section}.{key}": value}
    if (section, key) in SHORTHANDS:
        found = load_scenario(overrides=change)
    else:
        with pytest.warns(MovedKeyWarning) as caught:
            found = load_scenario(overrides=change)
        (note,) = caught
        assert f"{section}.{key} is now {section}." in str(note.message)
    new = {f"{section}.{table}.{name}": value for table, name in MOVED[section][key]}
    assert found == load_scenario(overrides=new) != Scenario()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert getattr(getattr(found, section), key) == value
    assert len(said) == ((section, key) not in SHORTHANDS)


def test_a_whole_old_file_loads_with_one_note(tmp_path):
    path = tmp_path / "old.toml"
    lines = [line for section, keys in VALUES.items() for line in (f"[{section}]", *map(assignment, keys.items()))]
    path.write_text("\n".join(lines))
    with pytest.warns(MovedKeyWarning) as caught:
        found = load_scenario(path, folder="")
    (note,) = caught
    assert str(note.message).startswith(f"{path}: keys have moved: data.single_class_share is now data.label_skew.")
    new = {f"{section}.{table}.{name}": value for section, key, value in OLD for table, name in MOVED[section][key]}
    assert found == load_scenario(overrides=new)


def assignment(item):
    key, value = item
    return f"{key} = {str(value).lower() if isinstance(value, bool) else repr(value)}"


@pytest.mark.parametrize(
    ("text", "override"),
    [
        ("[clustering]\nshift_weight = 0.4\n", "clustering.blend.shift_weight=0.9"),
        ("[clustering.blend]\nshift_weight = 0.4\n", "clustering.shift_weight=0.9"),
        ("[clustering]\nshift_weight = 0.4\n", "clustering.shift_weight=0.9"),
    ],
)
@pytest.mark.filterwarnings("ignore::fedcast.errors.MovedKeyWarning")
def test_an_override_wins_under_either_name(tmp_path, text, override):
    path = tmp_path / "s.toml"
    path.write_text(text)
    assert load_scenario(path, overrides=[override]).clustering.options("clustering", "blend").shift_weight == 0.9


def test_both_names_in_one_file_are_an_error(tmp_path):
    path = tmp_path / "s.toml"
    path.write_text("[data]\nmin_samples = 2\n[data.quantity]\nmin_samples = 3\n")
    message = r"line 4: data.quantity.min_samples: data.min_samples is the old name of the same option; remove one"
    with pytest.raises(ScenarioError, match=message):
        load_scenario(path)


def test_an_invalid_old_value_has_the_line_of_the_old_key(tmp_path):
    path = tmp_path / "s.toml"
    path.write_text("[clustering]\nrule = 'blend'\nshift_weight = -1.0\n")
    with pytest.raises(ScenarioError, match=r"line 3: clustering.blend.shift_weight: invalid value -1.0"):
        load_scenario(path)
