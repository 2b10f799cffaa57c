"""Doubts: what can exist though nobody knows of it, and when it is known again."""

from typing import Any

from kopf_cogs.structs.resources import Resource
from kopf_core.engines.desired.doubts import DoubtedChild, Doubts
from kopf_core.reactor.streams.observed import KindView

KEX = Resource("kopf.dev", "v1", "kopfexamples", "KopfExample", namespaced=True)


def make_child(name: str = "a", *, source: Any = None) -> DoubtedChild:
    return DoubtedChild(source or KindView(KEX), "ns", name)


def test_h2_kinds_that_were_not_served_in_between_leave_no_doubts() -> None:
    """The view on the kind is another one since then; otherwise, the owner is held for ever."""
    doubts = Doubts()
    doubts.add("uid", make_child())
    doubts.add("uid", make_child())
    doubts.discard("uid", make_child())
    assert "uid" not in doubts


def test_doubts_of_other_objects_stay() -> None:
    doubts = Doubts()
    doubts.add("uid", make_child("a"))
    doubts.discard("uid", make_child("b"))
    doubts.discard("other", make_child("a"))
    assert "uid" in doubts
