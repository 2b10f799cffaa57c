"""The options of logging, also for command lines of others."""

import json
import logging
from collections.abc import Iterator

import click
import click.testing
import pytest

from kopf_kits.cli import logging_options
from kopf_kits.logs import preserved_logging

REF = {"name": "n1", "namespace": "ns1"}


@click.command()
@logging_options
@click.option("--other", default="default")
def command(other: str) -> None:
    """A command of somebody else."""
    logging.getLogger("kopf.objects").debug("debugging", extra={"k8s_ref": REF})
    logging.getLogger("kopf.objects").info(other, extra={"k8s_ref": REF})
    logging.getLogger("kopf.objects").warning("warning", extra={"k8s_ref": REF})


@pytest.fixture(autouse=True)
def _logging_preserved() -> Iterator[None]:
    with preserved_logging():
        yield


def invoke(*args: str) -> list[str]:
    result = click.testing.CliRunner().invoke(command, args)
    assert result.exit_code == 0
    return result.output.splitlines()


def test_other_options_are_passed_through() -> None:
    lines = invoke("--log-format=plain", "--other=xyz")
    assert lines == ["[ns1/n1] xyz", "[ns1/n1] warning"]


@pytest.mark.parametrize(
    ("options", "count"),
    [((), 2), (("-v",), 3), (("--verbose",), 3), (("-d",), 3), (("-q",), 1), (("--quiet",), 1)],
)
def test_verbosity(options: tuple[str, ...], count: int) -> None:
    assert len(invoke(*options)) == count


def test_full_format_is_the_default() -> None:
    assert "kopf.objects         [INFO    ] [ns1/n1] default" in invoke()[0]


def test_prefixes_can_be_disabled() -> None:
    assert invoke("--log-format=plain", "--no-log-prefix") == ["default", "warning"]


def test_json_has_no_prefixes_by_default() -> None:
    data = json.loads(invoke("--log-format=json")[0])
    assert (data["message"], data["object"]) == ("default", REF)


def test_json_with_everything() -> None:
    data = json.loads(invoke("--log-format=json", "--log-prefix", "--log-refkey=k8s-obj")[0])
    assert (data["message"], data["k8s-obj"]) == ("[ns1/n1] default", REF)


def test_unknown_formats_are_refused() -> None:
    result = click.testing.CliRunner().invoke(command, ["--log-format=xml"])
    assert result.exit_code == 2
    assert "'xml'" in result.output


def test_own_command_keeps_its_description() -> None:
    assert (
        "A command of somebody else." in click.testing.CliRunner().invoke(command, "--help").output
    )
