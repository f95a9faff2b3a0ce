"""The story of 37 sites: the commands of its README, and its page in a real browser."""

from __future__ import annotations

import csv
import re
import shutil
from pathlib import Path

import pytest

from fedcast import load_plan
from fedcast.cli.app import run
from fedcast.plan import plan_table, world_of_plan

pytest.importorskip("selenium")

from selenium.webdriver.support.ui import Select

from tests.report.browser import CHROMIUM, DRIVER, started

pytestmark = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="needs a browser: apt-get install chromium chromium-driver"
)
SITES = Path(__file__).parents[2] / "examples" / "sites"
PLOTS = {"map", "time-split", "leakage", "slowest", "multicasts"}
EVIL = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The example after the commands of its README; one site has a name with markup."""
    place = tmp_path_factory.mktemp("example") / "sites"
    shutil.copytree(SITES, place, ignore=shutil.ignore_patterns("plan.html"))
    for table in place.glob("*.csv"):
        table.write_text(table.read_text().replace("Kiln Street", EVIL))
    commands = re.findall(r"^fedcast (.+?)\s*(?:#.*)?$", (place / "README.md").read_text(), re.MULTILINE)
    assert [command.split()[0] for command in commands] == ["validate", "network", "plan"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        for command in commands:
            assert run(command.split()) == 0
        yield place


@pytest.fixture(scope="module")
def browser():
    with started() as found:
        yield found


@pytest.fixture
def shown(browser, folder):
    browser.open(folder / "plan.html")
    return browser


def cells(browser, column: int) -> list[str]:
    rows = "[...document.querySelectorAll('#users tbody tr')].filter((row) => !row.hidden)"
    return browser.ask(f"{rows}.map((row) => row.cells[{column}].textContent)")


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (390, "light")])
def test_it_is_silent_fetches_nothing_and_fits(browser, folder, width, scheme):
    browser.open(folder / "plan.html", width=width, scheme=scheme, touch=width < 500)
    assert browser.ask("document.documentElement.scrollWidth") <= width
    assert browser.complaints() == []
    assert [url for url in browser.requests() if not url.startswith("data:")] == [(folder / "plan.html").as_uri()]
    plots = "[...document.querySelectorAll('svg.plot')].filter((one) => one.getClientRects().length)"
    assert set(browser.ask(f"{plots}.map((one) => one.dataset.plot)")) == PLOTS
    assert browser.all("img") == []
    assert EVIL in cells(browser, 0)


def test_nothing_on_the_map_is_cut_off_and_all_sites_are_on_it(shown, folder):
    outside = shown.ask(
        """[...document.querySelectorAll("svg.plot")].filter((plot) => plot.getClientRects().length).flatMap((plot) => {
        const frame = plot.getBoundingClientRect();
        return [...plot.querySelectorAll("circle, path, line, text")].filter((mark) => {
            const box = mark.getBoundingClientRect();
            return box.left < frame.left - 1 || box.right > frame.right + 1
                || box.top < frame.top - 1 || box.bottom > frame.bottom + 1;
        }).map((mark) => plot.dataset.plot + ": " + mark.outerHTML.slice(0, 200)); })"""
    )
    assert outside == []
    plan = load_plan(folder / "plan.json")
    names = {text.get_attribute("textContent") for text in shown.all(".wide svg[data-plot=map] text.label")}
    assert len(names & set(plan.names)) >= 34
    heads = {str(plan.names[head]) for head in plan.heads}
    assert heads <= names
    overlaps = shown.ask(
        """(() => { const boxes = [...document.querySelectorAll(".wide svg[data-plot=map] text.label")]
            .map((one) => [one.textContent, one.getBoundingClientRect()]), found = [];
        for (const [name, a] of boxes) for (const [other, b] of boxes)
            if (name < other && a.left < b.right - 1 && b.left < a.right - 1
                    && a.top < b.bottom - 3 && b.top < a.bottom - 3)
                found.push([name, other]);
        return found; })()"""
    )
    assert overlaps == []


def test_links_are_hidden_and_shown_and_say_why_they_are_refused(shown):
    refused = shown.find(".wide svg[data-plot=map] [data-series='102']")
    tip = refused.find_element("css selector", "line").get_attribute("data-tip")
    assert "refused" in tip
    assert "not trusted enough: closeness 0." in tip
    shown.click("[data-toggles='102']")
    assert refused.get_attribute("hidden") is not None
    shown.click("[data-toggles='102']")
    assert refused.get_attribute("hidden") is None


def test_pointing_at_a_site_tells_its_role(shown, folder):
    plan = load_plan(folder / "plan.json")
    head = int(plan.heads[0])
    told = shown.hover(shown.find(f".wide svg[data-plot=map] .mark[data-tip^='{plan.names[head]},']"))
    members = int((plan.head_of == head).sum())
    assert told.startswith(f"{plan.names[head]}, head of {members} member")
    assert f"sends {plan.shared[head]} samples to each" in told


def test_the_table_is_sorted_by_a_click(shown, folder):
    plan = load_plan(folder / "plan.json")
    table = plan_table(plan, world_of_plan(plan))
    place = ["user", "role", "head", "own", "received", "before", "after", "link", "round"].index("round")
    seconds = {str(name): time for name, time in zip(plan.names, table["round_s"], strict=True)}
    for descending in (False, True):
        shown.click(f"#users thead th:nth-child({place + 1}) button")
        names = [name for name in cells(shown, 0) if seconds[name] is not None]
        assert names == sorted(names, key=lambda name: seconds[name], reverse=descending)
        assert set(cells(shown, 0)[-2:]) == {name for name, time in seconds.items() if time is None}
    shown.click("#users thead th:nth-child(1) button")
    assert cells(shown, 0)[1:] == sorted(cells(shown, 0)[1:], key=str.lower)


def test_the_table_is_filtered_by_name_and_role(shown, folder):
    plan = load_plan(folder / "plan.json")
    shown.find("#users input").send_keys("market")
    head = next(int(user) for user in plan.heads if plan.names[user] == "Market Square")
    expected = {str(name) for name in plan.names if "market" in name.lower()}
    expected |= {str(name) for name in plan.names[plan.head_of == head]}
    assert set(cells(shown, 0)) == expected
    assert shown.find("#users [data-count]").text == f"{len(expected)} of 37 users"
    shown.find("#users input").clear()
    shown.driver.execute_script("document.querySelector('#users input').dispatchEvent(new Event('input'))")
    Select(shown.find("#users select")).select_by_visible_text("head")
    assert set(cells(shown, 0)) == {str(name) for name in plan.names[plan.heads]}
    Select(shown.find("#users select")).select_by_visible_text("not trained")
    assert set(cells(shown, 0)) == {"Airport North", "Weir"}


def test_the_readme_says_what_the_plan_says(folder):
    page = (folder / "plan.html").read_text(encoding="utf-8").replace("\u00a0", " ")
    said = r"Lighthouse costs most: without it the task would take [\d.]+ s \(−([\d.]+) %\), with twice the upload rate"
    assert 100 / 7 < float(re.search(said, page)[1]) < 100 / 5
    with (folder / "users.csv").open(newline="") as lines:
        rows = {row["user"]: row for row in csv.DictReader(lines)}
    assert [name for name, row in rows.items() if row["trained"] == "False"] == ["Airport North", "Weir"]
    assert {rows[name]["role"] for name in ("Canal Basin", "Lighthouse", "Quarry")} == {"alone"}
    assert {rows[name]["role"] for name in ("City Hall", "Hospital")} == {"member"}


def test_the_page_in_the_folder_is_that_of_its_tables():
    text = (SITES / "plan.html").read_text(encoding="utf-8")
    assert "Lighthouse costs most" in text
    assert "</html>" in text
