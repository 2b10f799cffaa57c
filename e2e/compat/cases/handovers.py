"""One generation is killed in the middle of its work, and the other one carries on."""

from __future__ import annotations

from e2e.compat.steps import (
    Called,
    Create,
    Delete,
    Kill,
    Patch,
    Recorded,
    Release,
    Settle,
    Start,
    Stop,
)

from .cases import Case

CREATION = """
@kopf.on.create(K)
def a(**kw): note('a', kw); return 'a'
@kopf.on.create(K, retries=5)
def b(**kw):
    note('b', kw)
    if kw['retry'] < 3: raise kopf.TemporaryError("t", delay=6)
    return 'b'
@kopf.on.create(K)
def c(**kw): note('c', kw); return {'c': 1}
@kopf.on.create(K)
def d(**kw): note('d', kw); raise kopf.PermanentError("p")
@kopf.on.update(K)
def u(**kw): note('u', kw)
@kopf.on.delete(K)
def gone(**kw): note('gone', kw)
"""

SUBHANDLERS = """
@kopf.on.create(K)
def parent(**kw):
    note('parent', kw)
    for i in 'xy':
        @kopf.subhandler(id=i)
        def sub(i=i, **kw):
            note('sub-' + i, kw)
            for j in 'pq':
                @kopf.subhandler(id=j)
                def subsub(i=i, j=j, **kw):
                    note('subsub-' + i + j, kw)
                    if i + j == 'xq' and kw['retry'] < 2:
                        raise kopf.TemporaryError('t', delay=6)
                    return i + j
            return 'sub-' + i
    return 'parent-result'
"""

CASES = (
    Case(
        "handover-creation",
        CREATION,
        [
            Create(),
            Recorded("d"),
            Kill(),
            Start(),
            Recorded("b", 2),
            Kill(),
            Start(),
            Settle(),
            Patch({"spec": {"field": "v2"}}),
            Settle(),
            Kill(),
            Start(),
            Settle(),
            Delete(),
            Settle(),
        ],
        is_handed_over=True,
    ),
    Case(
        "handover-changed",
        """
@kopf.on.create(K)
@kopf.on.update(K)
def a(**kw): note('a', kw)
@kopf.on.create(K)
def b(**kw):
    note('b', kw)
    if kw['retry'] < 2: raise kopf.TemporaryError("t", delay=4)
""",
        [
            Create(),
            Recorded("b", 1),
            Kill(),
            Patch({"metadata": {"labels": {"a": "b"}}}),
            Start(),
            Settle(),
            Patch({"spec": {"field": "v2"}}),
            Settle(),
        ],
        is_handed_over=True,
    ),
    Case(
        "handover-idle",
        CREATION,
        [Create(), Settle(), Stop(), Start(), Settle(), Stop(), Start(), Settle()],
        is_handed_over=True,
    ),
    Case(
        "handover-offline-changes",
        CREATION,
        [
            Create(metadata={"labels": {"a": "b"}, "annotations": {"c": "d"}}),
            Settle(),
            Stop(),
            Patch({"spec": {"field": "v2"}, "metadata": {"labels": {"a": None}}}),
            Start(),
            Settle(),
            Stop(),
            Delete(),
            Start(),
            Settle(),
        ],
        is_handed_over=True,
    ),
    Case(
        "handover-update",
        """
@kopf.on.update(K)
def a(**kw): note('a', kw)
@kopf.on.field(K, field='spec.field')
def f(**kw):
    note('f', kw)
    if kw['retry'] < 1: raise kopf.TemporaryError("t", delay=6)
@kopf.on.resume(K)
def r(**kw): note('r', kw)
""",
        [
            Create(),
            Settle(),
            Patch({"spec": {"field": "v2"}}),
            Recorded("f/spec.field"),
            Kill(),
            Start(),
            Settle(),
        ],
        is_handed_over=True,
    ),
    Case(
        "handover-subs",
        SUBHANDLERS,
        [
            Create(),
            Recorded("parent/y", 2),
            Kill(),
            Start(),
            Recorded("parent/x/q", 2),
            Kill(),
            Start(),
            Settle(),
        ],
        is_handed_over=True,
    ),
    Case(
        "handover-deletion",
        """
@kopf.on.delete(K)
def d1(**kw): note('d1', kw)
@kopf.on.delete(K)
def d2(**kw):
    note('d2', kw)
    if kw['retry'] < 1: raise kopf.TemporaryError("t", delay=6)
""",
        [Create(), Settle(), Delete(), Recorded("d2"), Kill(), Start(), Settle()],
        is_handed_over=True,
    ),
    Case(
        "handover-amid-handler",
        """
@kopf.on.create(K)
def a(**kw): note('a', kw)
@kopf.on.create(K)
def b(**kw):
    note('b', kw)
    if not os.path.exists(os.environ['COMPAT_FOLDER'] + '/released'): time.sleep(60)
    return 'b'
@kopf.on.create(K)
def c(**kw): note('c', kw)
""",
        [Create(), Called("b"), Kill(), Release(), Start(), Settle()],
        is_handed_over=True,
    ),
    Case(
        "handover-status-storage",
        """
@kopf.on.startup()
def configure(settings, **_):
    settings.persistence.progress_storage = kopf.StatusProgressStorage(field='status.my.progress')
    settings.persistence.diffbase_storage = kopf.StatusDiffBaseStorage(field='status.my.last')
@kopf.on.create(K)
def a(**kw): note('a', kw); return 1
@kopf.on.create(K)
def b(**kw):
    note('b', kw)
    if kw['retry'] < 2: raise kopf.TemporaryError("t", delay=6)
@kopf.on.update(K)
def u(**kw): note('u', kw)
""",
        [
            Create(),
            Called("b"),
            Settle(pending=True),
            Kill(),
            Start(),
            Called("b", 3),
            Settle(),
            Kill(),
            Patch({"spec": {"field": "v2"}}),
            Start(),
            Settle(),
        ],
        is_handed_over=True,
    ),
    Case(
        "handover-long-ids",
        """
LONG = 'a-very-long-handler-id-that-goes-far-beyond-the-limit-of-sixty-three-characters/x'
@kopf.on.create(K, id=LONG)
def a(**kw):
    note('a', kw)
    if kw['retry'] < 1: raise kopf.TemporaryError("t", delay=6)
@kopf.on.create(K)
def b(**kw): note('b', kw)
""",
        [Create(), Recorded("b"), Kill(), Start(), Settle()],
        is_handed_over=True,
    ),
    Case(
        "handover-daemons",
        """
@kopf.daemon(K)
async def dm(stopped, **kw):
    note('dm', kw); await stopped.wait(); note('dm-stopped', kw, reason=str(stopped.reason))
@kopf.timer(K, interval=60)
def tm(**kw): note('tm', kw); return 1
""",
        [Create(), Settle(), Stop(), Start(), Settle(), Delete(), Settle()],
        is_handed_over=True,
    ),
)
