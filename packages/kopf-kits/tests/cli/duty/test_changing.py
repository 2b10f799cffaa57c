"""``kopf retry``, ``pause``, ``unpause``, ``forget``, ``release``, over HTTP."""

import asyncio
import json
import signal

import pytest

from kopf_kits.cli.duty import applying

PREFIX = "kopf.zalando.org/"
FINALIZER = f"{PREFIX}KopfFinalizerMarker"
LAST_HANDLED = f"{PREFIX}last-handled-configuration"
STARTED = "2020-01-01T00:00:00.000000+00:00"
FUTURE = "2999-01-01T00:00:00.000000+00:00"
HANDLED = '{"spec":{"n":1}}\n'


def record(**fields):
    """The progress of a handler as it is stored in an annotation."""
    return json.dumps({"started": STARTED, "purpose": "create", "retries": 0, **fields})


RETRIED = record(retries=3, delayed=FUTURE, message="not yet")
PAUSED = f"{PREFIX}paused"


@pytest.mark.docs("cli/retry")
def test_retrying_at_once(world, invoke):
    annotations = {
        f"{PREFIX}create_fn": RETRIED,
        f"{PREFIX}other_fn": record(success=True, stopped=STARTED),
        "example.com/other": "kept",
    }
    before = world.create(annotations=annotations)["metadata"]["annotations"]
    result = invoke("retry", "kex", "obj", "--yes")
    assert result.exit_code == 0, result.output
    assert "KopfExample default/obj: retry at once: create_fn" in result.stderr
    assert result.stdout == "1 changed.\n"
    after = world.get_annotations()
    progress = json.loads(after.pop(f"{PREFIX}create_fn"))
    assert "delayed" not in progress
    assert progress["retries"] == 3
    assert progress["started"] == STARTED
    assert after == {key: before[key] for key in after}
    assert len(after) == 2


def test_nothing_to_retry(world, invoke):
    world.create()
    result = invoke("retry", "kex", "obj", "--yes")
    assert result.exit_code == 0
    assert "no handler waits for its next attempt" in result.stderr
    assert "There is nothing to do." in result.stderr


def test_q_confirmations_are_unknown_without_the_right_to_list_events(world, invoke):
    world.create()
    with world.sandbox.faults.fail(403, message="no such right", method="GET", path="*/events"):
        result = invoke("pause", "kex", "obj", "--yes")
    assert result.exit_code == 0, result.output
    assert "No operator has confirmed" not in result.stderr
    assert "Kopf cannot tell whether an operator has confirmed the pause" in result.stderr
    assert "The Kubernetes events cannot be listed: 403 Forbidden: no such right" in result.stderr


@pytest.mark.docs("cli/pause")
def test_pausing_and_unpausing(world, invoke):
    world.create(finalizers=[FINALIZER])
    result = invoke("pause", "kex", "obj", "-m", "migration", "--wait", "0", answer="y\n")
    assert result.exit_code == 0, result.output
    assert "No operator has confirmed the pause: KopfExample default/obj." in result.stderr
    assert "only with settings.execution.honor_pauses = True" in result.stderr
    assert "Change 1 object at http://" in result.stderr
    assert world.get_annotations()[PAUSED].endswith(": migration")
    result = invoke("pause", "kex", "obj", "-m", "again", "--yes")
    assert "it is paused already: by " in result.stderr
    assert world.get_annotations()[PAUSED].endswith(": migration")
    result = invoke("unpause", "kex", "obj", "--yes")
    assert result.exit_code == 0
    assert PAUSED not in world.get_annotations()
    assert "it is not paused" in invoke("unpause", "kex", "obj", "--yes").stderr


@pytest.mark.docs("cli/pause")
def test_k20_what_is_being_deleted_is_not_paused(world, invoke):
    world.create(finalizers=[FINALIZER])
    world.delete()
    result = invoke("pause", "kex", "obj", "--yes")
    assert "it is being deleted, and pauses do not hold deletions" in result.stderr
    assert PAUSED not in world.get_annotations()


@pytest.mark.docs("cli/forget")
def test_forgetting_leaves_the_object_as_new(world, invoke):
    ours = {
        LAST_HANDLED: HANDLED,
        f"{PREFIX}create_fn": RETRIED,
        f"{PREFIX}touch-dummy": "2020",
        f"{PREFIX}seen-states": "{}",
    }
    others = {f"{PREFIX}applied-by": "reconciler", PAUSED: "yes", "example.com/x": RETRIED}
    world.create(annotations={**ours, **others}, finalizers=[FINALIZER])
    result = invoke("forget", "kex", "obj", "--yes")
    assert result.exit_code == 0, result.output
    assert "forget the progress of create_fn, the last handled state" in result.stderr
    assert world.get_annotations() == others
    assert world.get_finalizers() == [FINALIZER]
    assert "there is nothing to forget" in invoke("forget", "kex", "obj", "--yes").stderr


def test_forgetting_what_is_in_the_status(world, invoke):
    world.create()
    status = {"kopf": {"progress": {"fn": json.loads(RETRIED)}}, "mine": 1}
    world.call(world.sandbox.patch("kopfexamples", "obj", {"status": status}, namespace="default"))
    assert "create_fn" not in invoke("object", "kex", "obj").stdout
    assert "fn: retried" in invoke("object", "kex", "obj").stdout
    assert invoke("retry", "kex", "obj", "--yes").exit_code == 0
    assert "delayed" not in world.get()["status"]["kopf"]["progress"]["fn"]
    assert invoke("forget", "kex", "obj", "--yes").exit_code == 0
    assert world.get()["status"] == {"mine": 1}


@pytest.mark.docs("cli/release")
def test_c8_releasing_touches_no_other_finalizers(world, invoke):
    world.create(finalizers=["example.com/first", FINALIZER, "example.com/last"])
    world.create("free", finalizers=["example.com/first"])
    result = invoke("release", "kex", "--all", "--yes")
    assert result.exit_code == 0, result.output
    assert result.stdout == "1 changed.\n"
    assert world.get_finalizers() == ["example.com/first", "example.com/last"]
    assert world.get_finalizers("free") == ["example.com/first"]


def test_i_release_tells_of_objects_that_are_held_by_other_operators(world, invoke):
    finalizer = "websites.example.com/finalizer"
    marks = {"websites.example.com/last-handled-configuration": HANDLED}
    world.create(annotations=marks, finalizers=[finalizer])
    result = invoke("release", "--all", "-A", "--dry-run")
    assert result.stderr == (
        "There is nothing to do.\n"
        "There are data of another operator: add --operator websites.example.com.\n"
    )
    result = invoke("release", "--all", "-A", "--dry-run", "--operator", "websites.example.com")
    assert result.stdout == f"KopfExample default/obj: remove the finalizer {finalizer}\n"
    assert "another operator" not in result.stderr


@pytest.mark.docs("cli/release")
def test_q_objects_of_definitions_in_deletion_are_released(world, invoke):
    """The discovery does not offer to patch them anymore, but they can be patched."""
    world.create(finalizers=[FINALIZER])
    world.call(world.sandbox.delete("customresourcedefinitions", "kopfexamples.kopf.dev"))
    result = invoke("release", "--all", "-A", "--yes")
    assert result.exit_code == 0
    assert "1 changed" in result.stdout
    assert not world.call(world.sandbox.list("customresourcedefinitions"))


@pytest.mark.docs("cli/release")
def test_c8_released_objects_are_gone_if_they_are_being_deleted(world, invoke):
    world.create(finalizers=[FINALIZER])
    world.delete()
    assert world.exists()
    result = invoke("release", "kex", "obj", "--yes")
    assert result.exit_code == 0, result.output
    assert "it is being deleted, and will be gone" in result.stderr
    assert not world.exists()


@pytest.mark.docs("cli/release")
def test_c8_releasing_everything_of_all_kinds(world, invoke):
    world.create(finalizers=[FINALIZER])
    world.create("elsewhere", "other", finalizers=[FINALIZER])
    for kind, name in [("ConfigMap", "cm"), ("Namespace", "held")]:
        meta = {"name": name, "finalizers": [FINALIZER, "example.com/other"]}
        meta |= {"namespace": "default"} if kind == "ConfigMap" else {}
        world.call(world.sandbox.create({"apiVersion": "v1", "kind": kind, "metadata": meta}))
    result = invoke("release", "--all", "-A", "--yes", "-o", "json")
    assert result.exit_code == 0, result.output
    items = json.loads(result.stdout)["items"]
    assert {(item["kind"], item["name"], item["result"]) for item in items} == {
        ("KopfExample", "obj", "changed"),
        ("KopfExample", "elsewhere", "changed"),
        ("ConfigMap", "cm", "changed"),
        ("Namespace", "held", "changed"),
    }
    cm = world.call(world.sandbox.get("configmaps", "cm", namespace="default"))
    assert cm["metadata"]["finalizers"] == ["example.com/other"]


def test_own_finalizers_and_prefixes(world, invoke):
    annotations = {f"example.com/{key}": value for key, value in [("fn", RETRIED)]}
    world.create(finalizers=["example.com/finalizer", FINALIZER], annotations=annotations)
    assert "state" in invoke("objects", "kex", "--operator", "example.com", "-o", "json").stdout
    result = invoke("release", "kex", "obj", "--operator", "example.com", "--yes")
    assert result.exit_code == 0, result.output
    assert world.get_finalizers() == [FINALIZER]
    result = invoke("retry", "kex", "obj", "--prefix", "example.com", "--yes")
    assert result.stdout == "1 changed.\n"
    assert "delayed" not in json.loads(world.get_annotations()["example.com/fn"])
    result = invoke("release", "kex", "obj", "--finalizer", FINALIZER, "--yes")
    assert result.exit_code == 0
    assert world.get_finalizers() == []


def test_nothing_is_changed_if_not_agreed(world, invoke):
    world.create(finalizers=[FINALIZER])
    for answer in ("n\n", "\n", ""):
        result = invoke("release", "kex", "obj", answer=answer)
        assert result.exit_code == 1
        assert "Nothing is changed" in result.stderr
        assert world.get_finalizers() == [FINALIZER]


def test_dry_runs_change_nothing(world, invoke):
    world.create(finalizers=[FINALIZER])
    version = world.get()["metadata"]["resourceVersion"]
    result = invoke("release", "kex", "--all", "--dry-run")
    assert result.exit_code == 0
    assert f"KopfExample default/obj: remove the finalizer {FINALIZER}" in result.stdout
    result = invoke("release", "kex", "--all", "--dry-run", "-o", "json")
    (item,) = json.loads(result.stdout)["items"]
    assert item["result"] == "planned"
    assert world.get()["metadata"]["resourceVersion"] == version


def test_json_of_changes_is_stable(world, invoke):
    uid = world.create(annotations={f"{PREFIX}fn": record(retries=1, delayed=FUTURE)})["metadata"][
        "uid"
    ]
    result = invoke("retry", "kex", "obj", "-o", "json", answer="y\n")
    stdout = result.stdout.removeprefix(" y\n")  # in older releases, the runner echoes the answer
    assert json.loads(stdout) == {
        "dryRun": False,
        "items": [
            {
                "apiVersion": "kopf.dev/v1",
                "kind": "KopfExample",
                "namespace": "default",
                "name": "obj",
                "uid": uid,
                "state": "retried",
                "summary": "retry at once: fn",
                "result": "changed",
                "error": None,
            }
        ],
    }


def test_selectors(world, invoke):
    world.create("one", labels={"a": "b"}, finalizers=[FINALIZER])
    world.create("two", finalizers=[FINALIZER])
    assert invoke("release", "kex", "-l", "a=b", "--yes").stdout == "1 changed.\n"
    assert world.get_finalizers("one") == []
    assert world.get_finalizers("two") == [FINALIZER]
    args = ["--field-selector", "metadata.name=two"]
    assert invoke("release", "kex", *args, "--yes").stdout == "1 changed.\n"
    assert world.get_finalizers("two") == []


def test_conflicts_are_resolved_on_the_fresher_state(world, invoke, monkeypatch):
    from kopf_kits.cli.duty import changing

    world.create(finalizers=[FINALIZER])
    original = changing._ask

    def interfere(*args):
        world.call(
            world.sandbox.patch(
                "kopfexamples",
                "obj",
                {"metadata": {"finalizers": ["example.com/new", FINALIZER]}},
                namespace="default",
            )
        )
        return original(*args)

    monkeypatch.setattr(changing, "_ask", interfere)
    result = invoke("release", "kex", "obj", "--yes")
    assert result.exit_code == 0, result.output
    assert world.get_finalizers() == ["example.com/new"]


def test_objects_deleted_meanwhile_are_gone(world, invoke, monkeypatch):
    from kopf_kits.cli.duty import changing

    world.create(annotations={f"{PREFIX}fn": RETRIED})
    monkeypatch.setattr(changing, "_ask", lambda *_: world.delete())
    result = invoke("retry", "kex", "obj")
    assert result.exit_code == 0, result.output
    assert result.stdout == "0 changed, 1 gone meanwhile.\n"


def test_refusals_do_not_stop_the_others(world, invoke):
    world.create("one", finalizers=[FINALIZER])
    world.create("two", finalizers=[FINALIZER])
    world.sandbox.faults.fail(403, method="PATCH", path="*/one", times=1)
    result = invoke("release", "kex", "one", "two", "three", "--yes")
    assert result.exit_code == 1
    assert result.stdout == "1 changed.\n"
    assert "Error: There is no KopfExample default/three." in result.stderr
    assert "Error: KopfExample default/one: 403" in result.stderr
    assert world.get_finalizers("two") == []


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_k27_interrupted_changes_are_not_taken_for_done(world, invoke, monkeypatch, signum):
    async def interrupt(*_):
        signal.raise_signal(signum)
        await asyncio.Event().wait()

    monkeypatch.setattr(applying, "apply_all", interrupt)
    world.create(finalizers=[FINALIZER])
    result = invoke("release", "kex", "obj", "--yes")
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1] == "Aborted!"
    assert "Traceback" not in result.output


def test_i_kinds_that_may_not_be_listed_are_told_of_in_one_line(world, invoke):
    world.create(finalizers=[FINALIZER])
    for plural in ("configmaps", "secrets", "pods"):
        world.sandbox.faults.fail(403, method="GET", path=f"*/{plural}")
    result = invoke("release", "--all", "-A", "--yes")
    assert result.exit_code == 1
    assert result.stdout == "1 changed.\n"
    errors = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
    assert errors == [
        "Error: 3 kinds are skipped, as you may not list them: configmaps, pods, secrets."
    ]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["release"], "Missing argument 'KIND'"),
        (["retry", "--all"], "Missing argument 'KIND'"),
        (["release", "kex"], "Name the objects"),
        (["release", "kex", "x", "--all"], "not both"),
        (["release", "kex", "x", "-A"], "no unique names"),
        (["release", "kex", "x", "-l", "a=b"], "not both"),
        (["release", "kex", "--all", "-A", "-n", "x"], "not both"),
        (["release", "kex", "x", "--operator", "Wrong!"], "The name of the operator"),
    ],
)
def test_senseless_options(invoke, args, message):
    result = invoke(*args)
    assert result.exit_code == 2
    assert message in result.output


def test_i_the_reason_of_denials_is_told(invoke, world):
    """A webhook can deny with the code of conflicts: it is not that others change the object."""
    world.create("one")
    world.sandbox.faults.fail(422, message="denied the request: no", method="PATCH", path="*/one")
    result = invoke("pause", "kex", "one", "-y")
    assert result.exit_code == 1
    assert "denied the request: no" in result.stderr
