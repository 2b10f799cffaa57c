"""The page about the command line describes every command, and every option of it."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from kopf_kits.cli.groups import main

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text("utf-8")
CONTEXT = click.Context(main)
COMMANDS = main.list_commands(CONTEXT)


def describe(name: str) -> str:
    """The part of the page about the command; commands for objects share a part."""
    parts = re.split(r"^(?=##+ )", PAGE, flags=re.MULTILINE)
    titled = [part for part in parts if re.search(rf"kopf {name}\b", part.partition("\n")[0])]
    return "".join(titled)


@pytest.mark.parametrize("name", COMMANDS)
def test_n_every_command_has_its_part_of_the_page(name: str) -> None:
    shared = "## Objects: what is going on with them"
    assert describe(name) or f"kopf {name} KIND" in PAGE[PAGE.index(shared) :]


@pytest.mark.parametrize("name", COMMANDS)
def test_n_every_option_of_every_command_is_on_the_page(name: str) -> None:
    command = main.get_command(CONTEXT, name)
    assert command is not None
    options = [[*param.opts, *param.secondary_opts] for param in command.params]
    named = [[one for one in names if one.startswith("--")] for names in options]
    absent = [names for names in named if names and not any(f"`{n}`" in PAGE for n in names)]
    assert absent == []
