"""Reviews, and those who judge them, with no servers between them."""

import base64
import dataclasses
import json
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from kopf_cogs.structs.memos import Memo
from kopf_core.actions.errors import ErrorsMode
from kopf_core.engines.admission import ReviewContext, Reviewer, get_webhook_handlers
from kopf_core.engines.admission.reviewing import make_threads
from kopf_core.engines.admission.routes import Routes
from kopf_core.engines.memories import ObjectMemories

Review = dict[str, Any]


@pytest.fixture
def make_review(make_body: Any) -> Callable[..., Review]:
    """A review of a change of an object: by its old and new specs."""

    def make(
        spec: dict[str, Any] | None = None,
        *,
        old: dict[str, Any] | None = None,
        operation: str | None = None,
        meta: dict[str, Any] | None = None,
        **fields: Any,
    ) -> Review:
        request = {
            "uid": "uid-of-review",
            "kind": {"group": "kopf.dev", "version": "v1", "kind": "KopfExample"},
            "resource": {"group": "kopf.dev", "version": "v1", "resource": "kopfexamples"},
            "name": "obj",
            "namespace": "ns",
            "operation": operation or ("CREATE" if old is None else "UPDATE"),
            "userInfo": {"username": "me", "uid": "me-too", "groups": ["us"]},
            "object": None if operation == "DELETE" else make_body(spec, **meta or {}),
            "oldObject": None if old is None else make_body(old, **meta or {}),
            "dryRun": False,
        }
        return {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": request | fields,
        }

    return make


@pytest.fixture
def memories() -> ObjectMemories:
    return ObjectMemories(Memo(x=1))


@pytest.fixture
def make_reviewer(
    registry: Any, settings: Any, execution: Any, resource: Any, memories: ObjectMemories
) -> Iterator[Callable[..., Reviewer]]:
    """Who judges by the handlers registered so far."""
    threads = make_threads(settings)

    def make(*, is_serving: bool = True, **context: Any) -> Reviewer:
        handlers = get_webhook_handlers(registry)
        defaults = {
            "settings": settings, "memories": memories, "memo": Memo(x=1), "indices": {}
        }  # fmt: skip
        reviewer = Reviewer(
            ReviewContext(**defaults | context),
            dataclasses.replace(
                execution, errors=ErrorsMode.PERMANENT, executor=threads, endures=False
            ),
            Routes(handlers),
        )
        if is_serving:
            reviewer.serve({h: [resource] for h in handlers if h.selector.check(resource)})
        return reviewer

    yield make
    threads.shutdown(wait=False)


@pytest.fixture
def judge(make_reviewer: Any) -> Callable[..., Awaitable[dict[str, Any]]]:
    """Judge a review; the response is with its patch decoded."""

    async def judge(review: Any, **options: Any) -> dict[str, Any]:
        full = await make_reviewer()(review, **options)
        assert full["kind"] == "AdmissionReview"
        response: dict[str, Any] = full["response"]
        if "patch" in response:
            assert response.pop("patchType") == "JSONPatch"
            response["patch"] = json.loads(base64.b64decode(response["patch"]))
        return response

    return judge
