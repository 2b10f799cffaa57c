"""Doubts: what can exist though nobody knows of it, and when it is known again."""

from typing import Any

from kopf_cogs.structs.resources import Resource
from kopf_core.engines.desired.doubts import Doubts, Place
from kopf_core.reactor.streams.observed import KindView

KEX = Resource("kopf.dev", "v1", "kopfexamples", "KopfExample", namespaced=True)


def make_place(name: str = "a", *, source: Any = None) -> Place:
    return Place(source or KindView(KEX), "ns", name)


def test_h2_kinds_that_were_not_served_in_between_leave_no_doubts() -> None:
    """The view on the kind is another one since then; otherwise, the owner is held for ever."""
    doubts = Doubts()
    doubts.add("uid", make_place())
    doubts.add("uid", make_place())
    doubts.discard("uid", make_place())
    assert "uid" not in doubts


def test_doubts_of_other_objects_stay() -> None:
    doubts = Doubts()
    doubts.add("uid", make_place("a"))
    doubts.discard("uid", make_place("b"))
    doubts.discard("other", make_place("a"))
    assert "uid" in doubts
