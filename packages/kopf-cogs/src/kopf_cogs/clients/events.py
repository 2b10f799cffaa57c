"""Posting of Kubernetes events, which people see at the end of ``kubectl describe``."""

from collections.abc import Iterable
from typing import Any

from kopf_cogs.clients import creating, session
from kopf_cogs.structs import bodies, resources

MAX_MESSAGE = 1024
"""In bytes of UTF-8: the API servers refuse longer messages."""

MAX_REASON = 128
"""In bytes of UTF-8: the API servers refuse longer reasons, and longer names of instances."""

_CUT = "..."


async def post_event(
    client: session.Client,
    *,
    ref: bodies.ObjectReference,
    type: str,
    reason: str,
    message: str = "",
    backoffs: float | Iterable[float] | None = None,
) -> Any:
    """Post an event about the object; get the event as it is created, if it is.

    ``type`` is Normal, Warning, or any other word; ``reason`` is a word in CamelCase.
    Too long texts are cut in the middle. ``settings.posting`` names the reporter of the event.
    ``backoffs`` are the delays of the retries (``settings.posting.default_backoffs`` by default).

    Events of cluster-scoped objects go to the "default" namespace: there are no others for them.
    Events about events are not posted: they could be watched, and would never end.

    Raises :class:`APIError` if it is not posted. Events are not worth to fail for.
    """
    if ref.get("kind") == "Event" and ref.get("apiVersion") in ("v1", "events.k8s.io/v1"):
        return None
    body = _make_event(client, ref, type, reason, message)
    namespace = body["metadata"]["namespace"]
    if backoffs is None:
        backoffs = client.settings.posting.default_backoffs
    return await creating.create_object(
        client, resources.EVENTS, namespace, body, backoffs=backoffs
    )


def _make_event(
    client: session.Client, ref: bodies.ObjectReference, type: str, reason: str, message: str
) -> dict[str, Any]:
    posting = client.settings.posting
    namespace = ref.get("namespace") or "default"
    now = client.clock.now().isoformat()
    return {
        "metadata": {"namespace": namespace, "generateName": posting.event_name_prefix},
        "action": "Action?",
        "type": type,
        "reason": shorten(reason, MAX_REASON),
        "message": shorten(message),
        "reportingComponent": posting.reporting_component,
        "reportingInstance": shorten(posting.reporting_instance, MAX_REASON),
        "source": {"component": posting.reporting_component},
        "involvedObject": {**ref, "namespace": namespace},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "eventTime": now,
    }


async def aggregate_event(client: session.Client, *, namespace: str, name: str, count: int) -> None:
    """Count a repetition of an event instead of posting the same event again.

    Raises :class:`APINotFoundError` if the event has expired already.
    """
    url = resources.EVENTS.get_url(namespace=namespace, name=name)
    now = client.clock.now().isoformat()
    payload = {"count": count, "lastTimestamp": now}
    await client.patch(url, payload, content_type="application/merge-patch+json", backoffs=())


def shorten(text: str, limit: int = MAX_MESSAGE) -> str:
    """Cut the middle of the text: the beginning and the end are usually more important.

    The limit is in bytes of UTF-8; no character is cut in parts.
    """
    data = text.encode("utf-8", "surrogatepass")
    if len(data) <= limit:
        return text
    head = (limit - len(_CUT) + 1) // 2
    tail = limit - len(_CUT) - head
    return data[:head].decode("utf-8", "ignore") + _CUT + data[-tail:].decode("utf-8", "ignore")
