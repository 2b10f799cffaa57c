"""What each request does to the store, and what is replied to it. Watches are apart."""

from __future__ import annotations

import base64
import copy
import itertools
import json
from collections.abc import Collection
from typing import Any

from e2e.chaos.fake.errors import Refusal, make_status
from e2e.chaos.fake.http import Request
from e2e.chaos.fake.kinds import Json, Kind, discover
from e2e.chaos.fake.routing import Target
from e2e.chaos.fake.store import Store, merging, modifying


class Executor:
    """Executes requests one by one."""

    def __init__(self, store: Store, kinds: Collection[Kind]) -> None:
        self.stale: dict[tuple[str, str], int | None] = {}
        """The versions at which the objects of some kinds are listed."""

        self._store = store
        self._kinds = kinds
        self._names = itertools.count(1)

    def execute(self, request: Request, target: Target) -> tuple[int, Json]:
        """Get the status code and the body of the reply. Raises :class:`Refusal`."""
        match target.verb:
            case "discover":
                return self._discover(request)
            case "review":
                return 201, _review(request.payload)
            case "list" | "next":
                return 200, self._list(request, target)
            case "get":
                return 200, _present(target, self._store.get(target.key))
            case "create":
                return 201, _present(target, self._create(request, target))
            case "delete":
                return 200, _present(target, self._store.delete(target.key, author="client"))
            case "patch" | "update":
                return 200, _present(target, self._change(request, target))
        raise Refusal(404, f"there is nothing at {request.path}")

    def _discover(self, request: Request) -> tuple[int, Json]:
        found = discover(self._kinds, request.path)
        if found is None:
            raise Refusal(404, "the server could not find the requested resource")
        return 200, found

    def _list(self, request: Request, target: Target) -> Json:
        kind = target.kind
        assert kind is not None
        start, version = _decode(request.query.get("continue"))
        if version is None:
            version = self.stale.get(kind.key) or self._store.version
        elif version < self._store.compacted:
            raise Refusal(410, "The provided continue parameter is too old")
        objects = self._store.list(kind, target.namespace, version)
        stop = start + int(request.query.get("limit") or len(objects))
        metadata: Json = {"resourceVersion": str(version)}
        if stop < len(objects):
            metadata["continue"] = _encode(stop, version)
        items = [copy.deepcopy(obj) for obj in objects[start:stop]]
        for item in items:
            del item["apiVersion"], item["kind"]  # as real servers do
        return {
            "kind": f"{kind.kind}List",
            "apiVersion": kind.api_version,
            "metadata": metadata,
            "items": items,
        }

    def _create(self, request: Request, target: Target) -> Json:
        body = request.payload
        metadata = body.get("metadata") or {}
        name = metadata.get("name") or f"{metadata.get('generateName', '')}{next(self._names)}"
        key = (target.key[0], target.namespace, name)
        return self._store.create(key, body, author="client")

    def _change(self, request: Request, target: Target) -> Json:
        assert target.kind is not None
        content_type = request.headers.get("content-type", "").partition(";")[0]
        match content_type, request.payload:
            case "application/merge-patch+json", dict() as patch:
                transform = merging(patch)
            case "application/json-patch+json", list() as operations:
                transform = modifying(operations)
            case "application/json", dict() as body if request.method == "PUT":
                transform = lambda _: body  # noqa: E731
            case _:
                raise Refusal(415, f"such patches are not supported: {content_type}")
        if target.is_status and not target.kind.has_status:
            raise Refusal(404, "the server could not find the requested resource")
        status = target.is_status if target.kind.has_status else None
        return self._store.change(target.key, transform, status=status, author="client")


def _present(target: Target, obj: Json) -> Json:
    """The object in the version of the API in which it was asked for."""
    assert target.kind is not None
    return {**obj, "apiVersion": target.kind.api_version, "kind": target.kind.kind}


def _review(payload: Any) -> Json:
    """Everything is allowed to everybody here, and the rules say so."""
    rule = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
    status = {"allowed": True, "resourceRules": [rule]}
    return {**(payload or make_status(400)), "status": status}


def _encode(start: int, version: int) -> str:
    return base64.urlsafe_b64encode(json.dumps([start, version]).encode()).decode()


def _decode(token: str | None) -> tuple[int, int | None]:
    if token is None:
        return 0, None
    start, version = json.loads(base64.urlsafe_b64decode(token))
    return int(start), int(version)
