"""The command `kopf crds`: the definitions of models in files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click.testing
import pytest
import yaml

from kopf_core.engines.activities import ActivityError
from kopf_kits.cli.groups import main
from kopf_kits.definitions.errors import DefinitionError, SchemaError
from kopf_kits.runner import KopfRunner
from kopf_kits.sandbox import SandboxThread
from kopf_kits.sandbox.base.statuses import StatusError

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


VERSIONS = """
import dataclasses
import kopf

@kopf.resource('gadgets.example.com/v1', storage=True)
@dataclasses.dataclass
class Gadget:
    size: int = 1

@kopf.resource('gadgets.example.com/v1beta1', kind='Gadget')
@dataclasses.dataclass
class OldGadget:
    size: int = 1

@kopf.resource('others.example.com/v1')
@dataclasses.dataclass
class Other:
    size: int = 1
"""


def test_n_other_versions_of_an_imported_model_are_defined_with_it(tmp_path: Path) -> None:
    """Otherwise, the definition would remove the versions that the handlers do not name."""
    (tmp_path / "versions.py").write_text(VERSIONS)
    (tmp_path / "main.py").write_text("from versions import Gadget")
    [definition] = yaml.safe_load_all(run(str(tmp_path / "main.py")).stdout)
    assert [version["name"] for version in definition["spec"]["versions"]] == ["v1", "v1beta1"]


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


OBJECT = """
---
apiVersion: example.com/v1
kind: Website
metadata: {name: x, namespace: default}
spec: {replicas: 1}
"""


def test_changes_are_compared_with_a_file(models: str, tmp_path: Path) -> None:
    known = tmp_path / "known.yaml"
    known.write_text(run(models).stdout + OBJECT)
    assert run(models, "--against", str(known)).exit_code == 0
    Path(models).write_text(MODELS.replace("replicas: int = 1", "replicas: str = '1'"))
    result = run(models, "--against", str(known))
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "blogs.example.com v1 .spec.replicas: the type is changed from integer to string",
        "blogs.example.com v1 .spec.replicas: the default is changed from 1 to '1'",
        "websites.example.com v1 .spec.replicas: the type is changed from integer to string",
        "websites.example.com v1 .spec.replicas: the default is changed from 1 to '1'",
        'Website default/x: spec.replicas: Invalid value: "integer": '
        'spec.replicas in body must be of type string: "integer"',
    ]
    assert "Breaking changes: 5." in result.stderr


@pytest.mark.parametrize("against", ["file", "cluster"])
def test_n_kinds_that_have_nothing_to_be_compared_with_are_named(
    models: str, cluster: SandboxThread, tmp_path: Path, against: str
) -> None:
    """Otherwise, a wrong file looks as if nothing breaks."""
    known = tmp_path / "known.yaml"
    known.write_text(OBJECT)
    result = run(models, "--against", str(known) if against == "file" else against)
    assert result.exit_code == 0
    assert "websites.example.com is not defined there: it is a new kind." in result.stderr
    documents = [*yaml.safe_load_all(run(models).stdout)]
    known.write_text(yaml.safe_dump_all(documents))
    cluster.apply(documents)
    result = run(models, "--against", str(known) if against == "file" else against)
    assert "new kind" not in result.stderr


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SandboxThread]:
    with SandboxThread() as cluster:
        path = cluster.write_kubeconfig(tmp_path / "kubeconfig")
        monkeypatch.setenv("KUBECONFIG", str(path))
        yield cluster


def test_changes_are_compared_with_a_cluster(models: str, cluster: SandboxThread) -> None:
    assert run(models, "--against", "cluster").exit_code == 0
    cluster.apply([*yaml.safe_load_all(run(models).stdout)])
    assert run(models, "--against", "cluster").exit_code == 0
    Path(models).write_text(MODELS.replace("replicas: int = 1", "other: int = 1"))
    result = run(models, "--against", "cluster")
    assert result.exit_code == 1
    assert "websites.example.com v1 .spec.replicas: the field is removed" in result.stdout


def test_breaking_definitions_are_not_written_unless_forced(
    models: str, cluster: SandboxThread, tmp_path: Path
) -> None:
    cluster.apply([*yaml.safe_load_all(run(models).stdout)])
    cluster.create(next(yaml.safe_load_all(OBJECT)))
    output = tmp_path / "crds.yaml"
    options = ["--against", "cluster", "-o", str(output)]
    assert run(models, *options).exit_code == 0
    output.unlink()
    Path(models).write_text(MODELS.replace("replicas: int = 1", "other: int = 1"))
    result = run(models, *options)
    assert result.exit_code == 1
    assert not output.exists()
    assert "x: spec.replicas would be lost (it is set by " in result.stdout
    forced = run(models, *options, "--force")
    assert forced.exit_code == 0
    assert forced.stdout == result.stdout
    assert "other" in output.read_text()


def test_writing_is_forced_only_against_something(models: str) -> None:
    result = click.testing.CliRunner().invoke(main, ["crds", "--force", models])
    assert result.exit_code == 2
    assert "Use --force with --against" in result.output


HANDLERS = """
@kopf.on.create('websites')
def fn(spec, **_):
    print('created', dict(spec))
"""


def test_operators_define_their_kinds_at_the_start(models: str, cluster: SandboxThread) -> None:
    Path(models).write_text(MODELS + HANDLERS)
    obj = next(yaml.safe_load_all(OBJECT))
    with KopfRunner(["run", "-A", "--apply-crds", models]) as runner:
        cluster.create({**obj, "spec": {}})
        cluster.wait("websites", "x", lambda obj: "last-handled" in str(obj))
    assert runner.exit_code == 0
    assert "The definitions are applied: blogs.example.com, websites.example.com" in runner.output
    assert "created {'replicas': 1}" in runner.output


LOGIN = """
tokens = []

@kopf.on.login()
def log_in(**kwargs):
    print('logged in with', tokens)
    return kopf.login_with_kubeconfig(**kwargs)

@kopf.on.startup()
async def prepare(**_):
    tokens.append('a token')
"""


def test_n_operators_log_in_once_to_define_and_to_serve_their_kinds(
    models: str, cluster: SandboxThread
) -> None:
    """The startup handlers go first: they can prepare what the login handlers need."""
    Path(models).write_text(MODELS + HANDLERS + LOGIN)
    obj = next(yaml.safe_load_all(OBJECT))
    with KopfRunner(["run", "-A", "--apply-crds", models]) as runner:
        cluster.create({**obj, "spec": {}})
        cluster.wait("websites", "x", lambda obj: "last-handled" in str(obj))
    assert runner.exit_code == 0
    assert [line for line in runner.output.splitlines() if line.startswith("logged in")] == [
        "logged in with ['a token']"
    ]


POLICIES = """
@kopf.resource('sites.example.com/v1', policies=[kopf.schema.Policy('object.spec.replicas < 3')])
@dataclasses.dataclass
class Site:
    spec: Spec
"""


def test_policies_are_written_beside_their_definitions(models: str, tmp_path: Path) -> None:
    Path(models).write_text(MODELS + POLICIES)
    kinds = [obj["kind"] for obj in yaml.safe_load_all(run(models).stdout)]
    definition = "CustomResourceDefinition"
    policy = ["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"]
    assert kinds == [definition, definition, *policy, definition]
    run(models, "-o", str(tmp_path / "crds"))
    text = (tmp_path / "crds" / "sites.example.com.yaml").read_text()
    assert [obj["kind"] for obj in yaml.safe_load_all(text)] == [definition, *policy]


def test_n_policies_that_are_not_compared_are_named(models: str, tmp_path: Path) -> None:
    Path(models).write_text(MODELS + POLICIES)
    known = tmp_path / "known.yaml"
    run(models, "-o", str(known))
    result = run(models, "--against", str(known))
    assert result.exit_code == 0
    assert "Policies are not compared: v1.sites.example.com." in result.stderr
    Path(models).write_text(MODELS)
    assert "olicies" not in run(models, "--against", str(known)).stderr


def test_rules_beyond_the_budgets_are_warned_about(models: str) -> None:
    rule = (
        "@kopf.resource('texts.example.com/v1', rules=[kopf.schema.Rule(\"self.a.matches('a+')\")])"
    )
    Path(models).write_text(MODELS + f"\n{rule}\n@dataclasses.dataclass\nclass Text:\n    a: str\n")
    result = run(models)
    assert result.exit_code == 0
    assert result.stderr == ""
    Path(models).write_text(Path(models).read_text().replace("a+", "a+" * 99))
    warning = run(models).stderr
    assert warning.startswith("Warning: texts.example.com v1: the object: the rule self.a.matches(")
    assert " can cost 1.6x the budget of a rule: simplify it" in warning


def test_operators_apply_policies_at_the_start(models: str, cluster: SandboxThread) -> None:
    Path(models).write_text(MODELS + POLICIES)
    obj = {**next(yaml.safe_load_all(OBJECT)), "kind": "Site"}
    with KopfRunner(["run", "-A", "--apply-crds", models]) as runner:
        with pytest.raises(StatusError, match=r"failed expression: object\.spec\.replicas < 3"):
            cluster.create({**obj, "spec": {"replicas": 3}})
        cluster.create({**obj, "spec": {"replicas": 2}})
    assert runner.exit_code == 0


def test_operators_do_not_start_if_their_kinds_break_others(
    models: str, cluster: SandboxThread
) -> None:
    with KopfRunner(["run", "-A", "--apply-crds", models]):
        pass
    Path(models).write_text(MODELS.replace("replicas: int = 1", "other: int = 1"))
    with (
        pytest.raises(ActivityError, match=r"not applied.*\.spec\.replicas: the field is removed"),
        KopfRunner(["run", "-A", "--apply-crds", models]),
    ):
        pass
    with KopfRunner(["run", "-A", "--apply-crds", "--force", models]) as runner:
        pass
    assert runner.exit_code == 0


def test_force_is_for_definitions_only(models: str) -> None:
    result = click.testing.CliRunner().invoke(main, ["run", "--force", models])
    assert result.exit_code == 2
    assert "Use --force with --apply-crds" in result.output


def test_nothing_is_defined_in_rehearsals(models: str) -> None:
    args = ["run", "--apply-crds", "--once", "--dry-run", models]
    result = click.testing.CliRunner().invoke(main, args)
    assert result.exit_code == 2
    assert "Use either --apply-crds or --dry-run" in result.output
