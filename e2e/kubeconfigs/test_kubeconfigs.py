"""The table is true for us, for kubectl if it is here, and in the documentation."""

from __future__ import annotations

import asyncio
import os
import pathlib
import re
import shutil
import subprocess
from collections.abc import Iterator

import pytest

from e2e.kubeconfigs.case import ASKED, NOWHERE, REFUSED, Case
from e2e.kubeconfigs.cases import CASES
from e2e.kubeconfigs.report import OUTPUT, render
from e2e.kubeconfigs.world import World
from kopf_cogs.clients.errors import APIError
from kopf_cogs.clients.kubeconfig import login_with_kubeconfig
from kopf_cogs.clients.session import Client
from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.structs.credentials import LoginError

KUBECTL = shutil.which("kubectl")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    world = World(tmp_path_factory.mktemp("kubeconfigs"))
    yield world
    world.close()


@pytest.fixture
def variable(world: World, request: pytest.FixtureRequest) -> Iterator[str]:
    """What is in ``$KUBECONFIG``."""
    made = request.param.make(world)
    contents = made if isinstance(made, list) else [made]
    absent = [content for content in contents if content == "/does/not/exist"]
    paths = world.write(*(content for content in contents if content not in absent))
    world.take_seen()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(world.folder)  # for the files that plugins are told of
        yield os.pathsep.join([*absent, *map(str, paths)])


def by_id(case: Case) -> str:
    return case.id


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "variable" in metafunc.fixturenames:
        cases = [pytest.param(case, case, id=case.id) for case in CASES]
        metafunc.parametrize(("variable", "case"), cases, indirect=["variable"])


def request() -> None:
    """Log in, and request the same as kubectl does."""
    info = login_with_kubeconfig()
    assert info is not None
    settings = OperatorSettings()
    settings.networking.error_backoffs = ()

    async def get() -> None:
        async with Client(info, settings) as client:
            await client.get("/version")

    asyncio.run(get())


def test_b17_our_side(
    world: World, variable: str, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", variable)
    if case.ours == REFUSED:
        with pytest.raises((LoginError, APIError), match=case.message):
            request()
        assert world.take_seen() is None
    else:
        request()
        assert normal(world.take_seen()) == case.ours


@pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")
def test_b17_kubectl(world: World, variable: str, case: Case, tmp_path: pathlib.Path) -> None:
    result = subprocess.run(
        [str(KUBECTL), "get", "--raw", "/version"],
        env=os.environ | {"KUBECONFIG": variable, "HOME": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    expected = case.kubectl or case.ours
    if result.returncode:
        assert judge(result.stdout, result.stderr) == expected, result.stderr
    else:
        assert normal(world.take_seen()) == expected


def judge(stdout: str, stderr: str) -> str:
    """Why kubectl has failed."""
    if "Please enter Username" in stdout:
        return ASKED
    return NOWHERE if "localhost:8080" in stderr else REFUSED


def normal(seen: str | None) -> str:
    """The case of escaped characters means nothing, and kubectl changes that of headers."""
    return re.sub(r"%[0-9A-F]{2}", lambda match: match[0].lower(), seen or "nothing")


def test_the_table_is_documented() -> None:
    assert OUTPUT.read_text(encoding="utf-8") == render(), "run: python -m e2e.kubeconfigs"


def test_ids_are_unique_and_differences_are_explained() -> None:
    assert len({case.id for case in CASES}) == len(CASES) >= 40
    for case in CASES:
        if case.kubectl and not (case.ours == REFUSED and case.kubectl == NOWHERE):
            assert case.reason, case.id
        assert (case.ours == REFUSED) == bool(case.message), case.id
