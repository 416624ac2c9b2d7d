"""The recipes that a kernel project pastes: they parse, and every command and option exists."""

from __future__ import annotations

import configparser
import re
import shlex
from pathlib import Path
from typing import Any

import click
import pytest

from verify import commands
from verify.compare.speed import Limit

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"
WORKFLOW = EXAMPLES / "github-actions.yml"
TOX = EXAMPLES / "tox.ini"


def calls(text: str) -> list[list[str]]:
    """Every call of attncert in a recipe, as words."""
    found = re.findall(r"(?:^|run: )\s*(attncert [^|\n]*)", text, re.M)
    return [shlex.split(call.strip(), comments=True)[1:] for call in found]


def check(words: list[str]) -> None:
    """Fails where click does not take the words: no such command, option or value."""
    command = commands.load(words[0])
    assert command is not None, f"no command {words[0]}"
    context = command.make_context(words[0], words[1:])
    for text in context.params.get("limits") or ():
        Limit.parse(text)


def filled(text: str) -> str:
    """The tox recipe with its own values put in."""
    values = configparser.ConfigParser(interpolation=None)
    values.read_string(text)
    for key, value in values["attncert"].items():
        text = text.replace("{[attncert]" + key + "}", value)
    return text.replace("{posargs}", "").replace("{/}", "/")


@pytest.mark.parametrize("words", calls(WORKFLOW.read_text()), ids=" ".join)
def test_each_command_of_the_workflow_exists_with_its_options(words: list[str]) -> None:
    check(words)


@pytest.mark.parametrize("words", calls(filled(TOX.read_text())), ids=" ".join)
def test_each_command_of_the_tox_recipe_exists_with_its_options(words: list[str]) -> None:
    check(words)


def test_both_recipes_certify_bench_report_and_compare() -> None:
    """The tests above are of no use where nothing is found."""
    for text in (WORKFLOW.read_text(), filled(TOX.read_text())):
        assert {words[0] for words in calls(text)} == {"certify", "bench", "report", "compare"}


@pytest.mark.parametrize("words", [["certfy", "x"], ["compare", "a", "b", "--max-grow", "2"]])
def test_the_check_refuses_what_does_not_exist(words: list[str]) -> None:
    """Seen to fail: a misspelt command, a misspelt option."""
    with pytest.raises((AssertionError, click.ClickException)):
        check(words)


def test_the_workflow_is_yaml_with_named_steps_that_github_knows() -> None:
    """Jobs, steps that use or run something, and expressions that are closed."""
    yaml: Any = pytest.importorskip("yaml")
    data = yaml.safe_load(WORKFLOW.read_text())
    assert set(data["jobs"]) == {"certify"}
    for step in data["jobs"]["certify"]["steps"]:
        assert ("uses" in step) != ("run" in step)
    assert WORKFLOW.read_text().count("${{") == WORKFLOW.read_text().count("}}")


def test_the_tox_recipe_parses_and_each_environment_has_commands() -> None:
    values = configparser.ConfigParser(interpolation=None)
    values.read_string(TOX.read_text())
    environments = [name for name in values.sections() if name.startswith("testenv:")]
    assert environments == ["testenv:certify", "testenv:bench", "testenv:compare"]
    assert all(values[name]["commands"].strip() for name in environments)
