"""The Kubernetes side of the server: what operators talk to."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from bench.loadserver.control import Control
from bench.loadserver.discovery import DOCUMENTS, STILL_LISTS, STILL_OBJECTS
from bench.loadserver.http import Connection, Request
from bench.loadserver.objects import NAMESPACE, dumps, loads
from bench.loadserver.patches import PatchTestFailed, apply_json_patch, merge
from bench.loadserver.store import Store, Watcher
from bench.loadserver.views import View

CLUSTER_URL = "/apis/kopf.dev/v1/kopfexamples"
NAMESPACED_URL = f"/apis/kopf.dev/v1/namespaces/{NAMESPACE}/kopfexamples"
NAMESPACES_URL = "/api/v1/namespaces"
ANY_URL = re.compile("/apis/kopf.dev/v1/namespaces/[^/]+/kopfexamples(?:/(.+))?$")


def status_error(code: int, reason: str) -> bytes:
    return dumps({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
                  "reason": reason, "message": reason})  # fmt: skip


class Api:
    """Routes the requests; the lists of objects can be held back until the load may start."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.namespaces = Store()
        """Empty at first: there are the still ones then."""

        self.counters: Counter[str] = Counter()
        self.gated: list[tuple[Connection, Request]] | None = None
        self.snapshots: dict[tuple[str, View], list[bytes]] = {}  # for the lists in progress
        self.control = Control(self)

    def handle(self, connection: Connection, request: Request) -> None:
        path = request.path
        if path.startswith("/_bench/"):
            self.control.handle(connection, request)
        elif path.startswith(NAMESPACED_URL + "/"):
            self.on_object(connection, request, path[len(NAMESPACED_URL) + 1 :])
        elif path in (CLUSTER_URL, NAMESPACED_URL):
            self.on_collection(connection, request, self.store)
        elif (found := ANY_URL.match(path)) is not None and found[1]:
            self.on_object(connection, request, found[1])
        elif found is not None:
            self.on_collection(connection, request, self.store)
        elif path == NAMESPACES_URL and self.namespaces.objects:
            self.on_collection(connection, request, self.namespaces)
        elif request.method == "GET":
            self.on_other_get(connection, request)
        elif request.method == "PATCH" and path in STILL_OBJECTS:
            connection.respond(STILL_OBJECTS[path])
        elif path.endswith("/events") or "/events/" in path:
            self.on_posted_event(connection, request)
        else:
            self.counters[f"404 {request.method} {path}"] += 1
            connection.respond(status_error(404, "NotFound"), 404)

    def disconnected(self, connection: Connection) -> None:
        for store in (self.store, self.namespaces):
            store.disconnect(connection.transport)

    def on_other_get(self, connection: Connection, request: Request) -> None:
        document = DOCUMENTS.get(request.path)
        still_list = STILL_LISTS.get(request.path)
        if document is not None:
            self.counters["discovery"] += 1
            connection.respond(document)
        elif still_list is None:
            self.counters[f"404 GET {request.path}"] += 1
            connection.respond(status_error(404, "NotFound"), 404)
        elif request.param("watch"):
            connection.start_stream()
        else:
            connection.respond(still_list)

    def on_posted_event(self, connection: Connection, request: Request) -> None:
        self.counters["events"] += 1
        name = f'"metadata":{{"name":"e{self.counters["events"]}","namespace":"{NAMESPACE}"}}'
        connection.respond(b'{"kind":"Event","apiVersion":"v1",%b}' % name.encode(), 201)

    def on_collection(self, connection: Connection, request: Request, store: Store) -> None:
        if request.method != "GET" or request.param("sendInitialEvents") == "true":
            connection.respond(status_error(422, "Invalid"), 422)
        elif request.param("watch"):
            self.counters["watches"] += 1
            connection.start_stream()
            watcher = Watcher(connection.transport, View.of(request))
            for event in store.missed(int(request.param("resourceVersion") or 0)):
                watcher.send(event)
            store.watchers.append(watcher)
        elif self.gated is not None and store is self.store:
            self.gated.append((connection, request))
        else:
            self.respond_list(connection, request, store)

    def open_gate(self) -> None:
        waiting, self.gated = self.gated or [], None
        for connection, request in waiting:
            self.respond_list(connection, request, self.store)

    def respond_list(self, connection: Connection, request: Request, store: Store) -> None:
        self.counters["lists"] += 1
        # All pages show the same moment. Or else the changes made between the pages would be lost
        # for those who watch from the version of the last page.
        version, _, begin = (request.param("continue") or f"{store.version}.0").partition(".")
        view = View.of(request)
        raws = self.snapshots.pop((version, view), None)
        if raws is None:
            raws = view.select(store.objects)
        start, limit = int(begin), int(request.param("limit") or 0)
        stop = start + limit if 0 < limit < len(raws) - start else len(raws)
        meta: dict[str, Any] = {"resourceVersion": version}
        if stop < len(raws):
            meta |= {"continue": f"{version}.{stop}", "remainingItemCount": len(raws) - stop}
            self.snapshots[version, view] = raws
        connection.respond(
            b'{"kind":"KopfExampleList","apiVersion":"kopf.dev/v1","metadata":%b,"items":[%b]}'
            % (dumps(meta), b",".join(raws[start:stop]))
        )

    def on_object(self, connection: Connection, request: Request, name: str) -> None:
        name = name.removesuffix("/status")
        raw = self.store.objects.get(name)
        self.counters[request.method] += 1
        if raw is None:
            connection.respond(status_error(404, "NotFound"), 404)
        elif request.method == "PATCH":
            self.on_patch(connection, request, raw)
        elif request.method == "DELETE":
            connection.respond(self.store.delete(name))
        else:
            connection.respond(raw)

    def on_patch(self, connection: Connection, request: Request, raw: bytes) -> None:
        body, patch = loads(raw), loads(request.body)
        try:
            if isinstance(patch, list):
                self.counters["PATCH json"] += 1
                changed = apply_json_patch(body, patch)
            else:
                self.counters["PATCH merge"] += 1
                changed = merge(body, patch)
        except PatchTestFailed:
            self.counters["PATCH 422"] += 1
            connection.respond(status_error(422, "Invalid"), 422)
        else:
            connection.respond(self.store.replace(body) if changed else raw)
