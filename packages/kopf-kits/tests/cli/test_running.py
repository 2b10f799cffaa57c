"""``kopf run``: what is passed to the operator, and what users see when it cannot run."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click.testing
import pytest

from kopf_cogs.configs.settings import OperatorSettings
from kopf_core.intents import decorators
from kopf_core.intents.registries import (
    OperatorRegistry,
    get_default_registry,
    set_default_registry,
)
from kopf_core.reactor.process import running
from kopf_kits.cli import CLIControls, main
from kopf_kits.logs import preserved_logging


@pytest.fixture(autouse=True)
def _process_preserved(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    registry = get_default_registry()
    monkeypatch.setattr(sys, "path", list(sys.path))
    with preserved_logging():
        yield
    set_default_registry(registry)


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The arguments the operator would be run with; the environment is added to them."""
    kwargs: dict[str, Any] = {}

    def run(**options: Any) -> None:
        kwargs.update(options, KUBECONFIG=os.environ.get("KUBECONFIG"))

    monkeypatch.setattr(running, "run", run)
    return kwargs


@pytest.fixture
def handlers(tmp_path: Path) -> str:
    path = tmp_path / "handlers.py"
    path.write_text("")
    return str(path)


def invoke(*args: str, **kwargs: Any) -> click.testing.Result:
    return click.testing.CliRunner().invoke(main, ["run", *args], **kwargs)


def test_defaults(called: dict[str, Any], handlers: str) -> None:
    assert invoke(handlers).exit_code == 0
    assert not called["clusterwide"]
    assert not called["namespaces"]
    assert called["standalone"] is None
    assert called["priority"] is None
    assert called["peering_name"] is None
    assert called["liveness_endpoint"] is None


def test_s8_nothing_to_load_is_told_at_once(
    called: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    set_default_registry(OperatorRegistry())
    assert invoke().exit_code == 0
    assert called
    assert caplog.messages == ["Nothing is loaded: name files with handlers, or modules after -m."]


def test_s8_handlers_registered_by_other_means_are_fine(
    called: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    registry = OperatorRegistry()
    decorators.event("kopfexamples", registry=registry)(lambda **_: None)
    assert invoke(obj=CLIControls(registry=registry)).exit_code == 0
    assert called
    assert not caplog.messages


@pytest.mark.parametrize(
    ("args", "name", "value"),
    [
        (["-A"], "clusterwide", True),
        (["--all-namespaces"], "clusterwide", True),
        (["-n", "ns1", "--namespace=ns2"], "namespaces", ("ns1", "ns2")),
        (["--standalone"], "standalone", True),
        (["--dev"], "priority", 666),
        (["--dev", "-p", "5"], "priority", 5),
        (["-p", "123"], "priority", 123),
        (["--priority=-1"], "priority", -1),
        (["--shards=mine@ns"], "shards", "mine@ns"),
        (["--qps=0.5"], "qps", 0.5),
        (["--burst=40"], "burst", 40),
        (["--ring=mine@ns"], "ring", "mine@ns"),
        (["--namespace-selector=tenant in (a, b)"], "namespace_selector", "tenant in (a, b)"),
        (["-P", "peers"], "peering_name", "peers"),
        (["-L", "http://:8080/healthz"], "liveness_endpoint", "http://:8080/healthz"),
    ],
)
def test_options(
    called: dict[str, Any], handlers: str, args: list[str], name: str, value: object
) -> None:
    assert invoke(*args, handlers).exit_code == 0
    assert called[name] == value


def test_options_from_environment(called: dict[str, Any], handlers: str) -> None:
    env = {"KOPF_RUN_NAMESPACES": "ns1 ns2", "KOPF_RUN_PRIORITY": "7", "KOPF_RUN_STANDALONE": "1"}
    assert invoke(handlers, env=env).exit_code == 0
    assert called["namespaces"] == ("ns1", "ns2")
    assert called["priority"] == 7
    assert called["standalone"] is True


@pytest.mark.parametrize(
    ("variable", "value", "name", "expected"),
    [
        ("KOPF_RUN_NAMESPACE", "ns1 ns2", "namespaces", ("ns1", "ns2")),
        ("KOPF_RUN_NAMESPACES", "ns1 ns2", "namespaces", ("ns1", "ns2")),
        ("KOPF_RUN_ALL_NAMESPACES", "1", "clusterwide", True),
        ("KOPF_RUN_CLUSTERWIDE", "true", "clusterwide", True),
        ("KOPF_RUN_PEERING", "peers", "peering_name", "peers"),
        ("KOPF_RUN_PEERING_NAME", "peers", "peering_name", "peers"),
        ("KOPF_RUN_LIVENESS", "http://:8080/x", "liveness_endpoint", "http://:8080/x"),
        ("KOPF_RUN_LIVENESS_ENDPOINT", "http://:8080/x", "liveness_endpoint", "http://:8080/x"),
        ("KOPF_RUN_STANDALONE", "1", "standalone", True),
        ("KOPF_RUN_DEV", "1", "priority", 666),
        ("KOPF_RUN_PRIORITY", "7", "priority", 7),
    ],
)
def test_r28_all_options_have_variables(
    called: dict[str, Any], handlers: str, variable: str, value: str, name: str, expected: object
) -> None:
    assert invoke(handlers, env={variable: value}).exit_code == 0
    assert called[name] == expected


@pytest.mark.parametrize("variable", ["KOPF_RUN_MODULE", "KOPF_RUN_MODULES"])
def test_r28_modules_are_a_list_in_their_variable(
    called: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("mod1_of_e28", "mod2_of_e28"):
        (tmp_path / f"{name}.py").write_text("")
        monkeypatch.delitem(sys.modules, name, raising=False)
    assert invoke(env={variable: "mod1_of_e28 mod2_of_e28"}).exit_code == 0
    assert {"mod1_of_e28", "mod2_of_e28"} <= sys.modules.keys()


def test_r28_options_in_the_command_line_win(called: dict[str, Any], handlers: str) -> None:
    env = {"KOPF_RUN_NAMESPACE": "ns1", "KOPF_RUN_PEERING": "other"}
    assert invoke("-n", "ns2", "-P", "peers", handlers, env=env).exit_code == 0
    assert (called["namespaces"], called["peering_name"]) == (("ns2",), "peers")


def test_controls_are_passed(called: dict[str, Any], handlers: str) -> None:
    registry, settings = OperatorRegistry(), OperatorSettings()
    controls = CLIControls(registry=registry, settings=settings)
    assert invoke(handlers, obj=controls).exit_code == 0
    assert called["registry"] is registry
    assert called["settings"] is settings
    assert get_default_registry() is registry
    assert "vault" not in called


def test_sandbox_is_there_while_running(called: dict[str, Any], handlers: str) -> None:
    before = os.environ.get("KUBECONFIG")
    result = invoke("--sandbox", handlers)
    assert result.exit_code == 0
    assert called["clusterwide"]
    assert f"export KUBECONFIG={called['KUBECONFIG']}" in result.output
    assert not Path(called["KUBECONFIG"]).exists()
    assert os.environ.get("KUBECONFIG") == before


def test_sandbox_has_the_manifests(
    called: dict[str, Any], handlers: str, crd_path: Path, obj_path: Path
) -> None:
    result = invoke("--sandbox", "-f", str(crd_path), "-f", str(obj_path), handlers)
    assert result.exit_code == 0
    assert "Applied kopfexample/kopf-example-1" in result.output


def test_engine_of_the_sandbox_can_be_in_the_environment(
    called: dict[str, Any], handlers: str
) -> None:
    assert invoke(handlers, env={"KOPF_RUN_ENGINE": "envtest"}).exit_code == 0
    assert called


def test_sandbox_is_ready_when_the_manifests_are_applied(
    called: dict[str, Any], handlers: str, crd_path: Path
) -> None:
    lines = invoke("--sandbox", "-f", str(crd_path), handlers).output.splitlines()
    assert lines[0].startswith("Applied ")
    assert lines[1].startswith("The sandbox is ready")


@pytest.mark.parametrize(
    "args",
    [
        ["-A", "-n", "ns1"],
        ["-f", "crd.yaml"],
        ["--engine=envtest"],
        ["--engine=emulator"],
        ["--lease=a", "--peering=b"],
        ["--serve=http://127.0.0.1"],
        ["--nosuch"],
        ["--priority=abc"],
    ],
)
def test_wrong_usage(called: dict[str, Any], handlers: str, args: list[str]) -> None:
    result = invoke(*args, handlers)
    assert result.exit_code == 2
    assert "Error: " in result.output
    assert not called


@pytest.mark.parametrize(
    ("way", "other"),
    [
        *((way, other) for way in ("--shards", "--ring") for other in ("--lease=a", "--once")),
        ("--shards", "--peering=a"),
        ("--ring", "--peering=a"),
        ("--shards", "--ring=a"),
    ],
)
def test_o_what_does_not_go_with_shards_is_refused(
    called: dict[str, Any], handlers: str, way: str, other: str
) -> None:
    result = invoke("-A", f"{way}=a", other, handlers)
    assert result.exit_code == 2
    name = other.partition("=")[0]
    assert f"Use either {way} or {name}, not both." in result.output
    assert not called


def test_i_wrong_urls_to_serve_at_are_explained(called: dict[str, Any], handlers: str) -> None:
    result = invoke("--serve", "http://127.0.0.1", handlers)
    assert result.exit_code == 2
    assert "http://host:port is expected, such as http://0.0.0.0:8080." in result.output


@pytest.mark.parametrize(
    "url",
    [
        "8080",
        ":8080",
        "http://localhost",
        "http://localhost:0/",
        "http://localhost:99999/",
        "http://localhost:abc/",
        "http://[::1:8080/",
        "https://localhost:8080/",
        "localhost:8080/healthz",
    ],
)
def test_wrong_liveness_urls(called: dict[str, Any], handlers: str, url: str) -> None:
    result = invoke("-L", url, handlers)
    assert result.exit_code == 2
    assert f"{url!r}: http://host:port/path is expected" in result.output
    assert not called


def run_program(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run it as users do."""
    command = [sys.executable, "-W", "ignore", "-m", "kopf_kits.cli", "run", *args]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **env})


def test_absent_file_is_explained_in_one_line() -> None:
    done = run_program("nosuchfile.py")
    assert done.returncode == 1
    assert done.stderr == "Error: The file 'nosuchfile.py' does not exist.\n"


@pytest.mark.parametrize("library", ["pykube", "kubernetes"])
def test_q_installed_client_libraries_that_cannot_be_imported_are_named(
    library: str, tmp_path: Path
) -> None:
    """A file of the user beside the handlers has the name of what they import, e.g. requests."""
    pytest.importorskip(library)
    (tmp_path / "requests.py").write_text("raise ImportError('it is mine')\n")
    (tmp_path / "handlers.py").write_text("")
    absent = {"KUBECONFIG": str(tmp_path / "absent"), "KUBERNETES_SERVICE_HOST": ""}
    done = run_program("-A", str(tmp_path / "handlers.py"), **absent)
    assert done.returncode == 1
    [error] = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
    assert "There are no usable credentials" in error
    text = f"The library {library!r} is installed, but cannot be imported: it is mine."
    assert text in error


def test_broken_file_is_explained_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("x = 1\n1/0\n")
    path = str((tmp_path / "broken.py").resolve())
    done = run_program(path)
    assert done.returncode == 1
    assert done.stderr == f"Error: {path}:2: ZeroDivisionError: division by zero\n"


def test_broken_file_is_explained_in_detail_when_verbose(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("x = 1\n1/0\n")
    done = run_program("-v", str(tmp_path / "broken.py"))
    assert done.returncode == 1
    assert "    1/0\n" in done.stderr
    assert done.stderr.startswith("Traceback (most recent call last):\n")
    assert "kopf_kits" not in done.stderr
    assert "importlib" not in done.stderr


def test_wrong_syntax_is_explained_in_detail_when_verbose(tmp_path: Path) -> None:
    path = (tmp_path / "broken.py").resolve()
    path.write_text("x = 1\ny = = 2\n")
    done = run_program("-v", str(path))
    assert done.returncode == 1
    assert done.stderr == (
        f'  File "{path}", line 2\n    y = = 2\n        ^\nSyntaxError: invalid syntax\n'
        f"Error: {path}:2: SyntaxError: invalid syntax\n"
    )


def test_paths_as_modules_are_explained_in_one_line() -> None:
    done = run_program("-m", "../x")
    assert done.returncode == 1
    assert done.stderr == "Error: '../x' is not a name of a module; paths go without -m.\n"


def test_broken_manifest_is_explained_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "handlers.py").write_text("")
    done = run_program("--sandbox", "-f", "nosuch.yaml", str(tmp_path / "handlers.py"))
    assert done.returncode == 1
    assert done.stderr == "Error: nosuch.yaml: No such file or directory\n"


def test_absent_definition_is_explained_in_one_line(tmp_path: Path, obj_path: Path) -> None:
    (tmp_path / "handlers.py").write_text("")
    done = run_program("--sandbox", "-f", str(obj_path), str(tmp_path / "handlers.py"))
    assert done.returncode == 1
    reason = (
        "kopf.dev/v1 has no kind KopfExample: add the file with its CRD by -f "
        "(for models, `kopf crds` writes it)."
    )
    assert done.stderr == f"Error: {obj_path}: {reason}\n"


NESTED = """\
import threading
from kopf_cogs.clients.vault import Vault
from kopf_cogs.structs.credentials import ConnectionInfo
from kopf_core.intents.registries import OperatorRegistry
from kopf_core.reactor.process.running import run

stop = threading.Event()
stop.set()
vault = Vault({"x": ConnectionInfo(server="http://127.0.0.1:1")})
run(registry=OperatorRegistry(), vault=vault, stop_flag=stop, clusterwide=True)
"""


@pytest.fixture
def nested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A file that runs an operator, with no condition around."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nested.py").write_text(NESTED)
    return "nested.py"


def test_operators_of_loaded_files_are_the_only_ones(
    nested: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert invoke("--verbose", nested).exit_code == 0
    assert len([text for text in caplog.messages if text.startswith("Starting Kopf")]) == 1
    [warning] = [text for text in caplog.messages if "is only loaded" in text]
    assert warning.startswith("nested.py:10: an operator is run")


@pytest.mark.parametrize(
    ("args", "controls"),
    [
        ([], CLIControls(stop_flag=threading.Event())),
        (["--sandbox"], CLIControls()),
        (["--once"], CLIControls()),
        (["--once", "--dry-run"], CLIControls()),
    ],
    ids=["tests", "sandbox", "once", "rehearsal"],
)
def test_operators_of_loaded_files_are_refused_where_they_do_not_fit(
    nested: str, args: list[str], controls: CLIControls
) -> None:
    """They would not be stopped by the test, would not be those of the sandbox, or would commit."""
    result = invoke(*args, nested, obj=controls)
    assert result.exit_code == 1
    assert str(result.exception).startswith("An operator is run when the file is only loaded")


@pytest.fixture
def contexts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kubeconfig with two contexts."""
    names = ["one", "two"]
    content = {
        "contexts": [{"name": name, "context": {"cluster": "c", "user": "u"}} for name in names],
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"token": "tok"}}],
        "current-context": "one",
    }
    (tmp_path / "config").write_text(json.dumps(content))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")


@pytest.mark.usefixtures("contexts")
def test_o_several_contexts_are_several_clusters(called: dict[str, Any], handlers: str) -> None:
    assert invoke("--context", "one", "--context", "two", handlers).exit_code == 0
    assert called["clusters"] == ("one", "two")


@pytest.mark.usefixtures("contexts")
def test_o_one_context_is_one_cluster(called: dict[str, Any], handlers: str) -> None:
    assert invoke("--context", "two", handlers).exit_code == 0
    assert called["clusters"] is None
    assert called["KUBECONFIG"].count("context.json") == 2


@pytest.mark.usefixtures("contexts")
@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--context", "one"], "Use each --context once"),
        (["--context", "absent"], "There is no context 'absent' in the kubeconfig."),
        (["--context", "two", "--once"], "Use either --once or several --context, not both."),
        (
            ["--context", "two", "--once", "--dry-run"],
            "Use either --once or several --context, not both.",
        ),
        (["--context", "two", "--processes=2"], "Use either --processes or several --context"),
        (["--context", "two", "--apply-crds"], "Use either --apply-crds or several --context"),
        (["--context", "two", "--sandbox"], "Use --sandbox with neither"),
    ],
)
def test_o_senseless_contexts_are_refused(
    called: dict[str, Any], handlers: str, args: list[str], message: str
) -> None:
    result = invoke("--context", "one", *args, handlers)
    assert message in (result.output or str(result.exception))
    assert result.exit_code != 0
    assert not called
