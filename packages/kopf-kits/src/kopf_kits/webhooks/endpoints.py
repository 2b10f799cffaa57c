"""The HTTP side of webhook servers: requests become reviews, answers become responses."""

import functools
import logging
import urllib.parse
from collections.abc import Mapping
from typing import Any, cast

from aiohttp import web

from kopf_cogs.helpers import jsons
from kopf_cogs.structs.reviews import Request, ReviewError, WebhookFn
from kopf_kits.webhooks.bodies import MAX_BODY, Bodies, Refusal

logger = logging.getLogger("kopf._kits.webhooks")

# The second type is the default of curl. Bodies with no type at all are taken for JSON.
CONTENT_TYPES = frozenset({"application/json", "application/x-www-form-urlencoded"})


class ReviewEndpoint:
    """All URLs under one path: the rest of the URL's path is the id of the webhook.

    Any bad request gets a 4xx response with one line of text, and never an exception.
    """

    def __init__(self, fn: WebhookFn, path: str | None = None) -> None:
        super().__init__()
        self._fn = fn
        self._root = make_root(path)
        self._bodies = Bodies()

    async def handle(self, request: web.BaseRequest) -> web.Response:
        """Answer one request."""
        response = await self._answer(request)
        if getattr(self._fn, "is_leaving", False):
            response.force_close()  # the client connects anew: to another replica, if there is any
        return response

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        try:
            return await self._review(request)
        except ReviewError as e:
            logger.debug(f"A request to the webhooks is refused: {e}")
            response = web.Response(status=e.status, text=f"{e}\n")
            response.headers.update(getattr(e, "headers", None) or {})
            response.force_close()  # it neither reads the rest of the body nor waits for it
            return response
        except Exception as e:
            logger.error(f"A review could not be answered: {type(e).__name__}: {e}")
            return web.Response(status=500, text="The webhook has failed, see its log.\n")

    async def _review(self, request: web.BaseRequest) -> web.Response:
        webhook = parse_webhook(request.raw_path, self._root)
        check_headers(request)
        async with self._bodies.receive(request) as body:
            answer = await self._fn(
                parse_review(body),
                webhook=webhook,
                headers=dict(request.headers),
                sslpeer=get_peer(request),
            )
        return web.Response(body=jsons.dumps(answer), content_type="application/json")


def make_root(path: str | None) -> str:
    """The path without its last slash, and with the first one: ``/hooks``, or nothing at all."""
    stripped = (path or "").strip("/")
    return f"/{stripped}" if stripped else ""


@functools.lru_cache(maxsize=100)
def parse_webhook(raw_path: str, root: str) -> str | None:
    """Get the id of the webhook, if there is one, from the path in the request's first line.

    Raises :class:`Refusal` if the path is not under our path, or tries to get out of ours.
    """
    path = raw_path.partition("?")[0]
    rest = path.removeprefix(root)
    if not path.startswith(root) or (rest and not rest.startswith("/")):
        raise Refusal(404, "There is nothing at this path.")
    try:
        webhook = urllib.parse.unquote(rest[1:], errors="strict")
    except UnicodeDecodeError:
        raise Refusal(404, "The path is not in UTF-8.") from None
    if {".", ".."} & set(webhook.replace("\\", "/").split("/")) or not webhook.isprintable():
        raise Refusal(404, "There is nothing at this path.")
    return webhook or None


def check_headers(request: web.BaseRequest) -> None:
    """Raise :class:`Refusal` if the headers are enough to refuse the request."""
    if request.method != "POST":
        raise Refusal(405, "Only POST is served here.", {"Allow": "POST"})
    if "Content-Type" in request.headers and request.content_type not in CONTENT_TYPES:
        raise Refusal(415, "Only application/json is understood.")
    if request.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise Refusal(415, "Compressed bodies are not understood.")
    if (request.content_length or 0) > MAX_BODY:
        raise Refusal(413, f"The body is longer than {MAX_BODY} bytes.")


def parse_review(body: bytes) -> Request:
    """Parse the body. Raises :class:`Refusal` if it is not an object in JSON."""
    try:
        review = jsons.loads(body)
    except ValueError:
        raise Refusal(400, "The body is not JSON.") from None
    if not isinstance(review, dict):
        raise Refusal(400, "The body is not an admission review.")
    return cast(Request, review)


def get_peer(request: web.BaseRequest) -> Mapping[str, Any] | None:
    """The verified certificate of the client, if there is one."""
    transport = request.transport
    return None if transport is None else transport.get_extra_info("peercert") or None
