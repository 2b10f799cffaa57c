"""Retries, time-outs, modes of errors."""

from __future__ import annotations

from e2e.compat.steps import Create, Delete, Settle

from .cases import Case

CASES = (
    Case(
        "errors-retries",
        """
@kopf.on.create(K, retries=3, backoff=0.3)
def a(**kw): note('a', kw); raise Exception("boom")
@kopf.on.create(K, retries=1)
def r1(**kw): note('r1', kw); raise Exception("boom1")
@kopf.on.create(K, retries=0)
def r0(**kw): note('r0', kw); raise Exception("boom0")
@kopf.on.create(K, retries=3)
def b(**kw): note('b', kw); raise kopf.TemporaryError("temp", delay=0.3)
""",
        [Create(), Settle()],
    ),
    Case(
        "errors-timeouts",
        """
@kopf.on.create(K, timeout=0.5)
async def c(**kw): note('c', kw); raise kopf.TemporaryError("temp", delay=0.9)
@kopf.on.create(K, timeout=1)
async def d(**kw): note('d', kw); await asyncio.sleep(1.2); return 'd'
@kopf.on.create(K, timeout=0)
async def e(**kw): note('e', kw); return 'e'
""",
        [Create(), Settle()],
    ),
    Case(
        "errors-timeout-ahead",
        """
@kopf.on.create(K, timeout=3)
async def c(**kw): note('c', kw); raise kopf.TemporaryError("temp", delay=2)
@kopf.on.create(K, timeout=3, backoff=2)
async def d(**kw): note('d', kw); raise Exception("boom")
""",
        [Create(), Settle()],
    ),
    Case(
        "errors-modes",
        """
for mode in kopf.ErrorsMode:
    @kopf.on.create(K, errors=mode, id=mode.name + '-arb', backoff=0.3, retries=2)
    def a(mode=mode, **kw): note(mode.name + '-arb', kw); raise Exception("boom")
    @kopf.on.create(K, errors=mode, id=mode.name + '-temp', backoff=0.3, retries=2)
    def b(mode=mode, **kw):
        note(mode.name + '-temp', kw); raise kopf.TemporaryError("temp", delay=0.3)
    @kopf.on.create(K, errors=mode, id=mode.name + '-perm', backoff=0.3, retries=2)
    def c(mode=mode, **kw): note(mode.name + '-perm', kw); raise kopf.PermanentError("perm")
""",
        [Create(), Settle()],
    ),
    Case(
        "errors-delays",
        """
def mk(id, exc, **options):
    @kopf.on.create(K, id=id, **options)
    def fn(**kw):
        note(id, kw)
        if not kw['retry']: raise exc
mk('none', kopf.TemporaryError("temp", delay=None))
mk('zero', kopf.TemporaryError("temp", delay=0))
mk('negative', kopf.TemporaryError("temp", delay=-5))
mk('backoff-zero', Exception("e"), backoff=0)
mk('half', kopf.TemporaryError("temp", delay=0.5))
""",
        [Create(), Settle()],
    ),
    Case(
        "errors-messages",
        """
def mk(id, exc, **options):
    @kopf.on.create(K, id=id, **options)
    def fn(**kw):
        note(id, kw)
        if not kw['retry']: raise exc
mk('empty', kopf.TemporaryError(delay=0.5))
mk('blank', kopf.TemporaryError('', delay=0.5))
mk('value', ValueError, backoff=0.5)
mk('key', KeyError('x'), backoff=0.5)
mk('multi', ValueError('line1\\nline2 ünï "q"'), backoff=0.5)
mk('args', ValueError('a', 1), backoff=0.5)
mk('perm-class', kopf.PermanentError)
mk('long', ValueError('x' * 2000), backoff=0.5)
""",
        [Create(), Settle()],
    ),
    Case(
        "errors-in-events",
        """
@kopf.on.event(K)
def e2(**kw): note('e2', kw); raise Exception('in event')
@kopf.on.event(K)
def e3(**kw): note('e3', kw); raise kopf.TemporaryError('in event', delay=1)
@kopf.on.event(K)
def e4(**kw): note('e4', kw); raise kopf.PermanentError('in event')
@kopf.index(K)
def ix(name, **kw): return {name: 1}
@kopf.index(K)
def ixbad(name, **kw): raise Exception('bad ix')
@kopf.index(K)
def ixperm(name, **kw): raise kopf.PermanentError('bad ix')
@kopf.on.create(K)
def c(**kw): note('c', kw)
""",
        [Create(), Settle(), Delete(), Settle()],
    ),
    Case(
        "results",
        """
RESULTS = {'none': None, 'zero': 0, 'empty': '', 'false': False, 'true': True,
           'dict': {'a': 1, 'n': None}, 'edict': {}, 'list': [1, None], 'elist': [], 'str': 's',
           'int': 5, 'float': 1.5}
for key, val in RESULTS.items():
    @kopf.on.create(K, id='res-' + key)
    def fn(val=val, **kw): return val
@kopf.on.create(K)
def patchy(patch, **kw): patch.status['patchy'] = {'own': 1}; return {'res': 1}
@kopf.on.update(K)
def u(patch, **kw): return 'updated'
""",
        [Create(), Settle()],
    ),
    Case(
        "lifecycle-one-by-one",
        """
kopf.set_default_lifecycle(kopf.lifecycles.one_by_one)
@kopf.on.create(K)
def a(**kw):
    note('a', kw)
    if kw['retry'] < 1: raise kopf.TemporaryError("t", delay=3)
@kopf.on.create(K)
def b(**kw): note('b', kw)
@kopf.on.create(K)
def c(**kw):
    note('c', kw)
    if kw['retry'] < 1: raise kopf.TemporaryError("t", delay=0.5)
""",
        [Create(), Settle()],
    ),
    Case(
        "lifecycle-all",
        """
kopf.set_default_lifecycle(kopf.lifecycles.all_at_once)
@kopf.on.create(K)
def a(**kw):
    note('a', kw)
    if kw['retry'] < 2: raise kopf.TemporaryError('x', delay=0.3)
@kopf.on.create(K)
def b(**kw): note('b', kw); return 'b'
@kopf.on.create(K)
def c(**kw):
    note('c', kw)
    if kw['retry'] < 1: raise kopf.TemporaryError('x', delay=4)
""",
        [Create(), Settle()],
    ),
    Case(
        "activities",
        """
@kopf.on.startup(backoff=0.3)
def st(retry, **kw):
    note('st', kw | {'retry': retry})
    if retry < 1: raise Exception('startup boom')
@kopf.on.startup(id='second')
async def st2(retry, **kw):
    note('second', kw | {'retry': retry})
    if retry < 1: raise kopf.TemporaryError('t', delay=0.3)
@kopf.on.cleanup()
def cl(**kw): note('cl', kw)
@kopf.on.create(K)
def c(**kw): note('c', kw)
""",
        [Create(), Settle()],
    ),
)
