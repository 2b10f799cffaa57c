"""Streams that bring the objects into a form before they keep or pass the objects."""

from collections.abc import Iterable
from typing import Any

from kopf_cogs.clients import quarantine
from kopf_cogs.clients.stream_state import StreamState
from kopf_cogs.configs.forms import Form, FormError
from kopf_cogs.structs import bodies

PARTIAL = "meta.k8s.io/v1"
"""The API version of objects and lists that have only the metadata."""

_KINDS = frozenset({"ADDED", "MODIFIED", "DELETED"})


class FormedState(StreamState):
    """The state of a list-and-watch of objects in a form.

    If the user's function fails for an object, the stream reports the object and does not pass it.
    The stream cannot pass the whole object: handlers would see a change where there is none.
    """

    def __init__(self, form: Form, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._form = form

    def add_page(
        self,
        items: Iterable[bodies.RawBody],
        rejected: Iterable[quarantine.Quarantined],
    ) -> None:
        results = [self._make(item) for item in items]
        formed: Any = [one for one in results if not isinstance(one, quarantine.Quarantined)]
        failed = [one for one in results if isinstance(one, quarantine.Quarantined)]
        super().add_page(formed, [*rejected, *failed])

    def add_batch(self, batch: list[Any]) -> None:
        super().add_batch([self._make_event(event) for event in batch])

    def add_ahead(self, batch: list[Any]) -> None:
        super().add_ahead([self._make_event(event) for event in batch])

    def _make_event(self, event: Any) -> Any:
        if not isinstance(event, dict) or event.get("type") not in _KINDS:
            return event
        obj = event.get("object")
        if not quarantine.is_sane(obj):
            return event
        made = self._make(obj, event["type"])
        return made if isinstance(made, quarantine.Quarantined) else {**event, "object": made}

    def _make(self, obj: Any, type: str | None = None) -> Any:
        if obj.get("apiVersion") == PARTIAL:  # the stream knows the real kind
            obj = {**obj, "apiVersion": self._resource.api_version, "kind": self._resource.kind}
        try:
            return self._form.apply(obj)
        except FormError as e:
            problem = f"its transform has failed ({e})"
            return quarantine.describe(obj, type)._replace(problem=problem)
