"""Deletion and finalizers."""

from __future__ import annotations

from e2e.compat.steps import Called, Create, Delete, Patch, Recorded, Settle

from .cases import Case

FINALIZER = "kopf.zalando.org/KopfFinalizerMarker"
LABELLED = {"metadata": {"labels": {"l": "v"}}}
UNLABELLED = {"metadata": {"labels": {"l": None}}}

CASES = (
    Case(
        "delete-one",
        """
@kopf.on.delete(K)
def d(**kw): note('d', kw); return 'r'
""",
        [Create(), Settle(), Patch({"spec": {"field": "v2"}}), Settle(), Delete(), Settle()],
    ),
    Case(
        "delete-many",
        """
@kopf.on.create(K)
def c(**kw): note('c', kw)
@kopf.on.delete(K)
def d1(**kw):
    note('d1', kw)
    if not kw['retry']: raise kopf.TemporaryError("t", delay=0.5)
@kopf.on.delete(K, optional=True)
def d2(**kw): note('d2', kw)
@kopf.on.delete(K)
def d3(**kw): note('d3', kw); raise kopf.PermanentError("p")
""",
        [Create(), Settle(), Delete(), Settle()],
    ),
    Case(
        "delete-optional",
        """
@kopf.on.delete(K, optional=True)
def d(**kw): note('d', kw)
""",
        [Create(), Settle(), Delete(), Settle()],
    ),
    Case(
        "delete-optional-blocked",
        """
@kopf.on.create(K)
def c(**kw): note('c', kw)
@kopf.on.delete(K, optional=True)
def d(**kw): note('d', kw)
""",
        [
            Create(metadata={"finalizers": ["example.com/foreign"]}),
            Settle(),
            Delete(),
            Settle(),
            Patch({"metadata": {"labels": {"q": "q"}}}),
            Settle(),
            Patch({"metadata": {"finalizers": None}}),
            Settle(),
        ],
    ),
    Case(
        "delete-filters-change",
        """
@kopf.on.delete(K, labels={'l': 'v'})
def d(**kw): note('d', kw)
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
        "delete-while-creating",
        """
@kopf.on.create(K)
def a(**kw): note('a', kw); raise kopf.TemporaryError("t", delay=30)
@kopf.on.create(K)
def b(**kw): note('b', kw)
@kopf.on.delete(K)
def d(**kw):
    note('d', kw)
    if not kw['retry']: raise kopf.TemporaryError("td", delay=0.5)
""",
        [Create(), Recorded("b"), Settle(pending=True), Delete(), Settle()],
    ),
    Case(
        "delete-while-creating-same-id",
        """
@kopf.on.create(K)
@kopf.on.delete(K)
def a(**kw):
    note('a', kw)
    if kw['retry'] < 2: raise kopf.TemporaryError("t", delay=4)
@kopf.on.create(K)
@kopf.on.delete(K)
def b(**kw): note('b', kw)
""",
        [Create(), Recorded("b"), Delete(), Settle()],
    ),
    Case(
        "delete-while-updating",
        """
@kopf.on.update(K)
def a(**kw): note('a', kw)
@kopf.on.update(K)
def b(**kw): note('b', kw); raise kopf.TemporaryError("t", delay=30)
@kopf.on.delete(K)
def d1(**kw): note('d1', kw)
@kopf.on.delete(K, id='a')
def d2(**kw): note('d2', kw)
""",
        [
            Create(),
            Settle(),
            Patch({"spec": {"field": "v2"}}),
            Recorded("b"),
            Settle(pending=True),
            Delete(),
            Settle(),
        ],
    ),
    Case(
        "delete-while-creating-free",
        """
@kopf.on.create(K)
def a(**kw): note('a', kw); raise kopf.TemporaryError("t", delay=30)
""",
        [Create(), Called("a"), Recorded("a"), Delete(), Settle()],
    ),
    Case(
        "foreign-finalizers",
        """
@kopf.on.delete(K)
def d(**kw): note('d', kw)
""",
        [
            Create("a", metadata={"finalizers": ["example.com/foreign"]}),
            Create("b", metadata={"finalizers": [FINALIZER, "example.com/foreign"]}),
            Create("c", metadata={"finalizers": [FINALIZER]}),
            Settle(),
            Delete("a"),
            Delete("b"),
            Delete("c"),
            Settle(),
            Patch({"metadata": {"labels": {"q": "q"}}}, "a"),
            Patch({"metadata": {"labels": {"q": "q"}}}, "b"),
            Settle(),
            Patch({"metadata": {"finalizers": None}}, "a"),
            Patch({"metadata": {"finalizers": None}}, "b"),
            Settle(),
        ],
    ),
    Case(
        "unneeded-finalizer",
        """
@kopf.on.create(K)
def c(**kw): note('c', kw)
""",
        [
            Create("b", metadata={"finalizers": [FINALIZER, "example.com/foreign"]}),
            Create("c", metadata={"finalizers": [FINALIZER]}),
            Settle(),
            Delete("c"),
            Settle(),
        ],
    ),
    Case(
        "unneeded-finalizer-events",
        """
@kopf.on.event(K)
def e(**kw): note('e', kw)
""",
        [Create("c", metadata={"finalizers": [FINALIZER]}), Settle(), Delete("c"), Settle()],
    ),
)
