"""The public names of the package."""

import subprocess
import sys

import pytest

import kopf_kits


@pytest.mark.parametrize("name", kopf_kits.__all__)
def test_public_names_are_there(name: str) -> None:
    assert getattr(kopf_kits, name).__name__ == name
    assert name in dir(kopf_kits)


def test_all_names_have_their_sources() -> None:
    assert sorted(kopf_kits._MODULES) == sorted(kopf_kits.__all__)


def test_absent_names_are_told_as_usual() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nosuch'"):
        kopf_kits.nosuch  # noqa: B018


def test_importing_loads_nothing_heavy() -> None:
    code = "import sys, kopf_kits; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert not {"asyncio", "aiohttp", "yaml", "click"} & set(done.stdout.split())


def test_hierarchies_load_no_tools_for_development() -> None:
    code = "import sys; from kopf_kits import adopt; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    loaded = {name for name in done.stdout.split() if name.startswith("kopf_kits.")}
    assert loaded == {"kopf_kits.hierarchies", "kopf_kits.models"}
