"""What a package index shows of the packages."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from kopf_kits.certificates import MissingLibraryError, require_cryptography

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = sorted(path.parent for path in ROOT.glob("packages/*/pyproject.toml"))
OURS = re.compile(r"https://github\.com/nolar/kopf/(?:blob|tree)/main/(?P<path>[^)#\s]+)")
LINK = re.compile(r"\]\(([^)\s]+)\)")

every_package = pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)


def read(package: Path) -> dict[str, Any]:
    content = tomllib.loads((package / "pyproject.toml").read_text("utf-8"))
    project: dict[str, Any] = content["project"]
    return project


@every_package
def test_links_are_absolute(package: Path) -> None:
    links = LINK.findall((package / "README.md").read_text("utf-8"))
    assert links
    assert [link for link in links if not link.startswith("https://")] == []


@every_package
def test_links_lead_to_what_exists(package: Path) -> None:
    texts = [(package / name).read_text("utf-8") for name in ["README.md", "pyproject.toml"]]
    paths = [match["path"].strip('"') for text in texts for match in OURS.finditer(text)]
    assert paths
    assert [path for path in paths if not (ROOT / path).exists()] == []


@every_package
def test_metadata_is_the_same_and_true(package: Path) -> None:
    project, reference = read(package), read(PACKAGES[0])
    for key in ["version", "license", "requires-python", "classifiers", "urls", "authors"]:
        assert project[key] == reference[key], key
    assert "Development Status :: 4 - Beta" in project["classifiers"]
    assert {"Documentation", "Source", "Issues", "Changelog"} <= {*project["urls"]}


@every_package
def test_dependencies_have_floors_only(package: Path) -> None:
    project = read(package)
    extras = project.get("optional-dependencies", {}).values()
    for dependency in [*project["dependencies"], *(item for extra in extras for item in extra)]:
        specifier = dependency.partition(";")[0].strip()
        is_sibling = specifier.startswith("kopf")
        pattern = r"[\w-]+(\[[\w,-]+\])?" + ("==" if is_sibling else ">=") + r"[\d.]+"
        assert re.fullmatch(pattern, specifier), dependency


def test_k35_generated_certificates_have_an_extra_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It brings no tunnels, and those who have no certificates are told of it."""
    monkeypatch.setitem(sys.modules, "cryptography.x509", None)
    with pytest.raises(MissingLibraryError) as caught:
        require_cryptography("The certificate")
    [extra] = re.findall(r"'kopf\[(\w+)\]'", str(caught.value))
    dependencies = read(ROOT / "packages" / "kopf")["optional-dependencies"][extra]
    assert [dependency.partition(">=")[0] for dependency in dependencies] == ["cryptography"]
