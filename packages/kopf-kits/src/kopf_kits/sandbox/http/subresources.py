"""Subresources other than ``status``: ``scale``, and subresources of some built-in kinds."""

from __future__ import annotations

from typing import Any

from kopf_kits.sandbox.access.users import make_token
from kopf_kits.sandbox.base.statuses import (
    Cause,
    StatusError,
    internal,
    invalid,
    method_not_allowed,
)
from kopf_kits.sandbox.cluster import Cluster
from kopf_kits.sandbox.schemas.selectors import parse_labels
from kopf_kits.sandbox.store.resources import Endpoint, Scale
from kopf_kits.sandbox.store.storage import Key
from kopf_kits.sandbox.verbs.deletions import DeleteOptions
from kopf_kits.sandbox.verbs.writes import Modify

from .bodies import parse_patch
from .calls import Call, Reply
from .options import write_options

Obj = dict[str, Any]


class Subresources:
    """Answers requests to the subresources of objects."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def answer(self, call: Call, endpoint: Endpoint, key: Key, name: str) -> Reply | None:
        """Answer the request; none if the resource has no such subresource."""
        if name == "scale" and endpoint.served.scale is not None:
            return await self._on_scale(call, endpoint, key, endpoint.served.scale)
        if name not in endpoint.served.extras:
            return None
        self._cluster.writer.require(endpoint, key)
        match name, call.method:
            case (("log" | "exec" | "attach" | "portforward"), _):
                raise _nothing_runs(name)
            case "token", "POST":
                return _issue_token(call, endpoint, key)
            case "binding", "POST":
                return await self._bind(call, endpoint, key)
            case "eviction", "POST":
                return await self._evict(call, endpoint, key)
            case "finalize", "PUT":
                return await self._finalize(call, endpoint, key)
            case (("approval" | "ephemeralcontainers"), ("GET" | "PUT" | "PATCH")):
                return await self._on_part(call, endpoint, key)
        raise method_not_allowed()

    async def _on_scale(self, call: Call, endpoint: Endpoint, key: Key, scale: Scale) -> Reply:
        stored = self._cluster.writer.require(endpoint, key)
        options = write_options(call)
        if call.method == "PUT":
            body = call.parse_body()
            change: Modify = lambda _: body  # noqa: E731
        elif call.method == "PATCH":
            change = parse_patch(call, endpoint, key, options)
        elif call.method == "GET":
            obj = endpoint.encode(stored.obj)
            if _get(obj, scale.spec_path) is None:
                raise internal(f'the spec replicas field "{scale.spec_path}" does not exist')
            return Reply.of(_make_scale(scale, obj))
        else:
            raise method_not_allowed()

        def modify(obj: Obj) -> Obj:
            return _apply_scale(scale, obj, change(_make_scale(scale, obj)))

        stored = await self._cluster.writer.update(endpoint, key, "scale", modify, options)
        return Reply.of(_make_scale(scale, endpoint.encode(stored.obj)))

    async def _on_part(self, call: Call, endpoint: Endpoint, key: Key) -> Reply:
        writer = self._cluster.writer
        options = write_options(call)
        if call.method == "GET":
            return Reply(200, writer.require(endpoint, key).data)
        if call.method == "PUT":
            body = call.parse_body()
            modify: Modify = lambda _: body  # noqa: E731
        else:
            modify = parse_patch(call, endpoint, key, options)
        sub = "status" if endpoint.served.status and "approval" in call.path else ""
        return Reply(200, (await writer.update(endpoint, key, sub, modify, options)).data)

    async def _bind(self, call: Call, endpoint: Endpoint, key: Key) -> Reply:
        node = (call.parse_body().get("target") or {}).get("name", "")

        def modify(obj: Obj) -> Obj:
            return {**obj, "spec": {**obj.get("spec", {}), "nodeName": node}}

        options = write_options(call)
        await self._cluster.writer.update(endpoint, key, "binding", modify, options)
        return _done(201)

    async def _evict(self, call: Call, endpoint: Endpoint, key: Key) -> Reply:
        body = call.parse_body()
        options = DeleteOptions.parse(body.get("deleteOptions") or {}, {})
        write = write_options(call)
        await self._cluster.deleter.delete(endpoint, key, options, write)
        return _done(201)

    async def _finalize(self, call: Call, endpoint: Endpoint, key: Key) -> Reply:
        spec = call.parse_body().get("spec") or {}
        stored = self._cluster.writer.require(endpoint, key)
        obj = {**stored.obj, "metadata": dict(stored.obj["metadata"]), "spec": spec}
        stored = endpoint.resource.store.put(key, obj)
        meta = stored.obj["metadata"]
        if meta.get("deletionTimestamp") and not spec.get("finalizers"):
            endpoint.resource.store.remove(key)
        return Reply(200, stored.data)


def _nothing_runs(subresource: str) -> StatusError:
    message = f"there are no containers in the sandbox, so there is nothing for {subresource!r}"
    return StatusError(501, "NotImplemented", message)


def _done(status: int) -> Reply:
    return Reply.of({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
                     "code": status}, status)  # fmt: skip


def _issue_token(call: Call, endpoint: Endpoint, key: Key) -> Reply:
    body = call.parse_body()
    spec = body.get("spec") or {}
    seconds = int(spec.get("expirationSeconds") or 3600)
    status = {
        "token": make_token(*key),
        "expirationTimestamp": endpoint.nature.now(seconds),
    }
    full = {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "metadata": {
        "name": key[1], "namespace": key[0], "creationTimestamp": endpoint.nature.now()},
        "spec": {**spec, "expirationSeconds": seconds}, "status": status}  # fmt: skip
    return Reply.of(full, 201)


def _get(obj: Obj, path: str) -> Any:
    value: Any = obj
    for name in path.lstrip(".").split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _set(obj: Obj, path: str, value: Any) -> Obj:
    name, _, rest = path.lstrip(".").partition(".")
    return {**obj, name: _set(obj.get(name) or {}, rest, value) if rest else value}


def _make_scale(scale: Scale, obj: Obj) -> Obj:
    meta = obj["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    replicas = _get(obj, scale.spec_path)
    status: Obj = {"replicas": _get(obj, scale.status_path) or 0}
    selector = _get(obj, scale.selector_path) if scale.selector_path else _selector(obj)
    if selector:
        status["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: meta[name] for name in kept if name in meta},
        "spec": {"replicas": replicas} if replicas is not None else {},
        "status": status,
    }


def _selector(obj: Obj) -> str:
    labels = ((obj.get("spec") or {}).get("selector") or {}).get("matchLabels") or {}
    text = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
    parse_labels(text)
    return text


def _apply_scale(scale: Scale, obj: Obj, wanted: Obj) -> Obj:
    meta = wanted.get("metadata") or {}
    replicas = (wanted.get("spec") or {}).get("replicas", 0)
    if not isinstance(replicas, int) or replicas < 0:
        text = f"Invalid value: {replicas}: should be a non-negative integer"
        cause = Cause("FieldValueInvalid", "spec.replicas", text)
        raise invalid("autoscaling", "Scale", obj["metadata"]["name"], [cause])
    changed = _set(obj, scale.spec_path, replicas)
    version = meta.get("resourceVersion") or obj["metadata"]["resourceVersion"]
    return {**changed, "metadata": {**changed["metadata"], "resourceVersion": version}}
