"""What is said when objects are not as they are waited for: it can be a wrong expectation."""

import pytest


async def fail_to_wait(sandbox, *args, **kwargs) -> str:
    with pytest.raises(TimeoutError) as info:
        await sandbox.wait("kex", "x", *args, timeout=0.01, **kwargs)
    return str(info.value)


async def test_values_of_other_types_are_shown_with_types(sandbox, crd, make_object):
    await sandbox.create(make_object(spec={"size": "3"}))
    error = await fail_to_wait(sandbox, jsonpath="{.spec.size}", value=3)
    assert "{.spec.size} is '3' (str), wanted 3 (int); it is {" in error


async def test_absent_values_are_named(sandbox, crd, make_object):
    await sandbox.create(make_object())
    error = await fail_to_wait(sandbox, jsonpath=".status.size")
    assert ".status.size is absent, wanted anything" in error


@pytest.mark.parametrize(
    "path",
    [
        "", "{}", "{.spec.host", ".spec.host}", "{spec host}", "{.spec..host}", ".spec.", "[0:2]",
        "{.a[?(@.b>1)]}", "{.a[?@.b=='c']}", "{.spec}{.status}", '{range .a[*]}{.b}{end}', ".a['b]",
    ],
)  # fmt: skip
async def test_unsupported_paths_are_refused_at_once(sandbox, crd, make_object, path):
    await sandbox.create(make_object())
    with pytest.raises(ValueError, match=r"is not supported\. These are: \{\.a\.b\}, "):
        await sandbox.wait("kex", "x", jsonpath=path)


@pytest.mark.parametrize(
    "path",
    [
        "{.status.conditions[?(@.type=='Ready')].status}",
        '{$.status.conditions[?(@.type == "Ready")].status}',
        "status.conditions[0].status",
        "status.conditions[-1]['status']",
        r".status.x\.y/z",
        "{.status['x.y/z']}",
        "{.status.*}",
        "{.status.conditions[*].type}",
    ],
)
async def test_supported_paths(sandbox, crd, make_object, path):
    conditions = [{"type": "Ready", "status": "True"}]
    await sandbox.create(make_object())
    status = {"conditions": conditions, "x.y/z": 1}
    await sandbox.patch("kex", "x", {"status": status}, subresource="status")
    await sandbox.wait("kex", "x", jsonpath=path, timeout=1)


async def test_conditions_are_shown(sandbox, crd, make_object):
    await sandbox.create(make_object())
    error = await fail_to_wait(sandbox, condition="Ready")
    assert "the condition 'Ready' is absent, wanted 'True' (str)" in error
    conditions = [{"type": "Ready", "status": True}]
    await sandbox.patch("kex", "x", {"status": {"conditions": conditions}}, subresource="status")
    error = await fail_to_wait(sandbox, condition="Ready")
    assert "the condition 'Ready' is True (bool), wanted 'True' (str)" in error


async def test_only_what_is_wrong_is_shown(sandbox, crd, make_object):
    await sandbox.create(make_object(spec={"a": 1, "b": 2}))
    error = await fail_to_wait(sandbox, lambda obj: False, jsonpath="{.spec.a}", value=1)
    assert "the check does not pass; it is {" in error
    assert "wanted" not in error


async def test_remaining_objects_are_shown(sandbox, crd, make_object):
    await sandbox.create(make_object())
    assert "it is still there; it is {" in await fail_to_wait(sandbox, gone=True)


async def test_absent_objects_are_named(sandbox, crd):
    error = await fail_to_wait(sandbox, condition="Ready")
    assert (
        error == "kopfexamples.kopf.dev default/x is not as expected in 0.01 s: it does not exist"
    )
