"""Users' code outside of handlers that raises what usually ends processes."""

from __future__ import annotations

import pytest

ERRORS = [
    "SystemExit()",
    "KeyboardInterrupt()",
    "GeneratorExit()",
    "BaseExceptionGroup('x', [SystemExit()])",
]

PLACES = {
    "filter": """
def fail(name, **_):
    if name == "bad":
        raise ERROR
    return True

@kopf.on.create(*KEXES, when=fail)
@noted
def a(**_):
    pass
""",
    "value": """
def fail(value, name, **_):
    if name == "bad":
        raise ERROR
    return True

@kopf.on.create(*KEXES, field="spec.x", value=fail)
@noted
def a(**_):
    pass
""",
    "label": """
def fail(value, name, **_):
    if name == "bad":
        raise ERROR
    return True

@kopf.on.create(*KEXES, labels={"some": fail})
@noted
def a(**_):
    pass
""",
    "patch function": """
@kopf.on.create(*KEXES)
@noted
def a(patch, name, **_):
    def fail(body):
        raise ERROR
    if name == "bad":
        patch.fns.append(fail)
""",
    "repr": """
class Strange(Exception):
    def __repr__(self):
        raise ERROR
    def __str__(self):
        raise ERROR

@kopf.on.create(*KEXES)
@noted
def a(name, **_):
    if name == "bad":
        raise Strange()
""",
    "backoff": """
def fail(retry):
    raise ERROR

@kopf.on.create(*KEXES, backoff=fail)
@noted
def a(name, **_):
    if name == "bad":
        raise Exception("as planned")
""",
    "index filter": """
def fail(name, **_):
    if name == "bad":
        raise ERROR
    return True

@kopf.index(*KEXES, when=fail)
def indexed(name, **_):
    return {name: 1}

@kopf.on.create(*KEXES)
@noted
def a(**_):
    pass
""",
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("error", ERRORS)
async def test_r20_base_exceptions_of_callbacks_do_not_break_the_loop(world, place, error):
    """They end the operator gracefully, or only what they are raised in; others are served."""
    world.tolerated["O1"] = "the bad one cannot be handled"
    world.tolerated["O6"] = "these errors are users', and are shown with their tracebacks"
    async with world.operator(PLACES[place].replace("ERROR", error)) as process:
        await world.api.until_watched()
        is_exiting = error == "SystemExit()" and place != "repr"  # that one is only for a log
        for name in ("good", "bad") if is_exiting else ("bad", "good"):
            world.api.create(name, metadata={"labels": {"some": "label"}}, spec={"x": 1})
            if name == "good":  # what comes together with a wish to exit is left to the next start
                await world.until_handled("good")
        if is_exiting:
            world.tolerated["O4"] = "it exits as the function asks"
            assert await process.wait() == 0, process.tail
        else:
            assert process.code is None
            assert await process.stop() == 0, process.tail
    assert not process.find("Event loop is closed")
