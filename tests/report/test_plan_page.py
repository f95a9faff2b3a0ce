"""The report of a plan: what it says is what the plan says, in words that fit it."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from fedcast import load_scenario, make_plan, make_world, save_plan, with_overrides
from fedcast.cli.app import run
from fedcast.formatting import SPACE, number, quantity
from fedcast.plan import Baseline, plan_table
from fedcast.report import write_plan_report
from fedcast.report.plan_page import plan_page
from fedcast.report.plan_page.overview import headline
from fedcast.report.plan_page.plan_content import MAX_USERS, gather_plan
from tests.user_tables import NAMES, write_tables

QUICK = ["clustering.rule=gain", "training.local_epochs=1", "rounds.target_accuracy=0.95"]


class Rows(HTMLParser):
    """Texts of the cells of the table that is sortable."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.inside = self.cell = False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        if tag == "table":
            self.inside = "data-sortable" in dict(attrs)
        if self.inside and tag == "tr":
            self.rows.append([])
        self.cell = self.inside and tag in ("td", "th", "button")
        if self.inside and tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_data(self, data):
        if self.cell:
            self.rows[-1][-1] += data


def world_of(folder, label, *more: str):
    tables = write_tables(folder, label)
    files = {"data.synthetic.counts_file": "counts", "trust.links_file": "links", "devices.devices_file": "devices"}
    own = ["data.dataset=synthetic", *(f"{key}={tables[name]}" for key, name in files.items()), *QUICK, *more]
    return make_world(load_scenario(overrides=own))


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return world_of(tmp_path_factory.mktemp("named"), lambda user: NAMES[user])


@pytest.fixture(scope="module")
def plan(world):
    made = make_plan(world.scenario, world=world)
    assert len(made.heads)
    return made


@pytest.fixture(scope="module")
def content(plan, world):
    return gather_plan(plan, world)


@pytest.fixture(scope="module")
def page(content):
    return plan_page(content)


def test_the_headline_is_the_plan_in_words(content, plan):
    best = plan.best_without
    told = {
        "faster": replace(plan, best_without=replace(best, delay_s=1.5 * plan.delay_s)),
        "share nothing": replace(plan, head_of=np.full(12, -1), shared=np.zeros(12, dtype=int)),
        "slower": replace(plan, best_without=replace(best, delay_s=plan.delay_s / 2)),
        "no faster": replace(plan, best_without=replace(best, delay_s=plan.delay_s)),
        "not reached": replace(plan, best_without=None),
        "not predicted": replace(plan, rounds=None, not_predicted="the skew is too large"),
    }
    said = {name: headline(replace(content, plan=other)) for name, other in told.items()}
    assert said["share nothing"].startswith(f"Share nothing, train 1 local epoch a round: 95{SPACE}% accuracy in")
    reached = f"95{SPACE}% accuracy in {quantity(plan.delay_s, 's')}, "
    assert said["faster"] == f"{reached}1.50 times faster than without sharing"
    at = f"{best.local_epochs} local epochs, learning rate {best.learning_rate:.3g}"
    assert said["slower"] == f"{reached}2.00 times slower than without sharing at {at}"
    assert said["no faster"].endswith("no faster than without sharing")
    assert said["not reached"].endswith("; without sharing it is not reached")
    assert said["not predicted"].endswith("is not predicted")


def test_every_section_is_there_and_reached_from_the_bar(page):
    names = ["map", "time", "bottleneck", "users", "rules", "left-out", "assumed", "reproduce"]
    assert re.findall(r'<section id="([^"]+)"', page) == names
    assert re.findall(r'<a href="#([^"]+)"', page)[1:] == names


def test_the_table_of_users_is_the_plan(page, plan, world):
    rows = Rows(page).rows
    table = plan_table(plan, world)
    assert rows[0][:5] == ["user", "role", "head", "own samples", "received"]
    assert [row[0] for row in rows[1:]] == NAMES
    for user, row in enumerate(rows[1:]):
        assert row[1] == table["role"][user]
        assert row[2] == (table["head"][user] or "–")
        assert row[3] == f"{world.population.sizes[user]:,}"
        assert row[4] == f"{table['received_samples'][user]:,}"
        assert row[5:7] == [number(table[name][user], 3) for name in ("emd_before", "emd_after")]
        rate, seconds = table["rate_bps"][user], table["round_s"][user]
        assert row[7] == ("–" if rate is None else quantity(rate, "bit/s"))
        assert row[8] == quantity(seconds, "s")
        assert row[9] == quantity(table["energy_j"][user], "J")
        assert row[11] == str(plan.local_epochs)


def test_what_is_assumed_is_listed_once(page, plan):
    assert plan.assumptions
    for text in plan.assumptions:
        plain = re.sub(r"<[^>]+>", "", page).replace("&quot;", '"').replace("&#x27;", "'")
        assert plain.count(text.replace("`", "")) == 1


def test_parts_of_the_delay_without_sharing_add_up(content, plan):
    named = {"without sharing, at its best": plan.best_without, "without sharing, as given": plan.without}
    assert set(content.without) <= set(named)
    for name, delay in content.without.items():
        assert delay.total_s == pytest.approx(named[name].delay_s, rel=1e-9)


def test_a_plan_file_gives_the_same_page(page, plan, tmp_path, capsys):
    save_plan(plan, tmp_path / "plan.json")
    assert run(["report", str(tmp_path / "plan.json")]) == 0
    assert (tmp_path / "plan.html").read_text(encoding="utf-8") == page
    assert run(["report", str(tmp_path / "plan.json"), str(tmp_path)]) == 2
    assert "one plan makes one page" in capsys.readouterr().err


def test_places_are_not_pretended(page):
    assert "the layout is schematic, and distances on it mean nothing" in page
    assert 'class="scale"' not in page


@pytest.mark.parametrize("rule", ["none", "central"])
def test_plans_without_heads_have_a_page(world, tmp_path, rule):
    scenario = with_overrides(world.scenario, {"clustering.rule": rule})
    other = make_world(scenario)
    made = make_plan(scenario, world=other, compare_rules="no")
    text = write_plan_report(made, other, tmp_path / "plan.html").read_text(encoding="utf-8")
    assert ("Share nothing" in text) is (not made.server_samples)
    assert "the server" in text or not made.server_samples


def test_a_plan_without_a_prediction_says_why(plan, world):
    changes = {
        "rounds.fit": "paper-0.95",
        "rounds.form": "paper",
        "clustering.rule": "gain",
        "allocation.method": "fixed",
    }
    scenario = with_overrides(world.scenario, {**changes, "rounds.target_accuracy": 0.95})
    other = make_world(scenario)
    made = make_plan(scenario, world=other, compare_rules="no")
    text = plan_page(gather_plan(replace(made, rounds=None, not_predicted="outside the fit"), other))
    assert "Not predicted: outside the fit." in text
    assert "sharing and a round" in text


def test_names_with_markup_are_only_texts(content, plan, world):
    evil = np.array([f"<img src=x onerror=alert({user})>\"'&" for user in range(12)])
    named = replace(world, layout=replace(world.layout, names=evil))
    text = plan_page(replace(content, plan=replace(plan, names=evil), world=named))
    assert "<img" not in text
    assert "&lt;img src=x onerror=alert(3)&gt;" in text


def test_many_users_are_drawn_together_and_the_table_is_capped(tmp_path, monkeypatch):
    monkeypatch.setattr("fedcast.plan.bottleneck.MAX_ADAPTED", 0)
    many = ["data.dataset=synthetic", "data.num_users=1600", *QUICK]
    other = make_world(load_scenario(overrides=many))
    made = make_plan(other.scenario, world=other, with_curve=False, compare_rules="no")
    path = write_plan_report(made, other, tmp_path / "plan.html")
    text = path.read_text(encoding="utf-8")
    assert path.stat().st_size < 1.5e6
    assert f"{MAX_USERS:,} of 1,600 users" in text
    assert len(Rows(text).rows) == MAX_USERS + 1
    assert 'class="mark square"' in text


def test_the_page_needs_no_pytorch_and_nothing_from_outside(page, tmp_path):
    assert not re.search(r"(src|href)=\"(?!#|data:)", page)
    code = (
        "import sys; from fedcast import load_scenario, make_plan, make_world;"
        "from fedcast.report import write_plan_report;"
        f"world = make_world(load_scenario(overrides={[*QUICK, 'data.num_users=12']!r}));"
        "plan = make_plan(world.scenario, world=world, with_curve=False, compare_rules='no');"
        f"write_plan_report(plan, world, {str(tmp_path / 'plan.html')!r}); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_baseline_as_given_is_shown_beside_the_best(content, plan):
    other = replace(plan, without=Baseline(3, 0.5, 9.0, 2 * plan.delay_s))
    text = plan_page(replace(content, plan=other))
    assert "Without sharing as given (3 local epochs, learning rate 0.5)" in text
