"""Test that commands and options in the documentation exist. (Sphinx checks links, with warnings as errors.)"""

import ast
import importlib.util
import json
import re
import shlex
from pathlib import Path

import pytest
import typer

from fedcast.cli.app import app

DOCS = Path(__file__).parent.parent / "docs"
PAGES = sorted(DOCS.rglob("*.md"))


def blocks(page, language):
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_commands_and_options_exist(page):
    commands = typer.main.get_command(app).commands
    for block in blocks(page, "bash"):
        for line in block.replace("\\\n", " ").splitlines():
            program, *words = shlex.split(line, comments=True) or [""]
            if program != "fedcast":
                continue
            known = {name for option in commands[words[0]].params for name in (*option.opts, *option.secondary_opts)}
            assert {word for word in words if word.startswith("--")} <= known, line


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_python_can_be_read(page):
    for block in blocks(page, "python"):
        line_of_a_table = re.match(r'"\w+": ', block)
        ast.parse(f"{{{block}}}" if line_of_a_table else block)


@pytest.mark.parametrize("name", ["framework", "flow"])
def test_diagrams_need_nothing_from_outside(name):
    drawn = (DOCS / "images" / f"{name}.svg").read_text(encoding="utf-8")
    assert "prefers-color-scheme: dark" in drawn
    assert set(re.findall(r"https?://[^\"]+", drawn)) == {"http://www.w3.org/2000/svg"}


def test_tables_of_protected_sharing_are_those_of_the_study():
    study = DOCS.parent / "studies" / "protected"
    spec = importlib.util.spec_from_file_location("protected_table", study / "table.py")
    table = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(table)
    results, choose = (json.loads((study / f"{name}.json").read_text("utf-8")) for name in ("results", "choose"))
    page = (DOCS / "explanation" / "privacy.md").read_text(encoding="utf-8")
    assert len(results) >= 90
    for lines in (table.features_table(choose), *(table.table(share, results) for share in table.TARGETS)):
        assert "\n".join(lines) in page
