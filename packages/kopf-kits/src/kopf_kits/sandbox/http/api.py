"""The API: from requests to responses, for all resources alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from kopf_kits.sandbox.base.statuses import method_not_allowed, not_acceptable, not_found
from kopf_kits.sandbox.cluster import Cluster
from kopf_kits.sandbox.store.decoding import check_present_kind
from kopf_kits.sandbox.store.metadata import renew_absent
from kopf_kits.sandbox.store.resources import Endpoint
from kopf_kits.sandbox.store.storage import Key, Stored
from kopf_kits.sandbox.store.views import View, choose_view, object_view
from kopf_kits.sandbox.store.writeoptions import WriteOptions
from kopf_kits.sandbox.tables.tables import table_view
from kopf_kits.sandbox.verbs.reads import Query, list_page, parse_flag, parse_selectors
from kopf_kits.sandbox.verbs.watches import Watch, WatchOptions
from kopf_kits.sandbox.verbs.writes import report_problems

from .bodies import parse_patch
from .calls import Call, Reply, page_not_found
from .documents import Documents
from .gate import Gate
from .options import delete_options, write_options
from .routing import Target, parse
from .subresources import Subresources

_CHUNK = 500
_BUILTIN_MEDIA = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")


class API:
    """Answers requests on behalf of a cluster."""

    def __init__(self, cluster: Cluster, address: Callable[[], str]) -> None:
        self._cluster = cluster
        self._documents = Documents(cluster, address)
        self._gate = Gate(cluster)
        self._subresources = Subresources(cluster)

    async def answer(self, call: Call) -> Reply:
        """Answer the request; failures are raised as `StatusError`."""
        target = parse(call.path)
        self._gate.check(call, target)
        if target is None or not target.plural:
            return self._documents.answer(call, target)
        endpoint = self._cluster.registry.lookup(target.group, target.version, target.plural)
        if endpoint is None:
            return self._documents.answer_unlisted(call, target)
        if target.name is not None and endpoint.resource.namespaced and target.namespace is None:
            return page_not_found()
        if target.namespace is not None and not endpoint.resource.namespaced:
            return page_not_found()
        if endpoint.served.warning:
            call.warnings.append(endpoint.served.warning)
        return await self._dispatch(call, target, endpoint)

    async def _dispatch(self, call: Call, target: Target, endpoint: Endpoint) -> Reply:
        if target.name is None:
            return await self._on_collection(call, target, endpoint)
        key = (target.namespace or "", target.name)
        if target.subresource is None:
            return await self._on_object(call, target, endpoint, key)
        if target.subresource == "status" and endpoint.served.status:
            return await self._on_status(call, endpoint, key)
        reply = await self._subresources.answer(call, endpoint, key, target.subresource)
        if reply is None and endpoint.resource.custom:
            raise not_found(endpoint.resource.group, endpoint.resource.plural, target.name)
        return page_not_found() if reply is None else reply

    async def _on_collection(self, call: Call, target: Target, endpoint: Endpoint) -> Reply:
        namespace = target.namespace
        match call.method:
            case "GET" if target.watch or parse_flag(call.query, "watch"):
                return self._watch(call, endpoint, namespace, None)
            case "GET":
                return self._list(call, endpoint, namespace)
            case "POST" if "create" in endpoint.resource.verbs:
                if endpoint.resource.namespaced and namespace is None:
                    if endpoint.resource.custom:
                        return page_not_found()
                    raise method_not_allowed()
                return await self._create(call, endpoint, namespace or "")
            case "DELETE" if "deletecollection" in endpoint.resource.verbs and (
                namespace is not None or not endpoint.resource.namespaced
            ):
                return await self._delete_collection(call, endpoint, namespace)
        raise method_not_allowed()

    async def _on_object(self, call: Call, target: Target, endpoint: Endpoint, key: Key) -> Reply:
        match call.method:
            case "GET" if target.watch or parse_flag(call.query, "watch"):
                return self._watch(call, endpoint, target.namespace, target.name)
            case "GET":
                stored = self._cluster.writer.require(endpoint, key)
                return self._show(call, endpoint, stored)
            case "PUT":
                return await self._replace(call, target, endpoint, key)
            case "PATCH":
                return await self._patch(call, target, endpoint, key)
            case "DELETE":
                return await self._delete(call, endpoint, key)
        raise method_not_allowed()

    async def _on_status(self, call: Call, endpoint: Endpoint, key: Key) -> Reply:
        match call.method:
            case "GET":
                stored = self._cluster.writer.require(endpoint, key)
                return self._show(call, endpoint, stored)
            case "PUT":
                options = write_options(call)
                body = _read_object(call, endpoint, options)
                options.replaced = True
                writer = self._cluster.writer
                stored = await writer.update(endpoint, key, "status", lambda _: body, options)
                return self._show(call, endpoint, stored)
            case "PATCH":
                options = write_options(call)
                modify = parse_patch(call, endpoint, key, options, "status")
                writer = self._cluster.writer
                stored = await writer.update(endpoint, key, "status", modify, options)
                return self._show(call, endpoint, stored)
        raise method_not_allowed()

    def _show(
        self,
        call: Call,
        endpoint: Endpoint,
        stored: Stored,
        status: int = 200,
    ) -> Reply:
        view = self._view(call, endpoint)
        if view.table is None:
            body = view.show(stored)
        else:
            head, tail = view.envelope({"resourceVersion": str(stored.version)})
            body = head + view.show(stored) + tail
        return Reply(status, body, view.media_type)

    def _view(self, call: Call, endpoint: Endpoint) -> View:
        view = choose_view(
            endpoint,
            call.accept,
            lambda found: table_view(found, call.query.get("includeObject", "Metadata")),
        )
        if view is None:
            raise not_acceptable(_BUILTIN_MEDIA)
        return view

    def _list(self, call: Call, endpoint: Endpoint, namespace: str | None) -> Reply:
        view = self._view(call, endpoint)
        page = list_page(endpoint, namespace, self._read_query(call))
        head, tail = view.envelope(page.metadata)
        if len(page.items) <= _CHUNK:
            body = b"".join((head, b",".join(view.item(one) for one in page.items), tail))
            return Reply(200, body, view.media_type)
        return Reply(200, b"", view.media_type, chunks=_chunks(view, head, page.items, tail))

    def _read_query(self, call: Call) -> Query:
        """The query without the parameters that this server ignores silently."""
        if self._cluster.options.sharded:
            return call.query
        return {key: value for key, value in call.query.items() if key != "shardSelector"}

    def _watch(
        self, call: Call, endpoint: Endpoint, namespace: str | None, name: str | None
    ) -> Reply:
        cluster = self._cluster.options
        query = self._read_query(call)
        options = WatchOptions.parse(endpoint, query, name, cluster.watch_timeout)
        view = self._view(call, endpoint).watched()
        watch = Watch(endpoint, namespace, view, options)
        return Reply(
            200, media_type=view.media_type, stream=watch.stream(cluster.bookmark_interval)
        )

    async def _create(self, call: Call, endpoint: Endpoint, namespace: str) -> Reply:
        options = write_options(call)
        body = _read_object(call, endpoint, options)
        stored = await self._cluster.writer.create(endpoint, namespace, body, options)
        return self._show(call, endpoint, stored, 201)

    async def _replace(self, call: Call, target: Target, endpoint: Endpoint, key: Key) -> Reply:
        options = write_options(call)
        body = _read_object(call, endpoint, options)
        options.replaced = True
        rules = endpoint.resource.rules
        if rules.create_on_update and endpoint.resource.store.get(key) is None:
            self._gate.check_creation(call, target)
            new = renew_absent(endpoint, key, body)
            stored = await self._cluster.writer.create(endpoint, key[0], new, options)
            return self._show(call, endpoint, stored, 201)
        stored = await self._cluster.writer.update(endpoint, key, "", lambda _: body, options)
        return self._show(call, endpoint, stored)

    async def _patch(self, call: Call, target: Target, endpoint: Endpoint, key: Key) -> Reply:
        options = write_options(call)
        patch = parse_patch(call, endpoint, key, options, "")
        writer = self._cluster.writer
        if options.applied is not None and endpoint.resource.store.get(key) is None:
            self._gate.check_creation(call, target)
            stored = await writer.create(endpoint, key[0], patch({}), options)
            return self._show(call, endpoint, stored, 201)
        stored = await writer.update(endpoint, key, "", patch, options)
        return self._show(call, endpoint, stored)

    async def _delete(self, call: Call, endpoint: Endpoint, key: Key) -> Reply:
        options = delete_options(call)
        write = write_options(call)
        result, _ = await self._cluster.deleter.delete(endpoint, key, options, write)
        if isinstance(result, Stored):
            return self._show(call, endpoint, result)
        return Reply.of(result)

    async def _delete_collection(
        self, call: Call, endpoint: Endpoint, namespace: str | None
    ) -> Reply:
        options = delete_options(call)
        write = write_options(call)
        selects = parse_selectors(endpoint, call.query)
        store = endpoint.resource.store
        chosen = [one for one in store.select(namespace) if not selects or selects(one.obj)]
        for stored in chosen:
            if store.get(stored.key) is not None:
                await self._cluster.deleter.delete(
                    endpoint, stored.key, options, write, collective=True
                )
        view = object_view(endpoint)
        head, tail = view.envelope({"resourceVersion": str(store.versions.current)})
        return Reply(200, head + b",".join(view.item(stored) for stored in chosen) + tail)


def _read_object(call: Call, endpoint: Endpoint, options: WriteOptions) -> dict[str, Any]:
    body = call.parse_body()
    check_present_kind(endpoint, body, call.body.decode(errors="replace"))
    if options.validation != "Ignore":
        report_problems(endpoint, call.find_duplicates(), options)
    return body


def _chunks(view: View, head: bytes, items: list[Stored], tail: bytes) -> Iterator[bytes]:
    yield head
    for start in range(0, len(items), _CHUNK):
        part = b",".join(view.item(stored) for stored in items[start : start + _CHUNK])
        yield b"," + part if start else part
    yield tail
