"""Daemons and timers."""

from __future__ import annotations

from e2e.compat.steps import Called, Create, Delete, Patch, Settle, Start, Stop

from .cases import Case

LABELLED = {"metadata": {"labels": {"l": "v"}}}
UNLABELLED = {"metadata": {"labels": {"l": None}}}

CASES = (
    Case(
        "daemon-graceful",
        """
@kopf.daemon(K)
async def dm(stopped, patch, **kw):
    note('dm', kw, stopped=repr(stopped))
    await stopped.wait()
    note('dm-stopped', kw, stopped=repr(stopped), reason=str(stopped.reason))
    patch.status['dm'] = 'stopped'
@kopf.daemon(K, initial_delay=0.3)
async def later(stopped, **kw):
    note('later', kw)
    await stopped.wait()
    note('later-stopped', kw, reason=str(stopped.reason))
""",
        [
            Create(),
            Settle(),
            Stop(),
            Start(),
            Settle(),
            Delete(),
            Called("dm-stopped", 2),
            Settle(pending=True),
        ],
    ),
    Case(
        "daemon-sync",
        """
@kopf.daemon(K)
def dm(stopped, **kw):
    note('dm', kw)
    stopped.wait(60)
    note('dm-stopped', kw, reason=str(stopped.reason))
""",
        [Create(), Called("dm"), Settle(), Delete(), Called("dm-stopped"), Settle(pending=True)],
    ),
    Case(
        "daemon-ending",
        """
@kopf.daemon(K, initial_delay=0.5)
async def ok(patch, **kw):
    note('ok', kw); patch.status['patched'] = 1; return 'daemon-result'
@kopf.daemon(K, initial_delay=0.5, retries=2, backoff=0.3)
async def arb(**kw): note('arb', kw); raise Exception('boom')
@kopf.daemon(K, initial_delay=0.5)
async def temp(patch, **kw):
    note('temp', kw); patch.status['temp'] = kw['retry']
    if kw['retry'] < 2: raise kopf.TemporaryError('t', delay=0.3)
@kopf.daemon(K, initial_delay=0.5)
async def perm(**kw): note('perm', kw); raise kopf.PermanentError('p')
""",
        [
            Create(),
            Called("temp", 3),
            Settle(),
            Patch({"spec": {"field": "v2"}}),
            Settle(),
            Delete(),
            Settle(),
        ],
    ),
    Case(
        "daemon-filters",
        """
@kopf.daemon(K, labels={'l': 'v'})
async def dm(stopped, **kw):
    note('dm', kw)
    await stopped.wait()
    note('dm-stopped', kw, reason=str(stopped.reason))
""",
        [
            Create(),
            Settle(),
            Patch(LABELLED),
            Settle(),
            Patch(UNLABELLED),
            Settle(),
            Patch(LABELLED),
            Settle(),
            Delete(),
            Settle(),
        ],
    ),
    Case(
        "daemon-cancelled",
        """
@kopf.daemon(K, cancellation_backoff=0.3, cancellation_timeout=0.5)
async def stubborn(stopped, **kw):
    note('stubborn', kw)
    try: await asyncio.sleep(60)
    except asyncio.CancelledError: note('cancelled', kw, reason=str(stopped.reason)); raise
@kopf.daemon(K, cancellation_timeout=0.5)
async def plain_cancelled(stopped, **kw):
    note('plain', kw)
    try: await asyncio.sleep(60)
    except asyncio.CancelledError: note('plain-cancelled', kw, reason=str(stopped.reason)); raise
""",
        [Create(), Settle(), Delete(), Settle()],
    ),
    Case(
        "daemon-with-handlers",
        """
@kopf.on.create(K)
def c(**kw): note('c', kw)
@kopf.daemon(K)
async def dm(stopped, **kw):
    note('dm', kw); await stopped.wait(); note('dm-stopped', kw, reason=str(stopped.reason))
@kopf.on.delete(K)
def d(**kw): note('d', kw)
""",
        [Create(), Settle(), Delete(), Settle()],
    ),
    Case(
        "timer-interval",
        """
@kopf.timer(K, interval=0.4)
async def tm(**kw): note('tm', kw)
""",
        [Create(), Called("tm", 4), Delete(), Settle()],
    ),
    Case(
        "timer-patching",
        """
@kopf.timer(K, interval=60)
async def tm(patch, **kw): note('tm', kw); patch.status['own'] = 1; return {'r': 1}
""",
        [Create(), Settle(), Delete(), Settle()],
    ),
    Case(
        "timer-errors",
        """
@kopf.timer(K, interval=30, retries=2, backoff=0.3)
async def arb(**kw): note('arb', kw); raise Exception('boom')
@kopf.timer(K, interval=30)
async def temp(retry, patch, **kw):
    note('temp', kw | {'retry': retry}); patch.status['r'] = retry
    if retry < 2: raise kopf.TemporaryError('t', delay=0.3)
@kopf.timer(K, interval=30, errors=kopf.ErrorsMode.IGNORED)
async def ignored(**kw): note('ignored', kw); raise Exception('ei')
@kopf.timer(K)
async def once(**kw): note('once', kw)
""",
        [Create(), Settle(), Delete(), Settle()],
    ),
    Case(
        "timer-permanent",
        """
@kopf.timer(K, interval=0.3)
async def perm(**kw): note('perm', kw); raise kopf.PermanentError('p')
@kopf.timer(K, interval=0.5)
async def marker(**kw): note('marker', kw)
""",
        [Create(), Called("marker", 4), Delete(), Settle()],
    ),
    Case(
        "timer-idle",
        """
@kopf.timer(K, idle=1)
async def idle(spec, **kw): note('idle', kw | {'spec': spec})
@kopf.timer(K, initial_delay=0.5, interval=60)
async def delayed(**kw): note('delayed', kw)
""",
        [
            Create(),
            Called("idle"),
            Patch({"spec": {"field": "v2"}}),
            Called("idle", 2),
            Delete(),
            Settle(),
        ],
    ),
)
