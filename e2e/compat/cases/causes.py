"""Creation, updates, no-ops: what is called with what."""

from __future__ import annotations

from e2e.compat.steps import Create, Delete, Patch, Recorded, Settle

from .cases import Case

CASES = (
    Case(
        "create-one",
        """
@kopf.on.create(K, param=[1, {"a": 2}])
def a(**kw): note('a', kw); return {'r': 1}
""",
        [Create(), Settle(), Delete(), Settle()],
    ),
    Case(
        "create-many",
        """
@kopf.on.create(K)
def a(**kw): note('a', kw); return 1
@kopf.on.create(K)
async def b(**kw): note('b', kw); return 'b'
@kopf.on.create(K, id='renamed')
def c(**kw): note('renamed', kw)
@kopf.on.update(K)
def u(**kw): note('u', kw)
""",
        [Create(), Settle(), Delete(), Settle()],
    ),
    Case(
        "create-rich-essence",
        """
@kopf.on.create(K)
def a(**kw): note('a', kw)
@kopf.on.update(K)
def u(**kw): note('u', kw)
""",
        [
            Create(
                spec={"n": None, "empty": {}, "list": [1, {"a": "ü"}], "deep": {"x": {"y": [{}]}}},
                metadata={
                    "labels": {"l": "v", "empty": ""},
                    "annotations": {
                        "a/b": "c",
                        "kubectl.kubernetes.io/last-applied-configuration": "{}\n",
                    },
                },
            ),
            Settle(),
            Patch({"spec": {"list": [1], "deep": {"x": None}, "quote": 'q"\\'}}),
            Settle(),
            Patch({"status": {"s": 1}}),
            Settle(),
            Patch({"metadata": {"annotations": {"a/b": "d", "new": "n"}}}),
            Settle(),
            Patch({"metadata": {"labels": None, "annotations": {"a/b": None, "new": None}}}),
            Settle(),
        ],
    ),
    Case(
        "no-spec",
        """
@kopf.on.create(K)
def a(**kw): note('a', kw)
@kopf.on.update(K)
def u(**kw): note('u', kw)
""",
        [Create(spec=None), Settle(), Patch({"spec": {"x": 1}}), Settle()],
    ),
    Case(
        "update-many",
        """
@kopf.on.update(K)
def a(**kw): note('a', kw)
@kopf.on.update(K, field='spec.field')
def f(**kw): note('f', kw); return {'f': 1}
@kopf.on.update(K, field='spec.other')
def o(**kw): note('o', kw)
@kopf.on.field(K, field='spec')
def whole(**kw): note('whole', kw)
@kopf.on.field(K, field=('metadata', 'labels', 'dotted.name/x'))
def label(**kw): note('label', kw)
""",
        [
            Create(),
            Settle(),
            Patch({"spec": {"field": "v2"}}),
            Settle(),
            Patch({"spec": {"other": {"a": [1, 2]}}}),
            Settle(),
            Patch({"spec": {"other": {"a": [1, 3], "b": 2}, "field": None}}),
            Settle(),
            Patch({"metadata": {"labels": {"dotted.name/x": "1"}}}),
            Settle(),
        ],
    ),
    Case(
        "update-accumulates",
        """
@kopf.on.update(K)
def a(**kw): note('a', kw)
@kopf.on.update(K)
def b(**kw):
    note('b', kw)
    if kw['retry'] < 2: raise kopf.TemporaryError("t", delay=4)
@kopf.on.update(K, field='spec.other')
def o(**kw): note('o', kw)
""",
        [
            Create(),
            Settle(),
            Patch({"spec": {"field": "v2"}}),
            Recorded("b"),
            Patch({"spec": {"other": "o"}}),
            Settle(),
        ],
    ),
    Case(
        "update-reverted",
        """
@kopf.on.update(K)
def a(**kw): note('a', kw)
@kopf.on.update(K)
def b(**kw):
    note('b', kw)
    if kw['retry'] < 2: raise kopf.TemporaryError("t", delay=0.5 if kw['retry'] else 10)
""",
        [
            Create(),
            Settle(),
            Patch({"spec": {"field": "v2"}}),
            Recorded("b"),
            Patch({"spec": {"field": "v1"}}),
            Settle(pending=True),
            Patch({"spec": {"field": "v3"}}),
            Settle(),
        ],
        required=[r'a\(.*"new": \{"spec": \{"field": "v1"\}\}.*"reason": "update"'],
    ),
    Case(
        "create-then-changed",
        """
@kopf.on.create(K)
@kopf.on.update(K)
def a(**kw):
    note('a', kw)
    if kw['retry'] < 2: raise kopf.TemporaryError("t", delay=4)
@kopf.on.create(K)
@kopf.on.update(K)
def b(**kw): note('b', kw)
@kopf.on.update(K)
def u(**kw): note('u', kw)
""",
        [Create(), Recorded("a"), Patch({"spec": {"field": "v2"}}), Settle()],
    ),
    Case(
        "update-own-field",
        """
@kopf.on.update(K, field='spec.field', new='on')
def a(**kw):
    note('a', kw)
    kw['patch'].spec['field'] = 'done'
@kopf.on.update(K)
def b(**kw):
    note('b', kw)
    if not kw['retry']: raise kopf.TemporaryError("t", delay=1)
""",
        [Create(), Settle(), Patch({"spec": {"field": "on"}}), Settle()],
    ),
    Case(
        "update-own-field-alone",
        """
@kopf.on.update(K, field='spec.field', new='on')
def a(**kw):
    note('a', kw)
    kw['patch'].spec['field'] = 'done'
""",
        [Create(), Settle(), Patch({"spec": {"field": "on"}}), Settle()],
    ),
    Case(
        "event-only",
        """
@kopf.on.event(K)
def e(**kw): note('e', kw)
@kopf.on.event(K, field='spec.field', id='f')
async def e2(**kw): note('f', kw)
""",
        [Create(), Settle(), Patch({"spec": {"field": None}}), Settle(), Delete(), Settle()],
    ),
    Case(
        "many-objects",
        """
@kopf.on.create(K)
def a(**kw): note('a', kw)
@kopf.on.create(K)
def b(**kw):
    note('b', kw)
    if not kw['retry']: raise kopf.TemporaryError("t", delay=0.5)
@kopf.on.delete(K)
def d(**kw): note('d', kw)
""",
        [
            *(Create(name) for name in "abcdefgh"),
            Settle(),
            *(Delete(name) for name in "abcd"),
            Settle(),
        ],
    ),
    Case(
        "memo-and-indices",
        """
@kopf.on.startup()
def st(memo, **kw): memo.started = 1; note('st', {**kw, 'memo': memo}, memo=memo)
@kopf.index(K)
def ix(name, **kw): note('ix', kw | {'name': name}); return {name: 1}
@kopf.index(K, field='spec.field', id='renamed')
def ix2(name, spec, **kw): return {spec['field']: name}
@kopf.on.create(K)
def a(memo, **kw): memo.a = kw['name']; note('a', kw, memo=memo)
@kopf.on.update(K)
def u(memo, **kw): note('u', kw, memo=memo)
@kopf.on.cleanup()
def cl(memo, **kw): note('cl', kw, memo=memo)
""",
        [
            Create("p"),
            Settle(),
            Create("q"),
            Settle(),
            Patch({"spec": {"field": "v2"}}, "p"),
            Settle(),
            Delete("p"),
            Settle(),
            Create("p"),
            Settle(),
        ],
    ),
    Case(
        "cluster-scoped",
        """
@kopf.on.startup()
def configure(settings, **_):  # otherwise, the operators remove the finalizers of each other
    settings.persistence.finalizer = 'example.com/' + os.environ['COMPAT_RUN']
@kopf.on.create(C, labels=MINE)
def a(body, **kw): note('a', kw, ns=kw['namespace']); kopf.info(body, reason='R', message='m')
@kopf.on.update(C, labels=MINE)
def u(**kw): note('u', kw)
@kopf.on.delete(C, labels=MINE)
def d(**kw): note('d', kw)
""",
        [
            Create(plural="compatclusters"),
            Settle(),
            Patch({"spec": {"field": "v2"}}, plural="compatclusters"),
            Settle(),
            Delete(plural="compatclusters"),
            Settle(),
        ],
        plurals=["compatclusters"],
    ),
)
