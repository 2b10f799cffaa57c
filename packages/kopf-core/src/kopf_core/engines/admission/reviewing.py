"""Admission reviews: the way of a request to its handlers, and to the response."""

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, cast

from kopf_cogs.aiokits.surroundings import get_threads
from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.structs.bodies import Body
from kopf_cogs.structs.diffs import diff
from kopf_cogs.structs.keys import object_key
from kopf_cogs.structs.memos import AnyMemo
from kopf_cogs.structs.patches import Patch
from kopf_cogs.structs.resources import Resource
from kopf_cogs.structs.reviews import Headers, Response, SSLPeer, UnknownWebhookError
from kopf_core.actions.errors import HandlerTimeoutError, PermanentError
from kopf_core.actions.execution import Execution
from kopf_core.actions.states import HandlerState
from kopf_core.engines.admission.configurations import DEFAULT_TIMEOUT, Served
from kopf_core.engines.admission.converting import Converter, is_conversion
from kopf_core.engines.admission.requests import ResourceId, ReviewRequest, parse_review
from kopf_core.engines.admission.responses import (
    PatchError,
    ReviewVerdict,
    make_patch,
    make_response,
)
from kopf_core.engines.admission.routes import Routes
from kopf_core.engines.memories import ObjectMemories, ObjectMemory
from kopf_core.intents.matching import FilterError
from kopf_core.intents.views import InvalidObjectError
from kopf_core.intents.webhooks import (
    AdmissionCause,
    AdmissionError,
    WebhookHandler,
    WebhookType,
    matches_request,
)

logger = logging.getLogger("kopf._core.engines.admission")

THREADS = "kopf-webhook"
"""The prefix of the names of threads for sync webhooks."""

MAX_THREADS = 32
"""How many sync webhooks work at once, unless ``settings.execution.max_workers`` is set."""

QUIET_TIME = 1.0
"""How long (in seconds) there must be no requests until the server can leave."""

LEAVING_TIME = 10.0
"""How long (in seconds) API servers can take to find other replicas.

If requests still come after that time, there are no other replicas.

API servers ask for conversions for as long as objects are used. Nothing tells them to stop.
"""

INVALID = 422
"""The code of the denial if the object is invalid for the models of handlers, as in the API."""

_NOBODY: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewContext:
    """The inputs of reviews that do not depend on the request."""

    settings: OperatorSettings
    memories: ObjectMemories
    memo: AnyMemo
    indices: Mapping[str, Any]


@dataclass(slots=True)
class Tally:
    """The counts of reviews of one webhook since the start."""

    working: int = 0
    reviews: int = 0
    """The number of finished reviews, including the denied ones."""

    denied: int = 0


class Reviewer:
    """Judges admission reviews. This is the function that webhook servers get.

    Sync handlers have threads of their own, so that the API does not wait for other work.
    """

    def __init__(
        self,
        context: ReviewContext,
        execution: Execution,
        routes: Routes,
        converter: Converter | None = None,
    ) -> None:
        self._context = context
        self._converter = converter
        self._execution = execution
        self._routes = routes
        self.tallies: dict[WebhookHandler, Tally] = {}
        self._resources: Mapping[ResourceId, Resource] = {}
        self._served: Served = {}
        self._opened = asyncio.Event()
        self._works: set[asyncio.Future[None]] = set()
        self._asked = float("-inf")
        self.is_leaving = False
        """Whether servers ask their clients to connect anew, as there are other replicas."""

    def serve(self, served: Served) -> None:
        """Take the resources of the handlers. No review is judged before that."""
        self._served = served
        self._resources = {
            (res.group, res.version, res.plural): res for found in served.values() for res in found
        }
        self._opened.set()

    async def drain(self) -> None:
        """Wait until no requests are in work and no more come, but not for long."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(LEAVING_TIME):
                while self._works or self._asked + QUIET_TIME > loop.time():
                    await self._finish_works()
                    await asyncio.sleep(self._asked + QUIET_TIME - loop.time())
        except TimeoutError:
            await self._finish_works()

    async def _finish_works(self) -> None:
        """Wait for the requests that are in work now, but not for requests that come meanwhile."""
        if self._works:
            await asyncio.wait([*self._works])

    async def __call__(
        self,
        request: object,
        *,
        webhook: str | None = None,
        headers: Headers | None = None,
        sslpeer: SSLPeer | None = None,
    ) -> Response:
        """Judge one review. Raises :class:`ReviewError` if it cannot be answered."""
        loop = asyncio.get_running_loop()
        work: asyncio.Future[None] = loop.create_future()
        self._works.add(work)
        try:
            if self._converter is not None and is_conversion(request):
                return cast(Response, await self._converter(request, webhook))
            parsed = parse_review(request)
            handlers = self._routes.select(webhook)
            if not self._opened.is_set():
                await self._opened.wait()
            resource = self._find_resource(parsed)
            handlers = tuple(h for h in handlers if resource in self._served.get(h, ()))
            causes = [
                self._make_cause(parsed, resource, headers or _NOBODY, sslpeer or _NOBODY)
                for _ in handlers
            ]
            return make_response(parsed, await self._judge(parsed, handlers, causes))
        finally:
            self._works.discard(work)
            work.set_result(None)
            self._asked = loop.time()

    def _find_resource(self, request: ReviewRequest) -> Resource:
        resource = self._resources.get(request.resource)
        if resource is None:
            name = ".".join(reversed(request.resource)).strip(".")
            raise UnknownWebhookError(f"The specified resource has no handlers: {name}")
        return resource

    async def _judge(
        self,
        request: ReviewRequest,
        handlers: Sequence[WebhookHandler],
        causes: Sequence[AdmissionCause],
    ) -> ReviewVerdict:
        try:
            chosen = [
                (handler, cause)
                for handler, cause in zip(handlers, causes, strict=True)
                if matches_request(handler, cause)
            ]
        except FilterError as e:
            causes[0].logger.error(str(e))  # the details are for developers only
            return ReviewVerdict(errors=[PermanentError("The filters of the webhook have failed.")])
        except InvalidObjectError as e:
            return ReviewVerdict(errors=[AdmissionError(str(e), code=INVALID)])
        if len(chosen) == 1:
            results = [await self._call(*chosen[0])]
        else:
            results = await asyncio.gather(*(self._call(*pair) for pair in chosen))
        errors: list[BaseException] = [error for error in results if error is not None]
        warnings = [text for _, cause in chosen for text in cause.warnings]
        try:
            operations = make_patch(request, _collect_patches(request, chosen))
        except PatchError as e:
            chosen[0][1].logger.error(str(e))
            return ReviewVerdict([*errors, e], warnings)
        return ReviewVerdict(errors, warnings, operations)

    async def _call(self, handler: WebhookHandler, cause: AdmissionCause) -> BaseException | None:
        """Call the handler for as long as the API waits for it; return its error if it fails."""
        tally = self.tallies.setdefault(handler, Tally())
        tally.working += 1
        try:
            error = await self._attempt(handler, cause)
        finally:
            tally.working -= 1
        tally.reviews += 1
        tally.denied += error is not None
        return error

    async def _attempt(
        self, handler: WebhookHandler, cause: AdmissionCause
    ) -> BaseException | None:
        timeout = handler.timeout_seconds or DEFAULT_TIMEOUT
        state = HandlerState(started=self._execution.clock.now())
        try:
            async with asyncio.timeout(timeout):
                outcome = await self._execution.attempt(handler, cause, state)
        except TimeoutError:
            error = HandlerTimeoutError(f"{handler} has timed out after {timeout} seconds.")
            cause.logger.error(str(error))
            return error
        return outcome.exception

    def _make_cause(
        self, request: ReviewRequest, resource: Resource, headers: Headers, sslpeer: SSLPeer
    ) -> AdmissionCause:
        return AdmissionCause(
            resource=resource,
            body=Body(request.body),
            patch=Patch(body=request.body),
            settings=self._context.settings,
            record=self._recall(request, resource),
            indices=self._context.indices,
            operation=request.operation,
            subresource=request.subresource,
            dryrun=request.dryrun,
            userinfo=request.userinfo,
            headers=headers,
            sslpeer=sslpeer,
            old=None if request.old is None else Body(request.old),
            new=None if request.new is None else Body(request.new),
            diff=diff(request.old, request.new),
        )

    def _recall(self, request: ReviewRequest, resource: Resource) -> ObjectMemory:
        """Find the record of the object if it exists and is known; or make one for this review."""
        memory = None
        if request.old is not None:
            memory = self._context.memories.get(object_key(resource, request.old))
        return memory or ObjectMemory(self._context.memo, is_listed=False)


def _collect_patches(
    request: ReviewRequest,
    chosen: Collection[tuple[WebhookHandler, AdmissionCause]],
) -> list[Patch]:
    """Collect the changes to make, without the changes that the API would refuse."""
    for handler, cause in chosen:
        if cause.patch and (handler.type is not WebhookType.MUTATING or request.new is None):
            cause.logger.warning(f"{handler} has changed the patch, but it cannot be applied.")
    return [cause.patch for handler, cause in chosen if handler.type is WebhookType.MUTATING]


def make_threads(settings: OperatorSettings) -> Executor:
    """Make the threads of sync webhooks: apart from all other handlers, daemons, and probes."""
    limit = settings.execution.max_workers or MAX_THREADS
    return get_threads().make_pool(limit, name=THREADS)
