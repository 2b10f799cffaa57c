"""Sub-handlers: declared, registered, executed."""

from __future__ import annotations

from e2e.compat.steps import Create, Delete, Patch, Settle

from .cases import Case

CASES = (
    Case(
        "subs-nested",
        """
@kopf.on.create(K)
def parent(**kw):
    note('parent', kw)
    for i in 'xy':
        @kopf.subhandler(id=i)
        def sub(i=i, **kw):
            note('sub-' + i, kw)
            for j in 'pq':
                @kopf.subhandler(id=j, param=j)
                def subsub(i=i, j=j, **kw):
                    note('subsub-' + i + j, kw)
                    if i + j == 'xq' and not kw['retry']: raise kopf.TemporaryError('t', delay=1)
                    return i + j
            return 'sub-' + i
    return 'parent-result'
@kopf.on.create(K)
def other(**kw): note('other', kw); return 'o'
""",
        [Create(), Settle()],
    ),
    Case(
        "subs-failing",
        """
@kopf.on.create(K)
def parent(**kw):
    note('parent', kw)
    @kopf.subhandler()
    def good(**kw): note('good', kw); return 'g'
    @kopf.subhandler()
    def bad(**kw): note('bad', kw); raise kopf.PermanentError('p')
    @kopf.subhandler(retries=2, backoff=0.3)
    def flaky(**kw): note('flaky', kw); raise Exception('f')
    return 'parent-result'
""",
        [Create(), Settle()],
    ),
    Case(
        "subs-parent-errors",
        """
@kopf.on.create(K)
def p1(**kw):
    note('p1', kw)
    @kopf.subhandler()
    def s1(**kw): note('p1s', kw); return 1
    if kw['retry'] < 1: raise kopf.TemporaryError('pt', delay=0.3)
@kopf.on.create(K, retries=3)
def p2(**kw):
    note('p2', kw)
    @kopf.subhandler()
    def s1(**kw):
        note('p2s', kw)
        if kw['retry'] < 4: raise kopf.TemporaryError('pt', delay=0.3)
@kopf.on.create(K)
async def p4(**kw):
    note('p4', kw)
    @kopf.subhandler()
    def s1(**kw):
        note('p4s', kw)
        if kw['retry'] < 1: raise kopf.TemporaryError('pt', delay=0.3)
    try:
        await kopf.execute()
    except kopf.TemporaryError as e:
        note('caught', {}, delay=round(e.delay, 1))
        raise
""",
        [Create(), Settle()],
    ),
    Case(
        "subs-execute",
        """
def f1(**kw): note('f1', kw); return 1
async def f2(**kw):
    note('f2', kw)
    if kw['retry'] < 1: raise kopf.TemporaryError('t', delay=0.3)
    return 2
@kopf.on.create(K)
async def pdict(**kw):
    note('pdict', kw)
    await kopf.execute(fns={'one': f1, 'two': f2})
    return 'pd'
@kopf.on.create(K)
async def plist(**kw):
    note('plist', kw)
    await kopf.execute(fns=[f1, f2])
    return 'pl'
@kopf.on.create(K)
async def preg(**kw):
    note('preg', kw)
    kopf.register(f1)
    kopf.register(f2, id='reg2')
    return 'pr'
@kopf.on.create(K)
async def explicit(**kw):
    note('explicit', kw)
    @kopf.subhandler()
    def inner(**kw): note('inner', kw)
    await kopf.execute()
    @kopf.subhandler()
    def inner2(**kw): note('inner2', kw)
    return 'pe'
@kopf.on.create(K)
async def plc(**kw):
    note('plc', kw)
    await kopf.execute(fns={'one': f1, 'three': f1}, lifecycle=kopf.lifecycles.all_at_once)
""",
        [Create(), Settle()],
    ),
    Case(
        "subs-execute-errors",
        """
def f1(**kw): note('f1', kw); return 1
@kopf.on.create(K, retries=2, backoff=0.3)
async def ptwice(**kw):
    note('ptwice', kw)
    await kopf.execute(fns={'one': f1}, handlers=[])
@kopf.on.create(K)
async def pdup(**kw):
    note('pdup', kw)
    for i in range(2):
        @kopf.subhandler()
        def same(i=i, **kw): note('same%s' % i, kw)
""",
        [Create(), Settle()],
    ),
    Case(
        "subs-of-fields",
        """
@kopf.on.field(K, field='spec.items')
def items(old, new, **kw):
    note('items', kw | {'old': old, 'new': new})
    for i in sorted(set(new or ()) - set(old or ())):
        @kopf.subhandler(id='add-' + i)
        def add(**kw): note('add', kw)
    for i in sorted(set(old or ()) - set(new or ())):
        @kopf.subhandler(id='del-' + i)
        def dele(**kw): note('del', kw)
@kopf.on.delete(K)
def d(**kw):
    note('d', kw)
    @kopf.subhandler(when=lambda **_: False)
    def nope(**kw): note('nope', kw)
    @kopf.subhandler(field='spec.items')
    def yep(**kw): note('yep', kw)
    @kopf.subhandler(labels={'l': 'v'})
    def labelled(**kw): note('labelled', kw)
""",
        [
            Create(spec={"items": ["a", "b"]}),
            Settle(),
            Patch({"spec": {"items": ["b", "c"]}}),
            Settle(),
            Delete(),
            Settle(),
        ],
    ),
)
