"""Restarts of operators."""

from __future__ import annotations

from e2e.compat.steps import Create, Delete, Kill, Patch, Recorded, Settle, Start, Stop

from .cases import Case

MIXED = """
@kopf.on.create(K)
def c(**kw): note('c', kw)
@kopf.on.update(K)
def u(**kw): note('u', kw)
@kopf.on.resume(K)
def r(**kw): note('r', kw)
@kopf.on.resume(K)
@kopf.on.create(K)
def cr(**kw): note('cr', kw)
@kopf.on.resume(K, deleted=True)
def rd(**kw): note('rd', kw)
@kopf.on.delete(K)
def d(**kw): note('d', kw)
"""

CASES = (
    Case(
        "resume-mixed",
        MIXED,
        [
            Create("old"),
            Start(),
            Settle(),
            Create("new"),
            Settle(),
            Stop(),
            Delete("old"),
            Patch({"spec": {"field": "v2"}}, "new"),
            Start(),
            Settle(),
            Stop(),
            Start(),
            Settle(),
        ],
        is_started_later=True,
    ),
    Case(
        "resume-errors",
        """
@kopf.on.resume(K)
def r(**kw):
    note('r', kw)
    if kw['retry'] < 2: raise kopf.TemporaryError("t", delay=0.7)
@kopf.on.resume(K)
def r2(**kw): note('r2', kw); raise kopf.PermanentError("perm")
@kopf.on.update(K)
def u(**kw): note('u', kw)
""",
        [
            Create(),
            Settle(),
            Stop(),
            Start(),
            Settle(),
            Patch({"spec": {"field": "v2"}}),
            Settle(),
        ],
    ),
    Case(
        "resume-then-updated",
        """
@kopf.on.update(K)
def u(**kw): note('u', kw)
@kopf.on.resume(K)
def r(**kw):
    note('r', kw)
    if kw['retry'] < 2: raise kopf.TemporaryError("t", delay=5)
""",
        [
            Create(),
            Settle(),
            Stop(),
            Start(),
            Recorded("r"),
            Patch({"spec": {"field": "v2"}}),
            Settle(),
        ],
    ),
    Case(
        "resume-then-deleted",
        """
@kopf.on.delete(K)
def d(**kw): note('d', kw)
@kopf.on.resume(K)
def r(**kw): note('r', kw); raise kopf.TemporaryError("t", delay=30)
@kopf.on.resume(K, deleted=True)
def rd(**kw):
    note('rd', kw)
    if kw['retry'] < 2: raise kopf.TemporaryError("t", delay=5)
""",
        [Create(), Settle(), Stop(), Start(), Recorded("rd"), Delete(), Settle()],
    ),
    Case(
        "restart-amid-creation",
        """
@kopf.on.create(K)
def a(**kw):
    note('a', kw)
    if kw['retry'] < 2: raise kopf.TemporaryError("t", delay=5)
@kopf.on.create(K)
def b(**kw): note('b', kw)
@kopf.on.resume(K)
def r(**kw): note('r', kw)
""",
        [
            Create(),
            Recorded("b"),
            Kill(),
            Patch({"spec": {"field": "v2"}}),
            Start(),
            Settle(),
        ],
    ),
    Case(
        "restart-with-other-handlers",
        """
@kopf.on.create(K)
def a(**kw): note('a', kw); raise kopf.TemporaryError("t", delay=1)
@kopf.on.create(K)
def gone(**kw): note('gone', kw)
@kopf.on.create(K)
def gone2(**kw): note('gone2', kw); raise kopf.TemporaryError("t", delay=30)
""",
        [
            Create(),
            Recorded("gone2"),
            Kill(),
            Start("""
@kopf.on.create(K)
def a(**kw): note('a', kw)
@kopf.on.create(K)
def new(**kw): note('new', kw)
"""),
            Settle(pending=True),
        ],
    ),
    Case(
        "restart-no-resume",
        """
@kopf.on.update(K)
def u(**kw): note('u', kw)
""",
        [Create(), Settle(), Stop(), Start(), Settle(), Patch({"spec": {"x": 1}}), Settle()],
    ),
    Case(
        "restart-deleted-amid",
        """
@kopf.on.delete(K)
def d(**kw):
    note('d', kw)
    if kw['retry'] < 1: raise kopf.TemporaryError("t", delay=5)
@kopf.on.delete(K)
def d2(**kw): note('d2', kw)
""",
        [Create(), Settle(), Delete(), Recorded("d2"), Kill(), Start(), Settle()],
    ),
)
