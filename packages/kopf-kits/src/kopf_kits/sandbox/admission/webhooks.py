"""One admission webhook: which requests it is for, and how it is called."""

from __future__ import annotations

import base64
import binascii
import functools
import ssl
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from kopf_kits.sandbox.base import jsons
from kopf_kits.sandbox.base.remarks import Unsupported
from kopf_kits.sandbox.base.statuses import StatusError, internal
from kopf_kits.sandbox.cel.errors import EvaluationError
from kopf_kits.sandbox.cel.expressions import compile_expression
from kopf_kits.sandbox.fields.patches import apply_json_patch
from kopf_kits.sandbox.schemas.selectors import parse_label_selector
from kopf_kits.sandbox.store.resources import Endpoint
from kopf_kits.sandbox.store.writeoptions import WriteOptions

Obj = dict[str, Any]


class CallFailure(Exception):
    """The webhook could not be called, or its response makes no sense."""


@dataclass(frozen=True, slots=True)
class Review:
    """An operation on an object to review, in the version of the request."""

    endpoint: Endpoint
    operation: str
    new: Obj | None
    old: Obj | None
    sub: str
    dry_run: bool
    manager: str
    named: bool
    space: Obj | None
    """The namespace of the object, with its labels; none for cluster-scoped objects."""

    @property
    def subject(self) -> Obj:
        return self.new if self.new is not None else self.old or {}


@dataclass(frozen=True, slots=True, eq=False)
class Webhook:
    """One webhook of a webhook configuration."""

    spec: Obj
    mutating: bool
    options: WriteOptions = field(default_factory=WriteOptions)

    @property
    def name(self) -> str:
        return str(self.spec["name"])

    def find_version(self, review: Review) -> Endpoint | None:
        """The version in which the webhook wants the object; none if it does not match."""
        if not self._selects(review):
            return None
        endpoint = review.endpoint
        if self._covers(endpoint, endpoint.served.name, review):
            return endpoint
        if self.spec.get("matchPolicy", "Equivalent") == "Equivalent":
            for name, served in endpoint.resource.versions.items():
                if self._covers(endpoint, name, review):
                    return Endpoint(endpoint.resource, served, endpoint.group)
        return None

    def _covers(self, endpoint: Endpoint, version: str, review: Review) -> bool:
        return any(
            _has(rule.get("operations"), review.operation)
            and _has(rule.get("apiGroups"), endpoint.group)
            and _has(rule.get("apiVersions"), version)
            and _has_resource(rule.get("resources"), endpoint.resource.plural, review.sub)
            and rule.get("scope", "*") in ("*", _scope(endpoint))
            for rule in self.spec.get("rules") or ()
        )

    def _selects(self, review: Review) -> bool:
        if not self._meets_conditions(review):
            return False
        objects = parse_label_selector(self.spec.get("objectSelector"))
        if objects is not None:
            present = [obj for obj in (review.new, review.old) if obj is not None]
            if not any(objects(obj) for obj in present):
                return False
        spaces = parse_label_selector(self.spec.get("namespaceSelector"))
        return spaces is None or review.space is None or spaces(review.space)

    def _meets_conditions(self, review: Review) -> bool:
        scope = {
            "object": review.new,
            "oldObject": review.old,
            "request": {"operation": review.operation, "dryRun": review.dry_run},
        }
        for condition in self.spec.get("matchConditions") or ():
            try:
                if not compile_expression(condition["expression"])(scope):
                    return False
            except Unsupported as error:
                self.options.doubt(f"the webhook {self.name}: {condition['expression']}: {error}")
            except EvaluationError:
                continue
        return True

    async def call(
        self, session: aiohttp.ClientSession, review: Review, endpoint: Endpoint
    ) -> Obj | None:
        """Call the webhook; returns the changed object, if it has changed.

        Raises `StatusError` if it is denied, or if the call has failed and this matters.
        """
        if review.dry_run and self.spec.get("sideEffects") not in ("None", "NoneOnDryRun"):
            text = f'admission webhook "{self.name}" does not support dry run'
            raise StatusError(400, "BadRequest", text)
        try:
            response = await self._request(session, review, endpoint)
            return self._read(response, review, endpoint)
        except CallFailure as error:
            if self.spec.get("failurePolicy", "Fail") == "Ignore":
                return None
            text = f'failed calling webhook "{self.name}": {error}'
            raise internal(text) from None

    async def _request(
        self, session: aiohttp.ClientSession, review: Review, endpoint: Endpoint
    ) -> Obj:
        url, context = _locate(self.spec.get("clientConfig") or {})
        seconds = self.spec.get("timeoutSeconds") or 10
        body = make_request(review, endpoint)
        headers = {"Content-Type": "application/json", "Accept": "application/json, */*"}
        post = f'failed to call webhook: Post "{url}?timeout={seconds}s"'
        try:
            async with session.post(
                url,
                params={"timeout": f"{seconds}s"},
                data=jsons.dumps(body),
                headers=headers,
                ssl=True if context is None else context,
                timeout=aiohttp.ClientTimeout(total=seconds),
            ) as response:
                content = await response.read()
                if response.status >= 400:
                    text = _describe_failure(response.status, content)
                    raise CallFailure(f"failed to call webhook: {text}")
        except TimeoutError:
            raise CallFailure(f"{post}: context deadline exceeded") from None
        except aiohttp.ClientError as error:
            raise CallFailure(f"{post}: {_describe_error(error)}") from None
        return _parse_response(content, str(body["request"]["uid"]))

    def _read(self, response: Obj, review: Review, endpoint: Endpoint) -> Obj | None:
        self.options.warnings.extend(str(text) for text in response.get("warnings") or ())
        if not response.get("allowed"):
            raise _denial(self.name, response.get("status") or {})
        patch = response.get("patch")
        if not patch or not self.mutating or review.new is None:
            return None
        if response.get("patchType") != "JSONPatch":
            raise CallFailure(f'unsupported patch type "{response.get("patchType") or ""}"')
        try:
            operations = jsons.loads(base64.b64decode(patch, validate=True))
            changed = apply_json_patch(_convert(review, endpoint, review.new), operations)
        except (ValueError, binascii.Error, StatusError) as error:
            text = f'failed to apply the patch of webhook "{self.name}": {error}'
            raise internal(text) from None
        return review.endpoint.encode(endpoint.decode(changed))


def _describe_error(error: aiohttp.ClientError) -> str:
    """The error; in the words of Kubernetes, if no server listens there: the most usual case."""
    if isinstance(error, aiohttp.ClientConnectorError) and isinstance(
        error.os_error, ConnectionRefusedError
    ):
        return f"dial tcp {error.host}:{error.port}: connect: connection refused"
    return str(error)


def _describe_failure(status: int, content: bytes) -> str:
    if status == 404:
        return "the server could not find the requested resource"
    text = content.decode(errors="replace").strip()
    return f'an error on the server ("{text}") has prevented the request from succeeding'


def _has(values: Any, value: str) -> bool:
    return bool(values) and ("*" in values or value in values)


def _has_resource(patterns: Any, plural: str, sub: str) -> bool:
    wanted = {"*/*", f"{plural}/{sub}", f"*/{sub}", f"{plural}/*"} if sub else {
        "*", "*/*", plural, f"{plural}/*"}  # fmt: skip
    return any(pattern in wanted for pattern in patterns or ())


def _scope(endpoint: Endpoint) -> str:
    return "Namespaced" if endpoint.resource.namespaced else "Cluster"


def _locate(config: Obj) -> tuple[str, ssl.SSLContext | None]:
    url = config.get("url")
    service = config.get("service")
    if not url and service:
        host = f"{service.get('name')}.{service.get('namespace')}.svc"
        path = str(service.get("path") or "/").lstrip("/")
        url = f"https://{host}:{service.get('port') or 443}/{path}"
    if not url:
        raise CallFailure("the webhook has neither a url nor a service")
    bundle = config.get("caBundle")
    if not bundle:
        return url, None
    try:
        return url, _trust(bundle)
    except (ssl.SSLError, ValueError) as error:
        raise CallFailure(f"unable to load root certificates: {error}") from None


@functools.lru_cache(maxsize=100)
def _trust(bundle: str) -> ssl.SSLContext:
    """One context for each bundle: the client reuses connections only with the same context."""
    return ssl.create_default_context(cadata=base64.b64decode(bundle).decode())


def _convert(review: Review, endpoint: Endpoint, obj: Obj) -> Obj:
    if endpoint is review.endpoint:
        return obj
    return endpoint.encode(review.endpoint.decode(obj))


def make_request(review: Review, endpoint: Endpoint) -> Obj:
    """The body of a call: an ``AdmissionReview`` with a request."""
    source, meta = review.endpoint, review.subject.get("metadata") or {}
    options = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}
    detail: Obj = {"kind": options[review.operation], "apiVersion": "meta.k8s.io/v1"}
    if review.operation != "DELETE" and review.named:
        detail["fieldManager"] = review.manager
    if review.dry_run:
        detail["dryRun"] = ["All"]
    request: Obj = {
        "uid": endpoint.nature.make_uid(),
        "kind": _kind(endpoint),
        "resource": _resource(endpoint),
        "requestKind": _kind(source),
        "requestResource": _resource(source),
        "operation": review.operation,
        "userInfo": {"username": "sandbox", "groups": ["system:masters", "system:authenticated"]},
        "object": None if review.new is None else _convert(review, endpoint, review.new),
        "oldObject": None if review.old is None else _convert(review, endpoint, review.old),
        "dryRun": review.dry_run,
        "options": detail,
    }
    if meta.get("name") and (review.named or review.operation != "DELETE"):
        request["name"] = meta["name"]
    if meta.get("namespace"):
        request["namespace"] = meta["namespace"]
    if review.sub:
        request["subResource"] = request["requestSubResource"] = review.sub
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}


def _kind(endpoint: Endpoint) -> Obj:
    version = {"group": endpoint.group, "version": endpoint.served.name}
    return {**version, "kind": endpoint.resource.kind}


def _resource(endpoint: Endpoint) -> Obj:
    version = {"group": endpoint.group, "version": endpoint.served.name}
    return {**version, "resource": endpoint.resource.plural}


def _parse_response(content: bytes, uid: str) -> Obj:
    try:
        review = jsons.loads(content)
        response = review["response"]
    except (ValueError, KeyError, TypeError):
        raise CallFailure("received an invalid webhook response: it cannot be decoded") from None
    if not isinstance(response, dict):
        raise CallFailure("received an invalid webhook response: webhook response was absent")
    if response.get("uid") != uid:
        text = f'expected response.uid="{uid}", got "{response.get("uid", "")}"'
        raise CallFailure(f"received an invalid webhook response: {text}")
    return response


def _denial(name: str, status: Obj) -> StatusError:
    denied = f'admission webhook "{name}" denied the request'
    text = status.get("message") or status.get("reason")
    message = f"{denied}: {text}" if text else f"{denied} without explanation"
    code = int(status.get("code") or 0)
    return StatusError(
        max(code, 400), status.get("reason", ""), message, details=status.get("details")
    )
