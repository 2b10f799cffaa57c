"""Conversion reviews: the functions of users convert objects from one version to another.

A conversion waits for nothing, unlike an admission review: the API cannot even list the objects for
Kopf until they are converted.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any, TypeGuard

from kopf_cogs.helpers.callbacks import call
from kopf_cogs.structs.bodies import Body
from kopf_cogs.structs.reviews import ReviewError, UnknownWebhookError
from kopf_core.actions.invocation import invoke
from kopf_core.actions.retrying import safe_message
from kopf_core.engines.admission.requests import is_object
from kopf_core.intents.conversions import (
    ConversionError,
    ConversionHandler,
    Conversions,
    group_by_kind,
)

logger = logging.getLogger("kopf._core.engines.admission")

PREFIX = "convert/"
"""The path of conversions under the path of the server. The name of the kind follows it."""

REVIEW = "ConversionReview"
API_VERSION = "apiextensions.k8s.io/v1"


PATIENCE = 25.0
"""In seconds. API servers wait for 30, and then name neither the function nor the object."""

Steps = deque[tuple[Mapping[str, Any], ConversionHandler]]
"""The object that is being converted, and its handler: only the latest one."""


class Converter:
    """Answers conversion reviews by the functions that this operator declares."""

    def __init__(self, handlers: Collection[ConversionHandler], threads: Executor) -> None:
        self._threads = threads
        self._kinds = group_by_kind(handlers)

    async def __call__(self, review: Mapping[str, Any], webhook: str | None) -> dict[str, Any]:
        """Convert all objects of the review, or none. Raises :class:`ReviewError`."""
        kind = self._kinds.get((webhook or "").strip("/").removeprefix(PREFIX))
        if kind is None:
            raise UnknownWebhookError("There are no conversions of this kind.")
        request = review.get("request")
        objects = request.get("objects") if isinstance(request, Mapping) else None
        wanted = request.get("desiredAPIVersion") if isinstance(request, Mapping) else None
        if not isinstance(request, Mapping) or not isinstance(objects, list):
            raise ReviewError("It is not a conversion review: there are no objects in it.")
        if not isinstance(wanted, str) or not all(is_object(obj) for obj in objects):
            raise ReviewError("The desired version is missing, or there are no objects but others.")
        uid, api_version = request.get("uid"), review.get("apiVersion") or API_VERSION
        if not isinstance(uid, str | None) or not isinstance(api_version, str):
            raise ReviewError("The uid of the request and the version of the review must be texts.")
        response: dict[str, Any] = {"uid": uid}
        try:
            converted = await self._convert_in_time(kind, objects, wanted)
            response |= {"result": {"status": "Success"}, "convertedObjects": converted}
        except ConversionError as e:
            logger.error(f"{e}")
            response["result"] = {"status": "Failed", "message": str(e)}
        return {"apiVersion": api_version, "kind": REVIEW, "response": response}

    async def _convert_in_time(
        self, kind: Conversions, objects: Sequence[dict[str, Any]], wanted: str
    ) -> list[dict[str, Any]]:
        steps: Steps = deque(maxlen=1)
        try:
            async with asyncio.timeout(PATIENCE):
                return await self._convert_all(kind, objects, wanted, steps)
        except TimeoutError:
            error = ConversionError(f"it has not ended in {PATIENCE:g} seconds")
            if not steps:
                text = "all threads are busy with other functions of webhooks and conversions"
                raise ConversionError(f"No object is converted: {text}.") from None
            raise _explain(*steps[0], error) from None

    async def _convert_all(
        self, kind: Conversions, objects: Sequence[dict[str, Any]], wanted: str, steps: Steps
    ) -> list[dict[str, Any]]:
        chains = [_find_chain(kind, obj, wanted) for obj in objects]
        pairs = [*zip(objects, chains, strict=True)]
        if any(handler.is_async for chain in chains for handler in chain):
            return [await self._convert(obj, chain, steps) for obj, chain in pairs]
        # Lists can be long: all their objects share one thread.
        converted: list[dict[str, Any]] = await invoke(
            lambda: [_convert(obj, chain, steps) for obj, chain in pairs],
            kwargs={},
            is_async=False,
            executor=self._threads,
        )
        return converted

    async def _convert(
        self, obj: dict[str, Any], chain: Sequence[ConversionHandler], steps: Steps
    ) -> dict[str, Any]:
        for handler in chain:
            steps.append((obj, handler))
            try:
                kwargs = handler.make_kwargs(obj)
                result = await invoke(
                    handler.fn,
                    kwargs=kwargs,
                    is_async=handler.is_async,
                    executor=self._threads,
                )
                obj = handler.finish(obj, kwargs, result)
            except Exception as e:
                raise _explain(obj, handler, e) from e
        return obj


def is_conversion(review: object) -> TypeGuard[Mapping[str, Any]]:
    """Whether the review asks for a conversion, not for an admission."""
    return isinstance(review, Mapping) and review.get("kind") == REVIEW


def _convert(
    obj: dict[str, Any], chain: Sequence[ConversionHandler], steps: Steps
) -> dict[str, Any]:
    for handler in chain:
        steps.append((obj, handler))
        try:
            kwargs = handler.make_kwargs(obj)
            obj = handler.finish(obj, kwargs, call(handler.fn, **kwargs))
        except Exception as e:
            raise _explain(obj, handler, e) from e
    return obj


def _find_chain(
    kind: Conversions, obj: Mapping[str, Any], wanted: str
) -> Sequence[ConversionHandler]:
    group, _, source = str(obj.get("apiVersion") or "").rpartition("/")
    wanted_group, _, target = wanted.rpartition("/")
    chain = kind.find_chain(source, target) if group == wanted_group else None
    if chain is None:
        raise ConversionError(
            f"{_show(obj)} cannot be converted to {wanted}: no functions do that."
        )
    return chain


def _explain(obj: Mapping[str, Any], handler: ConversionHandler, e: Exception) -> ConversionError:
    name = "" if isinstance(e, ConversionError) else f"{type(e).__name__}: "
    return ConversionError(
        f"{_show(obj)} could not be converted from {handler.source} to {handler.target} "
        f"by {handler.id!r}: {name}{safe_message(e)}"
    )


def _show(obj: Mapping[str, Any]) -> str:
    meta = Body(obj).metadata
    name = "/".join(part for part in (meta.namespace, meta.name) if part)
    return f"{obj.get('kind')} {name} of {obj.get('apiVersion')}"
