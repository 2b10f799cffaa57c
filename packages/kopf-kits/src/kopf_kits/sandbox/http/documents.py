"""Everything that is not a resource: discovery, the version, health, the description of the API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kopf_kits.sandbox.base.statuses import StatusError, method_not_allowed
from kopf_kits.sandbox.cluster import Cluster

from . import discovery, openapi
from .accessreviews import answer_review
from .calls import TEXT, Call, Reply, page_not_found
from .routing import Target, parse

VERSION = "v1.36.0+sandbox"
_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList"
_ROOT_PATHS = ("/api", "/api/v1", "/apis", "/healthz", "/livez", "/openapi/v3", "/readyz",
               "/version")  # fmt: skip
_OPENAPI_V2: dict[str, Any] = {
    "swagger": "2.0",
    "info": {"title": "Kubernetes", "version": VERSION},
    "paths": {},
    "definitions": {},
}

_OPENAPI_V2_PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"


class Documents:
    """Answers requests for documents about the server itself."""

    def __init__(self, cluster: Cluster, address: Callable[[], str]) -> None:
        self._cluster = cluster
        self._registry = cluster.registry
        self._address = address

    def answer(self, call: Call, target: Target | None) -> Reply:
        """Answer a request for a path that names no resource."""
        path = call.path.rstrip("/")
        reply = self._answer_root(call, path) if target is None else None
        if reply is None and target is not None:
            reply = self._answer_discovery(call, target)
        if reply is None:
            return page_not_found()
        if call.method not in ("GET", "HEAD"):
            raise method_not_allowed()
        return reply

    def answer_unlisted(self, call: Call, target: Target) -> Reply:
        """Answer a request for a resource which is not in the registry."""
        review = answer_review(call, target, self._cluster)
        if review is not None:
            return review
        found = [e for e in self._registry.endpoints() if e.group == target.group]
        if any(e.served.name == target.version and not e.resource.custom for e in found):
            text = "the server could not find the requested resource"
            raise StatusError(404, "NotFound", text, details={})
        return page_not_found()

    def _answer_root(self, call: Call, path: str) -> Reply | None:
        if path == "":
            return Reply.of({"paths": list(_ROOT_PATHS)})
        if path == "/apis":
            document = discovery.group_list(self._registry)
            return self._aggregated(call, core=False) or Reply.of(document)
        if path == "/openapi/v3":
            return Reply.of(openapi.index(self._registry))
        if path.startswith("/openapi/v3/"):
            return self._describe(path)
        if path == "/openapi/v2":
            if "proto-openapi" in call.accept:  # older kubectl, for unknown kinds
                return Reply(200, _encode_openapi_v2(), _OPENAPI_V2_PROTOBUF)
            return Reply.of(_OPENAPI_V2)
        if path == "/version":
            return Reply.of(_version())
        if path.partition("/")[0] == "" and path.split("/")[1] in ("healthz", "livez", "readyz"):
            return Reply(200, b"ok", TEXT)
        return None

    def _describe(self, path: str) -> Reply | None:
        target = parse(path.removeprefix("/openapi/v3"))
        if target is None or not target.version or target.plural:
            return None
        document = openapi.describe(self._registry, target.group, target.version)
        return None if document is None else Reply.of(document)

    def _answer_discovery(self, call: Call, target: Target) -> Reply | None:
        if not target.group and not target.version:
            document: Any = discovery.api_versions(self._address())
            return self._aggregated(call, core=True) or Reply.of(document)
        if not target.version:
            document = discovery.one_group(self._registry, target.group)
        else:
            document = discovery.resource_list(self._registry, target.group, target.version)
        return None if document is None else Reply.of(document)

    def _aggregated(self, call: Call, *, core: bool) -> Reply | None:
        for version in ("v2", "v2beta1"):
            wanted = {"g=apidiscovery.k8s.io", f"v={version}", "as=APIGroupDiscoveryList"}
            for choice in call.accept.split(","):
                if wanted <= {part.strip() for part in choice.split(";")}:
                    name = f"apidiscovery.k8s.io/{version}"
                    document = discovery.aggregated(self._registry, core=core, api_version=name)
                    return Reply.of(document, media_type=_AGGREGATED.format(version))
        return None


def _encode_openapi_v2() -> bytes:
    """The same nearly empty document as in JSON, in protocol buffers for older clients."""

    def encode(number: int, payload: bytes) -> bytes:
        return bytes([number << 3 | 2, len(payload)]) + payload

    info = encode(1, b"Kubernetes") + encode(2, VERSION.encode())
    return encode(1, b"2.0") + encode(2, info) + encode(8, b"")


def _version() -> dict[str, str]:
    major, minor, *_ = VERSION.removeprefix("v").split(".")
    return {
        "emulationMajor": major,
        "emulationMinor": minor,
        "minCompatibilityMajor": major,
        "minCompatibilityMinor": str(int(minor) - 1),
        "major": major,
        "minor": minor,
        "gitVersion": VERSION,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": "kopf/sandbox",
    }
