"""The pages on results come from the stored files and from nothing else."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from fedcast_paper import REPRODUCTIONS, Result, Verdict, load_result, save_result
from fedcast_paper.findings import findings
from fedcast_paper.pages import (
    CLAIMS,
    claims_page,
    overall,
    results_page,
    stored_results,
    summaries,
    verdicts_on,
    write_pages,
)
from fedcast_paper.reproduction_result import where
from fedcast_paper.text_tables import NO_BREAK, markdown_table, mean_text, rows_of
from fedcast_paper.volume_tables import ACCURACY_CAPTION, GAIN_CAPTION

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


def test_a_section_holds_paper_numbers_reason_verdicts_and_setting():
    claimed, other = Verdict("JFVO converges within 6 iterations", "yes", "after 3"), Verdict("mine", "no", "p = 0.1")
    page = results_page({"fig7b": result_of(claimed, other)})
    section = page[page.index("## fig7b") : page.index("## fig8")]
    parts = [
        REPRODUCTIONS["fig7b"].paper,
        f"![fig7b: {REPRODUCTIONS['fig7b'].shows}](images/results/fig7b.png)",
        REPRODUCTIONS["fig7b"].why, "A note.", "**The paper's claims** here: holds: 1 ([evidence](claims.md))",
        "Other claims: does not hold: 1", "| mine | does not hold | p = 0.1 |", "- seeds: 0, 1", "commit abc",
    ]  # fmt: skip
    places = [section.index(part) for part in parts]
    assert places == sorted(places)
    # The evidence on claims of the paper has a page of its own.
    assert "after 3" not in page
    assert "within 6 iterations: holds; after 3" in claims_page({"fig7b": result_of(claimed, other)})


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
    """Cells of table 2 on CIFAR-10 at Dir 0.1 with all shared, of FedAvg and blend unless said otherwise."""
    count = len(columns["accuracy"])
    same = {
        "dataset": "cifar10", "partition": "Dir 0.1", "volume": "all", "seeds": 3, "first_rate": False, "rounds": 100,
        "half_width": 0.1, "noisy_accuracy": None, "noisy_accuracy_half_width": None, "gain": None,
        "gain_half_width": None, "work": None, "work_half_width": None, "skew": None, "skew_half_width": None,
        "paper": None, "paper_gain": None, "average_sharing_ratio": 0.0, "largest_revealed_share": 0.0,
        "distinct_samples": 0.0, "gain_per_leakage": None,
        "gain_per_leakage_half_width": None, "local_epochs": 1.0, "simulated_s": 1234.5,
    }  # fmt: skip
    return {name: [value] * count for name, value in same.items()} | {"rule": ["none", "blend"]} | columns


def plain(table):
    """The table with breaking spaces."""
    return {name: [text.replace(NO_BREAK, " ") for text in column] for name, column in table.items()}


def test_table2_has_ours_and_the_paper_with_leakage_and_time():
    cells = cells_of(
        accuracy=[67.6, 77.0], half_width=[13.7, 2.6], seeds=[3, 2], paper=[67.72, None], gain=[None, 9.4],
        gain_half_width=[None, 11.2], average_sharing_ratio=[0.0, 0.621], largest_revealed_share=[0.0, 1.0],
        distinct_samples=[0.0, 13529.0], local_epochs=[1.0, 2.5],
    )  # fmt: skip
    tables = summaries("table2", result_of(tables={"cells": cells}))
    # Without a control no gain is split.
    (caption,) = tables
    assert caption == f"{ACCURACY_CAPTION}\n\n**CIFAR-10, Dir 0.1** (100 rounds, 3 seeds)"
    assert plain(tables[caption]) == {
        "strategy": ["FedAvg", "blend"],
        "paper": ["67.72", "–"],
        "all": [
            "67.60 ± 13.70<br>1,234 s",
            "77.00 ± 2.60 (+9.40 ± 11.20), 2 seeds<br>62 % · 100 % · 13,529 · 1,234 s · E = 2.5",
        ],
    }


def test_a_strategy_that_was_not_run_at_a_volume_has_a_dash_there():
    cells = cells_of(
        accuracy=[67.6, 77.0, 66.2], rule=["none", "blend", "none"], volume=["all", "all", "10 %"],
        first_rate=[False, False, True], noisy_accuracy=[None, None, 60.0],
    )  # fmt: skip
    (table,) = map(plain, summaries("fig4", result_of(tables={"cells": cells})).values())
    assert "paper" not in table  # Fig. 4 prints no numbers
    assert table["10 %"] == ["66.20 ± 0.10\\*<br>with noise 60.00<br>1,234 s", "–"]


def test_gains_are_shown_with_their_parts():
    cells = cells_of(
        accuracy=[60.0, 62.1, 70.0], rule=["none", "daca work", "daca"], gain=[None, 2.1, 10.0],
        work=[None, None, 2.1], work_half_width=[None, None, 0.25], skew=[None, None, 7.9],
        paper_gain=[None, None, 8.18], gain_per_leakage=[None, None, 0.143],
        gain_per_leakage_half_width=[None, None, 0.02],
    )  # fmt: skip
    table = plain(summaries("table2", result_of(tables={"cells": cells}))[GAIN_CAPTION])
    assert {name: column[0] for name, column in table.items()} == {
        "setting": "CIFAR‑10, Dir 0.1", "volume": "all",
        "FedAvg → control → DACA": "60.00 → 62.10 → 70.00", "work": "+2.10 ± 0.25", "skew": "+7.90",
        "gain": "+10.00", "paper": "+8.18", "points per 1 %": "+0.143 ± 0.020", "seeds": "3",
    }  # fmt: skip


def test_a_lower_bound_is_marked():
    columns = {
        "setting": ["100 % one-class"] * 2, "rule": ["none", "daca"], "target": [0.95] * 2, "seeds": [3] * 2,
        "reached": [0, 3], "rounds": [None, 90.0], "rounds_half_width": [None, 21.0], "seconds": [None, 272.0],
        "seconds_half_width": [None, 81.0], "speed_up": [None, 1.11], "speed_up_at_least": [False, True],
        "emd_after": [1.8, 1.7], "shift": [0.0, 0.1], "received_samples": [0.0, 4750.0],
    }  # fmt: skip
    (table,) = summaries("beyond-rounds", result_of(tables={"strategies": columns})).values()
    assert table["speed-up over FedAvg"] == ["–", "> 1.11"]


def test_the_head_says_how_tests_are_corrected_if_there_are_any():
    texts = {claims_page: "JFVO converges within 6 iterations", results_page: "no claim of the paper"}
    for page, claim in texts.items():
        assert "corrected together by Holm's method" in page({"fig7b": result_of(Verdict(claim, "yes", "p = 0.01"))})
        assert "Holm" not in page({})


def half_width(values):
    """Half of the 95 % confidence interval of the mean."""
    return stats.t.ppf(0.975, len(values) - 1) * stats.sem(values)


def test_what_headlines_of_findings_say_is_true_of_the_stored_results():
    cells = load_result("table2", "full", TOP / "results").tables["cells"]
    daca = where(cells, partition="Dir 0.1", rule="daca")
    row = {(r["dataset"], r["volume"]): r for r in rows_of(daca)}
    # With a tenth far below the paper's gain; with all CIFAR-10 is near it, MNIST is not.
    for dataset in ("mnist", "cifar10"):
        assert row[dataset, "10 %"]["gain"] < row[dataset, "10 %"]["paper_gain"] / 3
    for volume in ("all", "JFVO"):
        cifar10 = row["cifar10", volume]
        assert abs(cifar10["gain"] - cifar10["paper_gain"]) < 1
        assert all(abs(cifar10[part]) < cifar10[f"{part}_half_width"] for part in ("gain", "work", "skew"))
        mnist = row["mnist", volume]
        assert mnist["gain"] + mnist["gain_half_width"] < mnist["paper_gain"] / 2
    # A larger learning rate gains as much as sharing everything.
    mnist_cells = where(cells, dataset="mnist", partition="Dir 0.1")
    (tuned,) = where(mnist_cells, rule="none", volume="plan")["accuracy"]
    assert tuned >= max(where(mnist_cells, volume="all")["accuracy"])
    # More work alone does not explain the final gain on MNIST.
    mnist = row["mnist", "all"]
    assert abs(mnist["work"]) < mnist["work_half_width"]
    assert mnist["skew"] > mnist["skew_half_width"]


def test_findings_are_numbers_of_the_stored_results():
    stored = {name: load_result(name, "full", TOP / "results") for name in ("fig1a", "table2", "fig7a")}
    skew, volume, parts, tuned, methods = findings(stored)
    runs = stored["fig1a"].tables["runs"]
    rounds = [r for r, share in zip(runs["rounds"], runs["one_class_share"], strict=True) if share == 0.8]
    assert f"and {sum(rounds) / len(rounds):.0f} if 80 % of them hold one class" in skew
    cifar10 = where(stored["table2"].tables["runs"], dataset="cifar10", partition="Dir 0.1")
    lines = [
        line.translate({0xA0: " ", 0x2011: "-"}).strip(" |").split(" | ")
        for line in volume.splitlines()[2:]
        if "|" in line
    ]
    rows = {cells[0]: dict(zip(lines[0], cells, strict=True)) for cells in lines[2:]}
    for at in ("all", "JFVO"):
        accuracy = {
            rule: 100 * np.array(where(cifar10, volume=at, rule=rule)["accuracy"])
            for rule in ("none", "daca work", "daca", "scc", "cec")
        }
        for name, one, other in (
            ("DACA − FedAvg", "daca", "none"),
            ("of it by more work", "daca work", "none"),
            ("beyond more work", "daca", "daca work"),
            ("DACA − SCC", "daca", "scc"),
            ("DACA − CEC", "daca", "cec"),
        ):
            points = accuracy[one] - accuracy[other]
            assert rows[f"CIFAR-10, {at}"][name] == f"{points.mean():+.2f} ± {half_width(points):.2f}"
    assert f"FedAvg between {accuracy['none'].min():.1f} and {accuracy['none'].max():.1f} %" in volume
    assert ", ".join(f"{points:+.1f}" for points in accuracy["daca"] - accuracy["none"]) in volume
    printed = [rows["CIFAR-10, the paper"][f"DACA − {other}"] for other in ("FedAvg", "SCC", "CEC", "central")]
    assert printed == ["+8.18", "+1.90", "+0.97", "+0.17"]
    assert rows["MNIST, the paper"]["DACA − FedAvg"] == "+1.81"
    assert "(paper: 67.7 and 75.9)" in volume
    mnist = where(stored["table2"].tables["runs"], dataset="mnist", partition="Dir 0.1", volume="all")
    ends = [100 * np.array(where(mnist, rule=rule)["accuracy"]) for rule in ("daca work", "none")]
    work = ends[0] - ends[1]
    assert f"gains {work.mean():+.2f} ± {half_width(work):.2f} points at Dir 0.1" in parts
    planned = where(stored["table2"].tables["runs"], dataset="mnist", partition="Dir 0.1", volume="plan")
    ends = {rule: 100 * np.array(where(planned, rule=rule)["accuracy"]) for rule in ("none", "best")}
    assert (
        f"FedAvg ends at {ends['none'].mean():.2f} ± {half_width(ends['none']):.2f} % with learning rate 0.2" in tuned
    )
    assert "JFVO, SMM and SAA find the same delay**, within 0.00" in methods
    # What an incomplete result lacks is no finding.
    table2 = stored["table2"]
    some = {"dataset": "mnist", "volume": "10 %"}
    tables = {name: where(table2.tables[name], **some) for name in ("cells", "runs")}
    assert findings(stored | {"table2": replace(table2, tables=tables)}) == [skew, methods]
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
