"""``kopf objects`` and ``kopf object``, over HTTP, on objects in each state of a handling cycle."""

import json
import textwrap

import pytest

from kopf_cogs.clients import unanswered
from kopf_cogs.clients.discovery import GROUP_TIMEOUT
from kopf_cogs.structs.credentials import LoginError
from kopf_core.actions.errors import PermanentError
from kopf_core.intents import decorators as on
from kopf_core.intents.registries import OperatorRegistry
from kopf_kits.cli.controls import CLIControls
from kopf_kits.cli.duty import options

PREFIX = "kopf.zalando.org/"
FINALIZER = f"{PREFIX}KopfFinalizerMarker"
LAST_HANDLED = f"{PREFIX}last-handled-configuration"
STARTED = "2020-01-01T00:00:00.000000+00:00"
FUTURE = "2999-01-01T00:00:00.000000+00:00"
HANDLED, OUTDATED = '{"spec":{"n":1}}\n', '{"spec":{"n":0}}\n'


def record(**fields):
    """The progress of a handler as it is stored in an annotation."""
    return json.dumps({"started": STARTED, "purpose": "create", "retries": 0, **fields})


RETRIED = record(retries=3, delayed=FUTURE, message="not yet, " * 20)


@pytest.fixture
def states(world):
    """An object in each of the states, named by it."""
    world.create("unknown")
    world.create("handled", annotations={LAST_HANDLED: HANDLED}, finalizers=[FINALIZER])
    world.create("changed", annotations={LAST_HANDLED: OUTDATED})
    world.create("retried", annotations={f"{PREFIX}fn": RETRIED, f"{PREFIX}fn2": record()})
    world.create("in-progress", annotations={f"{PREFIX}fn": record(success=True)})
    world.create("paused", annotations={f"{PREFIX}paused": "by me: migration"})
    for name, finalizers in [("deleting", [FINALIZER]), ("blocked", ["example.com/other"])]:
        world.create(name, annotations={LAST_HANDLED: HANDLED}, finalizers=finalizers)
        world.delete(name)


@pytest.mark.parametrize("args", [["objects", "kex"], ["object", "kex", "obj"]])
def test_i_marks_of_other_operators_are_told_of(world, invoke, args):
    marks = {"websites.example.com/last-handled-configuration": HANDLED}
    world.create(annotations=marks)
    result = invoke(*args)
    assert "There are data of another operator" in result.stderr
    assert result.stderr.endswith("add --operator websites.example.com.\n")
    result = invoke(*args, "--operator", "websites.example.com")
    assert "another operator" not in result.stderr
    world.call(world.sandbox.delete("kopfexamples", "obj", namespace="default"))
    world.create(annotations={LAST_HANDLED: HANDLED})
    assert "another operator" not in invoke(*args).stderr
    result = invoke(*args, "--operator", "websites.example.com")
    assert "There are data of an operator without a name: leave out --operator," in result.stderr


@pytest.mark.parametrize("variable", ["KOPF_OPERATOR", "KOPF_OBJECTS_OPERATOR"])
def test_q_one_variable_names_the_operator_for_all_commands(world, invoke, monkeypatch, variable):
    world.create(annotations={"websites.example.com/last-handled-configuration": HANDLED})
    monkeypatch.setenv(variable, "websites.example.com")
    assert "another operator" not in invoke("objects", "kex").stderr


@pytest.mark.parametrize(
    "args", [["objects", "kex"], ["object", "kex", "obj"], ["release", "kex", "obj", "--yes"]]
)
def test_i_finalizers_with_the_prefix_of_the_operator_are_told_of(world, invoke, args):
    """Such as of operators that have set their prefix and finalizer one by one, with no name."""
    marks = {"websites.example.com/last-handled-configuration": HANDLED}
    world.create(annotations=marks, finalizers=["websites.example.com/own", "example.com/other"])
    result = invoke(*args, "--operator", "websites.example.com")
    hint = "If this operator has the finalizer websites.example.com/own, add --finalizer"
    assert result.stderr.endswith(f"{hint} websites.example.com/own.\n")
    result = invoke(*args, "--prefix", "websites.example.com")
    assert "--finalizer" not in result.stderr


@pytest.mark.parametrize("marks", [{LAST_HANDLED: HANDLED}, {}], ids=["handled", "served"])
def test_i_conditions_are_in_the_table(world, invoke, marks):
    """Handlers of changes say that all is done, while the reconciler says that all is not well."""
    world.create(annotations=marks, finalizers=[FINALIZER])
    conditions = [{"type": "Ready", "status": "False"}, {"type": "Bound", "status": "True"}]
    status = {"status": {"conditions": conditions}}
    world.call(world.sandbox.patch("kopfexamples", "obj", status, namespace="default"))
    _, line = invoke("objects", "kex").stdout.splitlines()
    assert line.endswith("  Ready=False, Bound=True")


def test_i_one_object_is_not_several(world, invoke):
    world.create()
    assert invoke("objects", "kex").stderr.startswith("1 object: 1 unknown.\n")


@pytest.mark.parametrize("marks", [{}, {LAST_HANDLED: OUTDATED}], ids=["unknown", "changed"])
def test_i_people_learn_that_a_hanging_first_attempt_leaves_no_progress(world, invoke, marks):
    """The handler of the creation or of the update hangs: it has stored nothing on the object."""
    world.create(annotations=marks)
    result = invoke("objects", "kex")
    assert "running first attempts leave no progress on objects" in result.stderr
    result = invoke("object", "kex", "obj")
    assert "cannot see timers, daemons, and running first attempts." in result.stdout


@pytest.mark.docs("cli/objects")
@pytest.mark.usefixtures("states")
def test_table_of_objects_in_each_state(invoke):
    result = invoke("objects", "kopfexamples")
    assert result.exit_code == 0, result.output
    title, *lines = result.stdout.splitlines()
    assert title.split() == ["NAME", "STATE", "HANDLER", "TRIES", "NEXT", "TRY", "DETAILS"]
    found = {line.split()[0]: line for line in lines}
    assert found["handled"].split() == ["handled", "handled"]
    assert found["unknown"].split() == ["unknown", "unknown"]
    assert found["changed"].split()[1:] == ["changed", "changed:", "spec.n"]
    assert found["in-progress"].split()[1:] == ["in", "progress"]
    assert found["paused"].split()[1:] == ["paused", "by", "me:", "migration"]
    assert found["deleting"].split()[1:] == [
        "deleting",
        "its",
        "operator",
        "has",
        "not",
        "finished",
    ]
    assert found["blocked"].endswith("deletion is blocked by example.com/other")
    assert found["retried"].split()[1:5] == ["retried", "fn", "+1", "3"]
    assert "not yet, not yet" in found["retried"]
    assert all(len(line) <= 100 for line in [title, *lines])
    assert result.stderr == (
        "8 objects: 1 blocked, 1 paused, 1 retried, 1 deleting, 1 in progress, "
        "1 unknown, 1 changed, 1 handled.\n"
        "Timers, daemons, finished reconcilers, and running first attempts leave no progress "
        "on objects: see /status of the operator.\n"
        "Objects are paused only for operators with settings.execution.honor_pauses = True.\n"
    )


def test_q_a_pause_does_not_hide_what_the_object_waits_for(world, invoke):
    """An operator that does not honour pauses goes on with the object."""
    failed = record(retries=3, delayed=FUTURE, message="not yet")
    world.create(annotations={f"{PREFIX}paused": "by me", f"{PREFIX}fn": failed})
    _, line = invoke("objects", "kex").stdout.splitlines()
    assert line.split()[1:4] == ["paused", "fn", "3"]
    assert line.endswith("  by me; not yet")


def test_q_an_attempt_that_can_be_running_is_not_said_to_begin_now(world, invoke):
    world.create(annotations={f"{PREFIX}fn": record()})
    _, line = invoke("objects", "kex").stdout.splitlines()
    assert line.split()[1:] == ["in", "progress", "fn", "0", "due"]


@pytest.mark.usefixtures("states")
@pytest.mark.parametrize("width", [80, 100, 200])
def test_tables_fit_the_terminal(invoke, world, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    world.create("x" * 200, "other", annotations={f"{PREFIX}{'h' * 60}": RETRIED})
    lines = invoke("objects", "kopfexamples", "-A").stdout.splitlines()
    assert len(lines) == 10
    assert max(map(len, lines)) <= width


@pytest.mark.usefixtures("states")
def test_colours_are_only_where_they_are_wanted(invoke):
    assert "\x1b[" not in invoke("objects", "kex").output
    assert "\x1b[31mretried\x1b[0m" in invoke("objects", "kex", "--color").stdout
    assert "\x1b[" not in invoke("objects", "kex", "--no-color").output


@pytest.mark.usefixtures("states")
def test_only_some_states(invoke):
    result = invoke("objects", "kex", "--state", "blocked", "--state", "unknown", "-o", "json")
    items = json.loads(result.stdout)["items"]
    assert {item["name"] for item in items} == {"blocked", "unknown"}
    assert "; 2 shown.\n" in result.stderr


@pytest.mark.docs("cli/objects")
def test_json_of_objects_is_stable(invoke, world):
    annotations = {f"{PREFIX}fn": RETRIED, LAST_HANDLED: OUTDATED}
    uid = world.create(annotations=annotations, finalizers=[FINALIZER, "x.com/y"])["metadata"][
        "uid"
    ]
    result = invoke("objects", "kex", "-o", "json")
    expected = {
        "apiVersion": "kopf.dev/v1",
        "kind": "KopfExample",
        "namespace": "default",
        "name": "obj",
        "uid": uid,
        "state": "retried",
        "paused": None,
        "deletionTimestamp": None,
        "held": True,
        "otherFinalizers": ["x.com/y"],
        "conditions": {},
        "outdated": False,
        "handlers": [
            {
                "id": "fn",
                "state": "retried",
                "purpose": "create",
                "attempts": 3,
                "started": "2020-01-01T00:00:00+00:00",
                "stopped": None,
                "nextTry": "2999-01-01T00:00:00+00:00",
                "error": "not yet, " * 20,
                "subhandlers": [],
            }
        ],
        "changedFields": [["spec", "n"]],
    }
    assert json.loads(result.stdout) == {"items": [expected]}
    result = invoke("object", "kex", "obj", "-o", "json")
    changes = [{"operation": "change", "field": ["spec", "n"], "old": 0, "new": 1}]
    assert json.loads(result.stdout) == {
        **expected,
        "changes": changes,
        "lastHandled": {"spec": {"n": 0}},
    }


@pytest.mark.docs("cli/object")
def test_everything_about_one_object(invoke, world):
    annotations = {
        f"{PREFIX}fn": record(
            purpose="delete", retries=2, delayed=STARTED, message="boo", subrefs=["fn/a", "fn/b"]
        ),
        f"{PREFIX}fn.a": record(purpose="delete", success=True, stopped=STARTED),
        f"{PREFIX}fn.b": record(purpose="delete", failure=True, stopped=STARTED, message="never"),
        f"{PREFIX}paused": "yes",
        LAST_HANDLED: OUTDATED,
    }
    world.create(annotations=annotations, finalizers=[FINALIZER, "x.com/y"])
    world.delete()
    result = invoke("object", "kex", "obj")
    assert result.exit_code == 0, result.output
    lines = [line.strip() for line in result.stdout.splitlines()]
    assert lines[:5] == [
        "KopfExample default/obj: retried",
        lines[1],
        "The deletion is blocked by our finalizer until it is handled.",
        "Finalizers of others: x.com/y",
        "",
    ]
    assert lines[1].startswith("Deletion was requested at ")
    for line in ("fn: retried", "fn/a: succeeded", "fn/b: failed", "error: boo", "error: never"):
        assert line in lines
    assert any(line.startswith("next try: 2020-01-01T00:00:00Z (") for line in lines)
    assert "spec.n: 0 -> 1" in lines


def test_what_is_not_being_deleted_is_not_said_to_be_blocked(invoke, world):
    world.create(finalizers=[FINALIZER])
    result = invoke("object", "kex", "obj")
    assert "blocked" not in result.stdout
    assert "If it is deleted, our finalizer holds it" in result.stdout


def test_secrets_are_not_shown(invoke, world):
    last = json.dumps({"data": {"password": "b2xk"}})
    meta = {"name": "s", "namespace": "default", "annotations": {LAST_HANDLED: last}}
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": {"password": "bmV3"}}
    world.call(world.sandbox.create(body))
    for args in (["object", "secrets", "s"], ["object", "secrets", "s", "-o", "json"]):
        output = invoke(*args).output
        assert "hidden" in output
        assert "password" in output  # the name of the field is not a secret
        assert "b2xk" not in output
        assert "bmV3" not in output


def test_junk_is_shown_harmlessly(invoke, world):
    junk = {
        f"{PREFIX}a": "{nope",
        f"{PREFIX}b": "[1]",
        f"{PREFIX}c": record(retries=-1, message="\x1b[31mred\x07\n\u202edrow \u4e16\u754c"),
        f"{PREFIX}d": json.dumps({"started": 5, "subrefs": "x", "delayed": "soon"}),
        LAST_HANDLED: "[]",
    }
    world.create(annotations=junk)
    for args in (["objects", "kex"], ["object", "kex", "obj"], ["objects", "kex", "-o", "json"]):
        result = invoke(*args)
        assert result.exit_code == 0, result.output
        assert "\x1b" not in result.output
        assert "\x07" not in result.output
        assert "\u202e" not in result.output
    assert "\u4e16\u754c" in invoke("object", "kex", "obj").stdout


def test_absent_objects_and_kinds(invoke, world):
    result = invoke("object", "kex", "nope")
    assert result.exit_code == 1
    assert result.stderr == "Error: There is no KopfExample default/nope.\n"
    result = invoke("objects", "kopfexamplez")
    assert str(result.exception) == (
        "There is no kind 'kopfexamplez' in the cluster. Did you mean 'kopfexamples'?"
    )
    result = invoke("objects", "a/b/c/d")
    assert str(result.exception) == "There is no kind 'a/b/c/d' in the cluster."
    assert invoke("objects", "KOPFEXAMPLES").exit_code == 0
    result = invoke("objects", "kex")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "No objects of 'kex' are found.\n"


def test_cluster_scoped_kinds(invoke, world):
    result = invoke("objects", "namespaces", "-o", "json")
    items = {item["name"]: item["namespace"] for item in json.loads(result.stdout)["items"]}
    assert items["other"] is None
    assert "Namespace other: unknown" in invoke("object", "ns", "other").stdout
    assert "NAMESPACE" not in invoke("objects", "namespaces", "-A").stdout


def test_namespaces(invoke, world):
    world.create("here")
    world.create("there", "other")

    def names(*args):
        items = json.loads(invoke("objects", "kex", "-o", "json", *args).stdout)["items"]
        return [item["name"] for item in items]

    assert names() == ["here"]
    assert names("-n", "other") == ["there"]
    assert sorted(names("-A")) == ["here", "there"]
    assert invoke("objects", "kex", "-A", "-n", "other").exit_code == 2


def test_refusals_are_one_line(invoke, world):
    world.sandbox.faults.fail(403, path="*/kopfexamples")
    result = invoke("objects", "kex")
    assert result.exit_code == 1
    assert str(result.exception).startswith("403")
    assert "\n" not in str(result.exception)


def test_lists_are_paged(invoke, world, monkeypatch):
    monkeypatch.setattr("kopf_cogs.clients.listing.DEFAULT_CHUNK_SIZE", 2)
    for number in range(5):
        world.create(f"obj{number}")
    result = invoke("objects", "kex", "-o", "json")
    assert len(json.loads(result.stdout)["items"]) == 5
    lists = [e for e in world.sandbox.journal if e.path.endswith("/kopfexamples")]
    assert len([e for e in lists if e.method == "GET"]) == 3


def test_refused_credentials_are_not_tried_for_ever(invoke, world):
    world.sandbox.faults.fail(401, path="*/kopfexamples")
    result = invoke("objects", "kex")
    assert result.exit_code == 1
    assert str(result.exception) == "The server refuses the credentials: log in anew."


BROKEN = {
    "current-context: absent\n": "There is no context 'absent' in the kubeconfig.",
    "{{{ not yaml\n": "it is not YAML",
    """
    current-context: c
    contexts: [{name: c, context: {cluster: k, user: u}}]
    clusters: [{name: k, cluster: {server: "https://127.0.0.1:1"}}]
    users: [{name: u, user: {exec: {
        apiVersion: client.authentication.k8s.io/v1, command: no-such-plugin}}}]
    """: "needs 'no-such-plugin', which is not found.",
}


@pytest.mark.parametrize("kubeconfig", BROKEN)
@pytest.mark.parametrize("command", [("objects", "kex"), ("release", "--all", "--yes")])
def test_i_a_broken_kubeconfig_is_explained_in_one_line(
    tmp_path, monkeypatch, invoke, kubeconfig, command
):
    path = tmp_path / "config"
    path.write_text(f"apiVersion: v1\nkind: Config\n{textwrap.dedent(kubeconfig)}")
    monkeypatch.setenv("KUBECONFIG", str(path))
    result = invoke(*command)
    assert result.output == ""  # neither logs nor tracebacks of those who tried to log in
    assert isinstance(result.exception, LoginError)
    assert str(result.exception).startswith("Cannot log in to the cluster: ")
    assert BROKEN[kubeconfig] in str(result.exception)
    assert "\n" not in str(result.exception)


def test_i_login_handlers_are_explained_if_the_kubeconfig_is_right(world, invoke_with):
    registry = OperatorRegistry()

    @on.login(registry=registry)
    def fn(**_):
        raise PermanentError("the token\nis over")

    result = invoke_with(CLIControls(registry=registry), "objects", "kex")
    assert result.output == ""
    assert str(result.exception) == "Cannot log in to the cluster: the token is over"


def test_people_are_told_of_a_silent_api(world, invoke, monkeypatch):
    monkeypatch.setattr(options, "PATIENCE", 0.01)
    monkeypatch.setattr(unanswered, "TICK", 0.01)
    monkeypatch.setattr(options, "BACKOFFS", ())
    monkeypatch.setattr(options, "TIMEOUT", 1.0)
    with world.sandbox.faults.hang(path="*/kopfexamples*"):
        result = invoke("objects", "kopfexamples")
    assert result.exit_code == 1
    address = f"The API at {world.sandbox.url}"
    assert f"{address} has not answered for 0 seconds, still waiting: GET /apis/" in result.stderr
    assert str(result.exception) == (
        f"{address} gives no answer: the request has timed out. "
        "Check the server in the kubeconfig, the proxies, and the network."
    )


def test_people_are_told_of_a_silent_api_before_its_requests_are_given_up():
    assert options.PATIENCE < GROUP_TIMEOUT < options.TIMEOUT


def test_q_one_object_in_place_of_a_kind_gets_a_hint(invoke):
    result = invoke("objects", "kex", "db-1", "-n", "shop")
    assert result.exit_code == 2
    assert "For one object, use: kopf object kex db-1" in result.stderr
