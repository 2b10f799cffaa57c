"""Objects of any kind by their names: requests of operators for objects that they do not handle."""

import re
from collections.abc import AsyncIterator, Generator, Mapping, Sequence
from typing import Any, Literal, cast

from kopf_cogs.clients import errors, listing, patching, repeats, rights, session
from kopf_cogs.clients.kinds import Kind, Kinds
from kopf_cogs.structs import resources, secrecy

APPLY_PATCH = "application/apply-patch+yaml"
APPLYING_VERBS = ("create", "patch")
"""The verbs of the server-side apply: the first one, if the object does not exist yet."""

STRATEGIC_PATCH = "application/strategic-merge-patch+json"

_OTHER_UID = re.compile(r"UID in (the )?precondition")
"""Both the API server and its storage say so of another uid; there is no other sign."""

Obj = dict[str, Any]
"""An object of any kind: kinds differ in the fields besides the metadata."""

Propagation = Literal["Foreground", "Background", "Orphan"]
"""The fate of the dependents of a deleted object: see the garbage collection of Kubernetes."""


class Listing:
    """Objects being listed: to be iterated page by page, or awaited to get them all at once.

    Every iteration is a new request. While iterating, only one page is kept in memory.
    """

    def __init__(
        self,
        api: "ObjectsAPI",
        kind: Kind,
        namespace: str | None,
        params: Mapping[str, str],
        chunk_size: int | None,
    ) -> None:
        super().__init__()
        self._api = api
        self._kind = kind
        self._namespace = namespace
        self._params = params
        self._chunk_size = chunk_size

    def __await__(self) -> Generator[Any, None, list[Obj]]:
        return self._collect().__await__()

    async def __aiter__(self) -> AsyncIterator[Obj]:
        async for page in self.pages():
            for item in page:
                yield item

    async def pages(self) -> AsyncIterator[list[Obj]]:
        """The same, by pages: each of them is one request. Empty ones are skipped."""
        resource = await self._api.kinds.resolve(self._kind)
        pages = listing.list_objects(
            self._api.client,
            resource,
            self._namespace if resource.namespaced else None,
            chunk_size=self._chunk_size,
            params=self._params,
        )
        try:
            async for page in pages:
                if page.items:
                    yield page.items
        except errors.APIForbiddenError as e:
            e.role_hint = rights.hint_at_role(e)
            raise

    async def _collect(self) -> list[Obj]:
        try:
            return [item async for item in self]
        except errors.APIGoneError:  # the pages came for too long: nothing is handled yet
            return [item async for item in self]


class ObjectsAPI:
    """Reading and writing objects of any kind, through one client with its credentials and retries.

    ``kind`` is any notation of the decorators, e.g. ``pods`` or ``deployments.apps``.
    ``namespace`` is ignored for cluster-scoped kinds. ``dry_run`` checks everything on the server,
    webhooks included, but stores nothing.

    All methods raise :class:`APIError` in its many forms, e.g. :class:`APINotFoundError`,
    or :class:`UnknownKindError` if there is no such kind. They raise :class:`ValueError` if
    something necessary is not specified, such as the namespace or the name.
    """

    def __init__(
        self,
        client: session.Client,
        *,
        manager: str = "kopf",
        kinds: Kinds | None = None,
    ) -> None:
        super().__init__()
        self.client = client
        self.kinds = kinds if kinds is not None else Kinds(client)
        self.manager = manager
        """The field manager: in whose name the fields of objects are set."""

    async def get(
        self,
        kind: Kind,
        name: str,
        namespace: str | None = None,
        *,
        subresource: str | None = None,
    ) -> Obj:
        """Get one object by its name. Raises :class:`APINotFoundError` if there is none."""
        resource = await self.kinds.resolve(kind)
        url = _locate(resource, namespace, name, subresource)
        return await self._request(resource, "GET", url)

    def list(
        self,
        kind: Kind,
        namespace: str | None = None,
        *,
        labels: Mapping[str, str] | str | None = None,
        fields: Mapping[str, str] | str | None = None,
        chunk_size: int | None = None,
    ) -> Listing:
        """List the objects: ``await`` for all of them, or ``async for`` to go over them by pages.

        Without a namespace, it lists the whole cluster. ``labels`` and ``fields`` are selectors
        as in kubectl, or mappings of exact values. ``chunk_size`` is the size of a page.
        """
        selectors = {"labelSelector": _selector(labels), "fieldSelector": _selector(fields)}
        params = {key: value for key, value in selectors.items() if value}
        return Listing(self, kind, namespace, params, chunk_size)

    async def create(
        self,
        body: Mapping[str, Any],
        *,
        kind: Kind | None = None,
        namespace: str | None = None,
        dry_run: bool = False,
    ) -> Obj:
        """Create the object. Raises :class:`APIConflictError` if there is one of this name already.

        If the reply is lost, the request is repeated; the object of the first request is no
        conflict. Objects with generated names are never sent twice: there is no name to find them.
        """
        resource, payload = await self._prepare(body, kind)
        metadata, since = payload["metadata"], self.client.clock.now()
        space = _in_namespace(resource, metadata, namespace)
        options = {} if metadata.get("name") else {"backoffs": ()}
        params = self._make_params(dry_run)
        try:
            return await self._request(
                resource,
                "POST",
                resource.get_url(namespace=space),
                payload,
                params=params,
                **options,
            )
        except errors.APIConflictError as e:
            if not e.is_repeated or dry_run:
                raise
            url = _locate(resource, space, metadata.get("name"), None)
            live = await self._request(resource, "GET", url)
            if not repeats.is_created(live, payload, manager=self.manager, since=since):
                raise
            return live

    async def apply(
        self,
        body: Mapping[str, Any],
        *,
        kind: Kind | None = None,
        namespace: str | None = None,
        subresource: str | None = None,
        force: bool = True,
        dry_run: bool = False,
    ) -> Obj:
        """Make the object have these fields, whether it exists or not: the server-side apply.

        The server removes the fields that this manager applied before, but are not in the body now.
        It leaves the fields of other managers. If other managers have set the same fields, they
        lose these fields; with ``force=False``, :class:`APIConflictError` is raised instead.
        """
        resource, payload = await self._prepare(body, kind)
        metadata = payload["metadata"]
        metadata.pop("managedFields", None)
        namespace = _in_namespace(resource, metadata, namespace)
        url = _locate(resource, namespace, metadata.get("name"), subresource)
        params = self._make_params(dry_run) | {"force": "true" if force else "false"}
        return await self._request(
            resource, "PATCH", url, payload, params=params, content_type=APPLY_PATCH
        )

    async def patch(
        self,
        kind: Kind,
        name: str,
        patch: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        namespace: str | None = None,
        *,
        subresource: str | None = None,
        strategic: bool = False,
        dry_run: bool = False,
    ) -> Obj:
        """Change some fields of the object.

        A mapping is a merge patch, and a list of operations is a JSON patch. With ``strategic``,
        a mapping is a strategic merge patch (for built-in kinds only).
        """
        resource = await self.kinds.resolve(kind)
        content_type = STRATEGIC_PATCH if strategic else patching.MERGE_PATCH
        payload: object = patch
        if isinstance(patch, Mapping):
            payload = dict(patch)
        else:
            content_type, payload = patching.JSON_PATCH, [dict(op) for op in patch]
        url = _locate(resource, namespace, name, subresource)
        params = self._make_params(dry_run)
        return await self._request(
            resource, "PATCH", url, payload, params=params, content_type=content_type
        )

    async def delete(
        self,
        kind: Kind,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        propagation: Propagation | None = None,
        grace_period: int | None = None,
        missing_ok: bool = False,
        dry_run: bool = False,
    ) -> None:
        """Delete the object: it vanishes at once, or when all its finalizers are removed.

        With ``uid``, only that very object; another one of the same name is not touched.
        ``grace_period`` is in seconds. With ``missing_ok``, an absent object is not an error;
        but it is an error if the server does not find e.g. the whole kind. If the server fails,
        the request is repeated; the object that the first request has deleted is not missed.
        """
        resource = await self.kinds.resolve(kind)
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        if propagation is not None:
            options["propagationPolicy"] = propagation
        if grace_period is not None:
            options["gracePeriodSeconds"] = grace_period
        url = _locate(resource, namespace, name, None)
        params = {"dryRun": "All"} if dry_run else {}
        try:
            await self._request(resource, "DELETE", url, options, params=params)
        except (errors.APINotFoundError, errors.APIConflictError) as e:
            is_done = e.is_repeated and not dry_run  # by our earlier request with no reply
            if not (missing_ok or is_done) or not _is_gone(e):
                raise

    async def _prepare(
        self, body: Mapping[str, Any], kind: Kind | None
    ) -> tuple[resources.Resource, dict[str, Any]]:
        resource = await (
            self.kinds.resolve_body(body) if kind is None else self.kinds.resolve(kind)
        )
        payload = {"apiVersion": resource.api_version, "kind": resource.kind} | dict(body)
        payload["metadata"] = dict(payload.get("metadata") or {})
        return resource, payload

    async def _request(
        self,
        resource: resources.Resource,
        method: str,
        url: str,
        payload: object = None,
        **options: Any,
    ) -> Obj:
        try:
            response = await self.client.request(method, url, payload=payload, **options)
        except errors.APINotFoundError as e:
            if not e.details.get("name"):  # the whole kind is absent, not the object
                self.kinds.forget(resource)
            raise
        except errors.APIForbiddenError as e:
            is_applied = options.get("content_type") == APPLY_PATCH
            e.role_hint = rights.hint_at_role(e, also=APPLYING_VERBS if is_applied else ())
            raise
        except errors.APIClientError as e:
            if e.is_of_content and secrecy.is_secret(resource):
                raise e.without_quotes() from None
            raise
        return cast(Obj, response)

    def _make_params(self, dry_run: bool) -> dict[str, str]:
        params = {"fieldManager": self.manager}
        return params | {"dryRun": "All"} if dry_run else params


def _in_namespace(
    resource: resources.Resource, metadata: Mapping[str, Any], namespace: str | None
) -> str | None:
    """The namespace of the object itself goes first. Raises an error if there is none at all."""
    if not resource.namespaced:
        return None
    found = metadata.get("namespace") or namespace
    if not found:
        raise ValueError(f"The namespace is not specified for an object of {resource}.")
    return str(found)


def _locate(
    resource: resources.Resource, namespace: str | None, name: str | None, subresource: str | None
) -> str:
    if not name:
        raise ValueError(f"The name is not specified for an object of {resource}.")
    namespace = namespace if resource.namespaced else None
    return resource.get_url(namespace=namespace, name=name, subresource=subresource)


def _is_gone(exc: errors.APINotFoundError | errors.APIConflictError) -> bool:
    """Whether the server says that there is no such object, or another one instead of it.

    Other errors are not about that: the kind is not served, a webhook denies the deletion, etc.
    """
    if isinstance(exc, errors.APINotFoundError):
        return bool(exc.details.get("name"))
    return _OTHER_UID.search(exc.message or "") is not None


def _selector(value: Mapping[str, str] | str | None) -> str:
    if isinstance(value, Mapping):
        return ",".join(f"{key}={val}" for key, val in value.items())
    return value or ""
