"""The pages on results come from the stored files and from nothing else."""

import re
from pathlib import Path

import pytest

from fedcast_paper import REPRODUCTIONS, Result, Verdict, load_result, save_result
from fedcast_paper.findings import findings
from fedcast_paper.pages import (
    CLAIMS,
    claims_page,
    markdown_table,
    overall,
    results_page,
    stored_results,
    summary,
    verdicts_on,
    write_pages,
)
from fedcast_paper.reproduction_result import where
from fedcast_paper.text_tables import mean_text

TOP = Path(__file__).parents[2]


def result_of(*verdicts, tables=None):
    made_by = {"fedcast": "0.0", "commit": "abc"}
    return Result(tables or {"t": {"x": [1]}}, {}, {"seeds": "0, 1"}, tuple(verdicts), ("A note.",), made_by)


def test_the_pages_in_the_docs_are_those_of_the_stored_results():
    stored = stored_results(TOP / "results")
    assert (TOP / "docs/results.md").read_text() == results_page(stored)
    assert (TOP / "docs/claims.md").read_text() == claims_page(stored)
    for name in stored:
        assert (TOP / f"docs/images/results/{name}.png").stat().st_size < 300_000


def test_what_was_not_run_is_said_and_nothing_is_guessed():
    page = results_page({})
    assert page.count("**Reproduction.** Not run yet.") == len(REPRODUCTIONS)
    assert "Discussion" not in page
    claims = claims_page({})
    assert claims.count("| not run yet |") == len(CLAIMS)
    assert claims.count("**Not run yet.**") == len(CLAIMS)


def test_a_section_holds_paper_numbers_verdicts_reason_and_setting():
    page = results_page({"fig7b": result_of(Verdict("JFVO converges within 6 iterations", "yes", "after 3"))})
    section = page[page.index("## fig7b") : page.index("## fig8")]
    parts = [
        REPRODUCTIONS["fig7b"].paper,
        f"![fig7b: {REPRODUCTIONS['fig7b'].shows}](images/results/fig7b.png)",
        "| JFVO converges within 6 iterations | holds | after 3 |",
        REPRODUCTIONS["fig7b"].why, "A note.", "- seeds: 0, 1", "commit abc",
    ]  # fmt: skip
    places = [section.index(part) for part in parts]
    assert places == sorted(places)


def test_a_claim_holds_only_if_it_holds_wherever_it_was_tested():
    claim = next(claim for claim in CLAIMS if "within 6 iterations" in claim.text)
    yes, no = (Verdict("JFVO converges within 6 iterations", holds, "so") for holds in ("yes", "no"))
    found = verdicts_on(claim, {"fig7a": result_of(yes, Verdict("other", "no", "")), "fig7b": result_of(no)})
    assert found == [("fig7a", yes), ("fig7b", no)]
    assert overall(verdict for _, verdict in found) == "partly holds"
    assert "| JFVO converges within 6 iterations. | holds |" in claims_page({"fig7a": result_of(yes)})


def test_every_claim_names_ids_that_there_are():
    assert {name for claim in CLAIMS for name, _ in claim.evidence} <= set(REPRODUCTIONS)


def cells_of(**columns):
    """Cells of table 2 at Dir 0.1, of FedAvg, SCC and blend unless said otherwise."""
    count = len(columns["accuracy"])
    fixed = {"dataset": ["cifar10"] * count, "alpha": [0.1] * count, "ratio": [0.1] * count}
    rest = {name: [None] * count for name in ("gain", "gain_half_width", "paper_gain")}
    return fixed | rest | {"rule": ["none", "scc", "blend"], "received_samples": [0.0] * count} | columns


def test_table2_has_ours_the_paper_and_the_difference():
    cells = cells_of(
        dataset=["mnist"] * 3, ratio=[0.1, 0.1, 0.05], rule=["none", "blend", "blend"],
        accuracy=[96.5, 98.0, 97.0], half_width=[0.1, 0.2, 0.3], seeds=[5, 3, 5], late_accuracy=[96.0, 97.0, 96.0],
        paper=[96.17, None, None], difference=[0.33, None, None], gain=[None, 1.4, 0.5],
        gain_half_width=[None, 0.25, 0.1],
    )  # fmt: skip
    table = summary("table2", result_of(tables={"cells": cells}))
    assert table["accuracy, %"] == ["MNIST, Dir 0.1, 10% shared", *[""] * 5, "MNIST, Dir 0.1, 5% shared", "", ""]
    whose = ["ours, 5 seeds", "paper", "difference", "ours minus FedAvg, paired by seed", "paper minus FedAvg",
             "samples received"]  # fmt: skip
    assert table["source"] == [*whose, whose[0], whose[3], whose[5]]
    assert table["FedAvg"] == ["96.50 ± 0.10", "96.17", "+0.33", "–", "–", "0", "–", "–", "–"]
    assert table["blend"][:4] == ["98.00 ± 0.20 (3 seeds)", "–", "–", "+1.40 ± 0.25"]
    assert table["blend"][6:8] == ["97.00 ± 0.30", "+0.50 ± 0.10"]
    assert table["DACA"] == ["–"] * 9


def test_few_seeds_show_the_last_ten_rounds_and_the_paper_is_never_left_out():
    cells = cells_of(
        accuracy=[65.7, None, 69.9], half_width=[None] * 3, seeds=[1, 0, 1], late_accuracy=[66.2, None, 69.2],
        paper=[67.72, 74.0, None], difference=[-2.02, None, None], received_samples=[0.0, None, 5886.0],
        paper_gain=[None, 6.28, None],
    )  # fmt: skip
    table = summary("table2", result_of(tables={"cells": cells}))
    assert table["source"][:3] == ["ours, 1 seed", "ours, mean of the last 10 rounds", "paper"]
    assert table["FedAvg"] == ["65.70", "66.20", "67.72", "-2.02", "–", "–", "0"]
    assert table["SCC"] == ["–", "–", "74.00", "–", "–", "+6.28", "–"]
    none = {name: [None] * 3 for name in ("accuracy", "half_width", "late_accuracy", "difference", "received_samples")}
    table = summary("table2", result_of(tables={"cells": cells_of(**none, seeds=[0] * 3, paper=cells["paper"])}))
    assert table["source"] == ["paper; ours not run"]
    assert table["SCC"] == ["74.00"]


def test_a_lower_bound_is_marked():
    columns = {
        "setting": ["100 % one-class"] * 2, "rule": ["none", "daca"], "target": [0.95] * 2, "seeds": [3] * 2,
        "reached": [0, 3], "rounds": [None, 90.0], "rounds_half_width": [None, 21.0], "seconds": [None, 272.0],
        "seconds_half_width": [None, 81.0], "speed_up": [None, 1.11], "speed_up_at_least": [False, True],
        "emd_after": [1.8, 1.7], "shift": [0.0, 0.1], "received_samples": [0.0, 4750.0],
    }  # fmt: skip
    table = summary("beyond-rounds", result_of(tables={"strategies": columns}))
    assert table["speed-up over FedAvg"] == ["–", "> 1.11"]


def test_the_head_says_how_tests_are_corrected_if_there_are_any():
    verdicts = [Verdict("JFVO converges within 6 iterations", "yes", f"p = {p}") for p in (0.01, 0.02)]
    for page in (results_page, claims_page):
        assert "corrected together by Holm's method" in page({"fig7b": result_of(*verdicts)})
        assert "Holm" not in page({})


def test_findings_are_numbers_of_the_stored_results():
    stored = {name: load_result(name, "full", TOP / "results") for name in ("fig1a", "table2-volumes", "fig7a")}
    skew, volume, methods = findings(stored)
    runs = stored["fig1a"].tables["runs"]
    rounds = [r for r, share in zip(runs["rounds"], runs["one_class_share"], strict=True) if share == 0.8]
    assert f"and {sum(rounds) / len(rounds):.0f} if 80 % of them hold one class" in skew
    cells = stored["table2-volumes"].tables["cells"]
    full = where(cells, dataset="cifar10", partition="Dir 0.1", volume="all")
    accuracy = dict(zip(full["rule"], full["accuracy"], strict=True))
    assert f"DACA at {accuracy['daca']:.1f} % on CIFAR-10" in volume
    assert accuracy["cec"] > accuracy["scc"] > accuracy["daca"] > accuracy["central"] > accuracy["none"]
    assert f"The order, uncertain with so few seeds, is CEC {accuracy['cec']:.1f}, SCC" in volume
    assert "(paper: DACA 75.9, central 75.7, CEC 74.9, SCC 74.0, FedAvg 67.7;" in volume
    assert "JFVO, SMM and SAA find the same delay**, within 0.00" in methods
    assert results_page(stored).index("## Findings") < results_page(stored).index("## Terms")
    assert "Findings" not in results_page({})


def test_the_head_links_to_pages_and_headings_that_there_are():
    links = re.findall(r"\]\(([\w/.-]+\.md)(?:#([\w-]+))?\)", results_page({}) + claims_page({}))
    assert len(links) >= 6
    for page, anchor in links:
        headings = re.findall(r"^#+ (.+)$", (TOP / "docs" / page).read_text(), flags=re.MULTILINE)
        assert not anchor or anchor in {heading.lower().replace(" ", "-") for heading in headings}


def test_runs_that_never_arrive_are_counted():
    assert mean_text([None, None], ".1f") == "never"
    assert mean_text([3.0], ".1f") == "3.0"


def test_cells_are_escaped():
    assert markdown_table({"|w|": ["a|b"]}) == "| \\|w\\| |\n|---|\n| a\\|b |\n"


def test_pages_and_pictures_are_written(tmp_path):
    results = TOP / "results"
    if not (results / "full" / "fig7b.json").exists():
        pytest.skip("no stored result here")
    stored = load_result("fig7b", "full", results)
    save_result(stored, "fig7b", "full", tmp_path / "results")
    pages = write_pages(tmp_path / "results", tmp_path / "docs")
    assert [path.name for path in pages] == ["results.md", "claims.md"]
    assert [path.name for path in (tmp_path / "docs/images/results").iterdir()] == ["fig7b.png"]
    assert "fig7b.png" in pages[0].read_text()
