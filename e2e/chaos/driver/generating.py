"""Operators by chance: with different features, which all work for the same objects."""

from __future__ import annotations

import random

FIRST = """
@kopf.on.create(*KEXES)
@kopf.on.update(*KEXES)
@noted
async def first(**_):
    pass
"""

QUIETLY = """
noted = lambda fn: fn  # notes are slow: the disk and the driver are waited for
"""

FEATURES = {
    "sync": """
@kopf.on.create(*KEXES)
@kopf.on.update(*KEXES)
@noted
def sync(**_):
    pass
""",
    "retried": """
@kopf.on.create(*KEXES)
@kopf.on.update(*KEXES)
@noted
async def retried(retry, **_):
    if not retry:
        raise kopf.TemporaryError("not yet", delay=0.01)
""",
    "hopeless": """
@kopf.on.create(*KEXES)
@noted
async def hopeless(**_):
    raise kopf.PermanentError("never")
""",
    "parent": """
@kopf.on.create(*KEXES)
@kopf.on.update(*KEXES)
async def parent(**_):
    @kopf.subhandler()
    @noted
    async def x(retry, **_):
        if not retry:
            raise kopf.TemporaryError("not yet", delay=0.01)

    @kopf.subhandler()
    @noted
    async def y(**_):
        return "done"
""",
    "patching": """
@kopf.on.create(*KEXES)
@kopf.on.update(*KEXES)
@noted
async def patching(patch, spec, **_):
    patch.status["seen"] = spec["x"]
    return {"x": spec["x"]}
""",
    "field": """
@kopf.on.field(*KEXES, field="spec.x")
@noted
async def field(**_):
    pass
""",
    "deleted": """
@kopf.on.delete(*KEXES)
@noted
async def deleted(retry, **_):
    if not retry:
        raise kopf.TemporaryError("not yet", delay=0.01)
""",
    "event": """
@kopf.on.event(*KEXES)
async def event(**_):
    pass
""",
    "index": """
@kopf.index(*KEXES)
async def index(name, spec, **_):
    return {name: spec["x"]}
""",
    "daemon": """
@kopf.daemon(*KEXES)
async def daemon(stopped, **_):
    await stopped.wait()
""",
    "timer": """
@kopf.timer(*KEXES, interval=0.1)
async def timer(patch, retry, **_):
    pass
""",
    "memo": """
@kopf.on.create(*KEXES)
async def memo(memo, body, **_):
    memo.body = body
""",
}


def generate(rng: random.Random, *required: str) -> str:
    """The code of an operator; ``first`` handles all changes with notes, other features vary."""
    chosen = {*required, *(name for name in FEATURES if rng.random() < 0.6)}
    return "".join([FIRST, QUIETLY, *(code for name, code in FEATURES.items() if name in chosen)])
