"""The import contracts are worth something only if they fail when a layer is broken."""

import configparser
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# One offending line for each contract, in a module where nobody should write it.
OFFENCES = {
    "packages": ("kopf_cogs/helpers/offender.py", "import kopf_core"),
    "cogs": ("kopf_cogs/structs/offender.py", "import kopf_cogs.clients"),
    "structs-are-pure": ("kopf_cogs/structs/offender2.py", "import asyncio"),
    "core": ("kopf_core/actions/offender.py", "import kopf_core.reactor"),
    "reactor": ("kopf_core/reactor/streams/offender.py", "import kopf_core.reactor.life"),
    "engines": (
        "kopf_core/engines/background/offender.py",
        "import kopf_core.engines.indexing",
    ),
    "kits": ("kopf_kits/sandbox/offender.py", "import kopf_kits.cli"),
    "sandbox-is-alone": ("kopf_kits/sandbox/offender2.py", "import kopf_cogs.structs"),
    "sandbox": ("kopf_kits/sandbox/store/offender.py", "import kopf_kits.sandbox.http"),
    "third-party-clients": ("kopf_core/intents/offender.py", "import kubernetes"),
    "click-in-cli": ("kopf_cogs/helpers/offender2.py", "import click"),
}


def read_contracts() -> dict[str, str]:
    """The contracts' names by their ids."""
    config = configparser.ConfigParser()
    config.read(ROOT / "import-linter.ini")
    prefix = "importlinter:contract:"
    return {
        s.removeprefix(prefix): config[s]["name"] for s in config.sections() if s.startswith(prefix)
    }


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the linter says on a copy of the sources with all the offences in it."""
    folder = tmp_path_factory.mktemp("sources")
    for source in ROOT.glob("packages/*/src/*"):
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(source, folder / source.name, ignore=ignore)
    for package in ("kopf_kits/cli", "kopf_core/engines"):
        (folder / package).mkdir(exist_ok=True)
        (folder / package / "__init__.py").touch()
    (folder / "kopf_core/engines/indexing.py").touch()
    for path, line in OFFENCES.values():
        (folder / path).write_text(f"{line}\n")
    linter = Path(sys.executable).with_name("lint-imports")
    command = [str(linter), "--config", str(ROOT / "import-linter.ini"), "--no-cache"]
    env = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run(command, cwd=folder, env=env, stdout=subprocess.PIPE, text=True)
    assert done.returncode == 1
    return done.stdout


def test_every_contract_has_its_offence() -> None:
    assert set(OFFENCES) == set(read_contracts())


@pytest.mark.parametrize("contract", sorted(OFFENCES))
def test_broken_layer_fails(verdicts: str, contract: str) -> None:
    assert f"{read_contracts()[contract]} BROKEN" in verdicts
