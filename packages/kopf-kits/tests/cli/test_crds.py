"""The command `kopf crds`: the definitions of models in files."""

from __future__ import annotations

from pathlib import Path

import click.testing
import pytest
import yaml

from kopf_kits.cli.groups import main
from kopf_kits.definitions.errors import DefinitionError, SchemaError

MODELS = '''
import dataclasses
import kopf

@dataclasses.dataclass
class Spec:
    """What is wanted.

    In two lines.
    """
    replicas: int = 1
    "How many of them."

@kopf.resource('websites.example.com/v1', kind='Website', short=['web'])
@dataclasses.dataclass
class Website:
    spec: Spec

@kopf.resource('blogs.example.com/v1')
@dataclasses.dataclass
class Blog:
    spec: Spec
'''


@pytest.fixture
def models(tmp_path: Path) -> str:
    path = tmp_path / "models.py"
    path.write_text(MODELS)
    return str(path)


def run(*args: str) -> click.testing.Result:
    return click.testing.CliRunner().invoke(main, ["crds", *args], catch_exceptions=False)


def test_definitions_are_printed_in_yaml(models: str) -> None:
    result = run(models)
    blog, website = yaml.safe_load_all(result.stdout)
    assert blog["metadata"]["name"] == "blogs.example.com"
    assert website["spec"]["names"] == {
        "kind": "Website",
        "listKind": "WebsiteList",
        "plural": "websites",
        "singular": "website",
        "shortNames": ["web"],
    }
    (version,) = website["spec"]["versions"]
    assert version["schema"]["openAPIV3Schema"]["properties"]["spec"] == {
        "type": "object",
        "description": "What is wanted.\n\nIn two lines.",
        "properties": {
            "replicas": {"type": "integer", "default": 1, "description": "How many of them."}
        },
    }
    assert "description: |-" in result.stdout


def test_models_are_found_where_they_are_imported_from(models: str, tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text("import models")
    result = run(str(tmp_path / "main.py"))
    names = [doc["metadata"]["name"] for doc in yaml.safe_load_all(result.stdout)]
    assert names == ["blogs.example.com", "websites.example.com"]


def test_definitions_are_written_to_a_file(models: str, tmp_path: Path) -> None:
    result = run(models, "-o", str(tmp_path / "crds.yaml"))
    assert len([*yaml.safe_load_all((tmp_path / "crds.yaml").read_text())]) == 2
    assert result.stdout == ""


def test_definitions_are_written_to_a_folder(models: str, tmp_path: Path) -> None:
    run(models, "-o", str(tmp_path / "crds"))
    paths = sorted(path.name for path in (tmp_path / "crds").iterdir())
    assert paths == ["blogs.example.com.yaml", "websites.example.com.yaml"]


def test_files_without_models_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "handlers.py"
    path.write_text("import kopf")
    with pytest.raises(DefinitionError, match=r"no models with @kopf\.resource\(\) in .*handlers"):
        run(str(path))


def test_nothing_to_load_is_an_error() -> None:
    result = run()
    assert result.exit_code == 2
    assert "Name a file or a module with models." in result.output


def test_types_with_no_schema_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "models.py"
    path.write_text(MODELS.replace("replicas: int = 1", "replicas: complex = 1"))
    with pytest.raises(SchemaError, match=r"Blog\.spec\.replicas: complex cannot be written"):
        run(str(path))
