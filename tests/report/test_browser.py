"""The page in a real browser: drawn right, silent, answering mouse, keys and finger, in the light and in the dark."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from fedcast.report import write_report
from fedcast.runs.comparison import compare
from tests.report.conftest import made_run

pytest.importorskip("selenium")

from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from tests.report.browser import CHROMIUM, DRIVER, started

pytestmark = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="needs a browser: apt-get install chromium chromium-driver"
)

PLOTS = {
    "accuracy-round", "accuracy-seconds", "test_loss-round", "test_loss-seconds",
    "time-split", "leakage", "map", "classes", "emd", "energy", "users-own_accuracy",
}  # fmt: skip
PHONE = 390


@pytest.fixture(scope="module")
def browser():
    with started() as found:
        yield found


@pytest.fixture
def shown(browser, real_page):
    browser.open(real_page)
    browser.driver.execute_script("try { localStorage.clear() } catch {}")
    browser.open(real_page)
    return browser


def daca(runs, seed=0):
    return next(run for run in runs if run.rule == "daca" and run.scenario.seed == seed)


def axis(browser, plot: str, across: bool):
    """The scale as a person reads it: from the places and texts of its ticks."""
    script = """(() => { const plot = arguments[0], box = plot.viewBox.baseVal;
        return [...plot.querySelectorAll("text.tick")].map((one) =>
            [one.getAttribute("text-anchor"), +one.getAttribute("x"), +one.getAttribute("y"), one.textContent]); })()"""
    texts = browser.ask(script, browser.find(plot))
    wanted = [(x if across else y - 4, text) for anchor, x, y, text in texts if (anchor == "middle") == across]
    places, values = zip(*((place, float(re.sub(r"[^\d.]", "", text))) for place, text in wanted), strict=True)
    slope, offset = np.polyfit(places, values, 1)
    return lambda place: slope * np.asarray(place) + offset


def points(path: str) -> np.ndarray:
    return np.array([[float(one) for one in pair.split()] for pair in path.lstrip("M").split("L")])


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_complained_of_and_nothing_is_fetched(browser, real_page, scheme):
    browser.open(real_page, scheme=scheme)
    browser.hover(browser.find("svg[data-plot=map] .head"))
    browser.click("#theme")
    assert browser.complaints() == []
    assert [url for url in browser.requests() if not url.startswith("data:")] == [real_page.as_uri()]


def test_all_plots_are_there_with_their_marks_inside(shown):
    names = {plot.get_attribute("data-plot") for plot in shown.all("svg.plot")}
    assert names == PLOTS
    outside = shown.ask(
        """[...document.querySelectorAll("svg.plot")].filter((plot) => plot.getClientRects().length).flatMap((plot) => {
        const frame = plot.getBoundingClientRect();
        return [...plot.querySelectorAll("circle, rect, path, line, text")].filter((mark) => {
            const box = mark.getBoundingClientRect();
            return box.left < frame.left - 1 || box.right > frame.right + 1
                || box.top < frame.top - 1 || box.bottom > frame.bottom + 1;
        }).map((mark) => plot.dataset.plot + ": " + mark.outerHTML.slice(0, 200)); })"""
    )
    assert outside == []
    sizes = shown.ask(
        """[...document.querySelectorAll("svg.plot")].map((plot) => plot.getBoundingClientRect())
        .filter((box) => box.width).map((box) => [box.width, box.height])"""
    )
    assert all(300 < width < 1200 and 150 < height < 800 for width, height in sizes)


def interval_of(own, column):
    """The 95 % confidence interval of the mean over runs, as far as it is drawn."""
    low, high = stats.t.interval(0.95, len(own) - 1, np.mean(own, axis=0), stats.sem(own))
    return np.maximum(low, 0.0), np.minimum(high, 1.0) if column == "accuracy" else high


@pytest.mark.parametrize(("plot", "column"), [("accuracy-round", "accuracy"), ("test_loss-round", "test_loss")])
def test_lines_can_be_read_off_their_axes(shown, real_runs, plot, column):
    selector = f"svg[data-plot={plot}]"
    across, up = axis(shown, selector, True), axis(shown, selector, False)
    scale = 100 if column == "accuracy" else 1
    for series, rule in enumerate(("none", "daca")):
        own = [run.history.column(column) for run in real_runs if run.rule == rule]
        drawn = points(shown.find(f"{selector} [data-series='{series}'] .line").get_attribute("d"))
        assert len(drawn) == len(own[0])
        np.testing.assert_allclose(across(drawn[:, 0]), np.arange(len(own[0])), atol=0.03)
        np.testing.assert_allclose(up(drawn[:, 1]), scale * np.mean(own, axis=0), atol=0.03 * scale / 10)
        band = points(shown.find(f"{selector} [data-series='{series}'] .band").get_attribute("d").rstrip("Z"))
        low, high = interval_of(own, column)
        edges = np.concatenate([high, low[::-1]])
        np.testing.assert_allclose(up(band[:, 1]), scale * edges, atol=0.03 * scale / 10)


def test_bars_are_as_long_as_their_seconds(shown, real_runs):
    across = axis(shown, "svg[data-plot=time-split]", True)
    rows = compare(real_runs)
    lengths = shown.ask(
        """[...document.querySelectorAll("svg[data-plot=time-split] .mark")].map((bar) =>
        [bar.dataset.part, +bar.getAttribute("x"), +bar.getAttribute("width")])"""
    )
    expected = [
        (part, row.measures[f"{part}_s"].mean)
        for row in rows
        for part in ("sharing", "download", "compute", "upload")
        if row.measures[f"{part}_s"].mean > 0
    ]
    assert [part for part, _, _ in lengths] == [part for part, _ in expected]
    for (_, left, width), (_, seconds) in zip(lengths, expected, strict=True):
        assert across(left + width) - across(left) == pytest.approx(seconds, abs=0.01)


def test_users_are_marked_once_on_each_plot(shown, real_runs):
    users = daca(real_runs).tables["users"]
    run = ".run:not([hidden])"
    assert len(shown.all(f"{run} svg[data-plot=map] .mark")) == 24
    assert len(shown.all(f"{run} svg[data-plot=map] .head")) == users["status"].count("head")
    assert len(shown.all(f"{run} svg[data-plot=map] .joins line")) == users["status"].count("member")
    assert len(shown.all(f"{run} svg[data-plot=emd] .strip")) == 24
    assert len(shown.all(f"{run} svg[data-plot=energy] .mark")) == 24
    assert len(shown.all(f"{run} .wide svg[data-plot=classes] .strip")) == 24
    table = daca(real_runs).tables["classes"]
    before = np.stack([values for name, values in table.items() if name.startswith("before_")])
    after = np.stack([values for name, values in table.items() if name.startswith("after_")])
    dots = f"{run} .wide svg[data-plot=classes]"
    assert len(shown.all(f"{dots} circle.own")) == 2 * np.count_nonzero(before)
    assert len(shown.all(f"{dots} circle.received")) == np.count_nonzero(after > before)


def test_energy_bars_can_be_read_off_their_axis(shown, real_runs):
    up = axis(shown, "svg[data-plot=energy]", False)
    tops = shown.ask(
        """[...document.querySelectorAll(".run:not([hidden]) svg[data-plot=energy] .mark")]
        .map((bar) => +bar.getAttribute("y"))"""
    )
    expected = 1e3 * np.sort(daca(real_runs).tables["users"]["round_j"])
    np.testing.assert_allclose(up(tops), expected, atol=0.03)


def test_pointing_at_the_map_tells_each_user_s_story(shown, real_runs):
    run = daca(real_runs)
    users, heads = run.tables["users"], run.tables["heads"]
    place = heads["head"].index(users["head"][users["status"].index("member")])
    tips = {mark.get_attribute("data-tip").split(",")[0]: mark for mark in shown.all("svg[data-plot=map] .mark")}
    head = shown.hover(_mark(shown, heads["head"][place]))
    assert head.startswith(f"User {heads['head'][place]}, head of {heads['members'][place]} member")
    assert heads["why"][place] in head
    assert f"{heads['mean_emd_before'][place]:.3f} → {heads['mean_emd_after'][place]:.3f}" in head
    member = users["status"].index("member")
    told = shown.hover(_mark(shown, member))
    assert told.startswith(f"User {member}, member of head {users['head'][member]}")
    assert f"gained {users['received'][member]:.0f} sample" in told
    assert f"EMD {users['emd_before'][member]:.3f} → {users['emd_after'][member]:.3f}" in told
    assert f"closeness {users['closeness'][member]:.2f}" in told
    assert re.search(r"link [\d.]+ [kM]bit/s", told)
    assert len(tips) == 24


def _mark(browser, user: int):
    return browser.find(f".run:not([hidden]) svg[data-plot=map] .mark[data-tip^='User {user},']")


def test_pointing_at_a_cluster_puts_the_others_back(shown):
    shown.hover(shown.find("svg[data-plot=map] .head"))
    plot = "svg[data-plot=map].dim"
    lit = shown.find(f"{plot} .head.lit").get_attribute("data-cluster")
    near = {one.get_attribute("data-cluster") for one in shown.all(f"{plot} .near")}
    assert near == {lit}
    shown.hover(shown.find("h2"))
    assert shown.tip() == ""
    assert shown.all(plot) == []


def test_pointing_at_curves_gives_the_values_of_that_round(shown, real_runs):
    plot = shown.find("svg[data-plot=accuracy-round]")
    box = shown.ask("(({width, height}) => [width, height])(arguments[0].getBoundingClientRect())", plot)
    across = axis(shown, "svg[data-plot=accuracy-round]", True)
    place = (3 - across(0)) / (across(1) - across(0))  # where round 3 is, in units of the plot
    told = shown.hover(plot, place * box[0] / 440 - box[0] / 2).splitlines()
    assert told[0] == "Round 3"
    for line, rule, name in zip(told[1:], ("none", "daca"), ("FedAvg", "daca"), strict=True):
        own = [run.history.column("accuracy") for run in real_runs if run.rule == rule]
        low, high = (100 * edge[3] for edge in interval_of(own, "accuracy"))
        assert line == f"{name} {100 * np.mean(own, axis=0)[3]:.1f} % ({low:.1f} % to {high:.1f} %)"


def test_the_keyboard_walks_from_mark_to_mark(shown):
    plot = shown.show(shown.find("svg[data-plot=energy]"))
    tips = [
        mark.get_attribute("data-tip").replace("\u00a0", " ")
        for mark in shown.all(".run:not([hidden]) svg[data-plot=energy] .mark")
    ]
    plot.send_keys(Keys.ARROW_RIGHT)
    assert shown.tip() == tips[0]
    plot.send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_LEFT)
    assert shown.tip() == tips[1]
    plot.send_keys(Keys.ESCAPE)
    assert shown.tip() == ""
    curves = shown.show(shown.find("svg[data-plot=accuracy-round]"))
    curves.send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert shown.tip().startswith("Round 1\nFedAvg")
    assert shown.all("svg.plot:not([aria-label]), svg.plot:not([tabindex])") == []


def test_a_finger_is_enough(browser, real_page):
    browser.open(real_page, width=PHONE, touch=True)
    head = browser.show(browser.find("svg[data-plot=map] .head"))
    x, y = browser.ask(
        "(({x, y, width, height}) => [x + width / 2, y + height / 2])(arguments[0].getBoundingClientRect())", head
    )
    browser.driver.execute_cdp_cmd("Input.synthesizeTapGesture", {"x": int(x + 6), "y": int(y)})
    assert "head of" in browser.tip()
    left, right = browser.ask(
        "(({left, right}) => [left, right])(document.getElementById('tip').getBoundingClientRect())"
    )
    assert 0 <= left < right <= PHONE


def test_the_axis_can_be_switched_to_seconds(shown, real_runs):
    shown.click("input[value=seconds]")
    assert not shown.all("[data-axis=round]")[0].is_displayed()
    across = axis(shown, "svg[data-plot=accuracy-seconds]", True)
    starts = across(
        points(shown.find("svg[data-plot=accuracy-seconds] [data-series='1'] .line").get_attribute("d"))[0, 0]
    )
    own = [run.history.records[0].seconds for run in real_runs if run.rule == "daca"]
    assert starts == pytest.approx(max(own), abs=0.05)
    assert re.match(r"[\d.]+ s\n", shown.hover(shown.find("svg[data-plot=accuracy-seconds]")))


def test_the_legend_takes_strategies_away_and_back(shown):
    line = "svg[data-plot=accuracy-round] [data-series='1']"
    assert shown.all(line)[0].is_displayed()
    shown.click("#training [data-toggles='1']")
    assert not shown.all(line)[0].is_displayed()
    assert shown.all("svg[data-plot=leakage] [data-series='1']")[0].is_displayed()  # another section's legend
    assert "daca" not in shown.hover(shown.find("svg[data-plot=accuracy-round]"))
    shown.click("#training [data-toggles='1']")
    assert "daca" in shown.hover(shown.find("svg[data-plot=accuracy-round]"))


def test_another_run_can_be_chosen(shown, real_runs):
    choice = Select(shown.find("#run"))
    assert [option.text for option in choice.options] == [
        "FedAvg, seed 0", "FedAvg, seed 1", "daca, seed 0", "daca, seed 1",
    ]  # fmt: skip
    assert choice.first_selected_option.text == "daca, seed 0"
    choice.select_by_visible_text("daca, seed 1")
    heads = daca(real_runs, 1).tables["heads"]["head"]
    shown_heads = shown.all(".run:not([hidden]) svg[data-plot=map] .head")
    assert {mark.get_attribute("data-tip").split(",")[0] for mark in shown_heads} == {f"User {head}" for head in heads}
    choice.select_by_visible_text("FedAvg, seed 0")
    assert shown.all(".run:not([hidden]) svg[data-plot=map] .head") == []
    assert shown.find(".run:not([hidden]) > figure:last-child .note").text == "No sample left its owner."


def test_dark_as_the_system_says_and_as_the_button_says(shown, real_page):
    light = shown.colour_of("body", "backgroundColor"), shown.colour_of(".line", "stroke")
    shown.prefer("dark")
    dark = shown.colour_of("body", "backgroundColor"), shown.colour_of(".line", "stroke")
    assert all(one != other for one, other in zip(light, dark, strict=True))
    assert _brightness(dark[0]) < 60 < 200 < _brightness(light[0])
    assert _brightness(shown.colour_of("body", "color")) > 200
    shown.click("#theme")
    assert shown.colour_of("body", "backgroundColor") == light[0]
    shown.prefer("light")
    shown.click("#theme")
    assert (shown.colour_of("body", "backgroundColor"), shown.colour_of(".line", "stroke")) == dark
    shown.open(real_page)
    assert shown.colour_of("body", "backgroundColor") == dark[0]  # kept


def _brightness(colour: str) -> float:
    return float(np.mean([float(part) for part in re.findall(r"[\d.]+", colour)[:3]]))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_stand_out_from_what_is_behind_them(browser, real_page, scheme):
    """Contrast as WCAG 2 defines it; 4.5 is its limit for small text."""
    browser.open(real_page, scheme=scheme)
    for text, behind in (
        (".note", "body"),
        ("td", ".scroll"),
        (".eyebrow", "body"),
        ("#training figcaption", "figure"),
    ):
        colours = browser.colour_of(text, "color"), browser.colour_of(behind, "backgroundColor")
        assert _contrast(*colours) > 4.5, (text, colours)
    for text in (".tick", ".label", ".name"):
        assert _contrast(browser.colour_of(text, "fill"), browser.colour_of("figure", "backgroundColor")) > 4.5


def _contrast(one: str, other: str) -> float:
    lights = sorted(_luminance(colour) for colour in (one, other))
    return (lights[1] + 0.05) / (lights[0] + 0.05)


def _luminance(colour: str) -> float:
    parts = np.array([float(part) for part in re.findall(r"[\d.]+", colour)[:3]]) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize("width", [320, PHONE, 768])
def test_small_screens_scroll_down_only(browser, real_page, width):
    browser.open(real_page, width=width, touch=True)
    assert browser.ask("document.documentElement.scrollWidth") <= width
    assert browser.ask("window.innerWidth") == width
    wide = browser.ask(
        """[...document.querySelectorAll("main *")].filter((one) => one.getClientRects().length
        && !one.closest(".scroll, pre, .legend") && one.getBoundingClientRect().right > innerWidth + 1)
        .map((one) => one.outerHTML.slice(0, 120))"""
    )
    assert wide == []


def test_a_phone_gets_readable_plots(browser, real_page):
    browser.open(real_page, width=PHONE, touch=True)
    sizes = browser.ask(
        """[...document.querySelectorAll("svg.plot")].filter((plot) => plot.getClientRects().length).flatMap((plot) => {
        const scale = plot.getBoundingClientRect().width / plot.viewBox.baseVal.width;
        const sizeOf = (text) => scale * parseFloat(getComputedStyle(text).fontSize);
        return [...plot.querySelectorAll("text")].map(sizeOf); })"""
    )
    assert min(sizes) > 9
    assert browser.find(".narrow").is_displayed()
    assert not browser.all(".wide")[0].is_displayed()


@pytest.mark.parametrize("width", [1280, 1300])
def test_the_comparison_of_many_strategies_needs_no_scrolling_on_a_desk(browser, tmp_path, width):
    rules = [("none", "jfvo"), ("daca", "jfvo"), ("daca", "fixed"), ("blend", "jfvo"), ("blend", "fixed")]
    runs = [
        made_run(rule, seed, [0.1, 0.4] * 600, changes={"training.algorithm": algorithm, "allocation.method": method})
        for rule, method in rules
        for algorithm in ("fedavg", "scaffold")
        for seed in range(2)
    ]
    browser.open(write_report(runs, tmp_path / "many.html"), width=width)
    table = browser.find("#comparison .scroll")
    assert browser.ask("arguments[0].scrollWidth", table) <= browser.ask("arguments[0].clientWidth", table)


def test_words_stand_beside_marks_not_over_them(shown):
    """The name of the budget above its line, which no bar crosses; averages of EMD in words beside the plot."""
    budget = shown.find('[data-plot="energy"] .target + .label')
    line = shown.find('[data-plot="energy"] .target')
    assert budget.text.startswith("budget")
    ends_at = shown.ask("arguments[0].getBBox().y + arguments[0].getBBox().height", budget)
    assert ends_at < float(line.get_attribute("y1"))
    assert "average" not in shown.find('[data-plot="emd"]').text
    assert "on average" in shown.find(".run:not([hidden]) .legend:has(.ringed)").text


def test_words_of_a_scenario_do_not_run(browser, tmp_path):
    evil = '"></code></script><script>window.hacked = 1</script><img src=x onerror="window.hacked = 1">'
    run = made_run("daca", 0, [0.1, 0.6], changes={"data.file": evil})
    tables = run.tables
    run = replace(run, folder=Path(evil.replace("/", "|")), versions={evil: evil})
    tables["heads"]["why"] = [evil]
    run.__dict__["tables"] = tables
    browser.open(write_report([run], tmp_path / "report.html"))
    assert evil in browser.hover(browser.find("svg[data-plot=map] .head"))
    assert browser.ask("window.hacked === undefined && !document.querySelector('img')")
    assert browser.complaints() == []


def test_a_large_federation_answers_quickly(browser, tmp_path):
    runs = [made_run(rule, 0, [0.1, 0.6] * 200, users=10_000) for rule in ("none", "daca")]
    page = write_report(runs, tmp_path / "big.html")
    browser.open(page)
    marks = browser.all(".run:not([hidden]) svg[data-plot=map] .mark")
    assert len(marks) == 1_500
    spent = browser.ask(
        """((plot) => {
        plot.scrollIntoView({block: "center"});
        const box = plot.getBoundingClientRect(), begin = performance.now();
        for (let step = 0; step < 20; step++) plot.dispatchEvent(new PointerEvent("pointermove", {
            bubbles: true, clientX: box.left + box.width * (0.3 + step / 50), clientY: box.top + box.height / 2}));
        return performance.now() - begin; })(arguments[0])""",
        browser.find("svg[data-plot=map]"),
    )
    assert spent / 20 < 100  # milliseconds a step, on a machine that does other things too
    assert browser.complaints() == []
