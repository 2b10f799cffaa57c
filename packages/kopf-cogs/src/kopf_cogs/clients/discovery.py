"""Discovery: which kinds of objects the cluster serves.

Modern servers tell everything in two requests (for the core API and for all other groups);
this is called "aggregated discovery". Older servers tell it version by version.
"""

import asyncio
import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from kopf_cogs.clients import errors, session
from kopf_cogs.structs.resources import Resource

_T = TypeVar("_T")

GROUP_TIMEOUT = 15.0
"""How long a single API group can take (in seconds) before it is considered broken."""

_AGGREGATED = ",".join(
    [
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
        "application/json",
    ]
)


class ScanResult(NamedTuple):
    """The kinds of objects that the cluster serves."""

    resources: frozenset[Resource]

    broken_groups: Mapping[str, errors.APIError]
    """The groups that could not be scanned, fully or partially, and why; worth to retry later."""


@dataclasses.dataclass(slots=True)
class _Findings:
    """The resources that the scan has found so far."""

    resources: set[Resource] = dataclasses.field(default_factory=set)
    broken: dict[str, errors.APIError] = dataclasses.field(default_factory=dict)
    versions: list["_Version"] = dataclasses.field(default_factory=list)
    """The versions that the scan has yet to request."""


class _Version(NamedTuple):
    """One version of one API group."""

    group: str
    name: str
    preferred: bool

    @property
    def url(self) -> str:
        return f"/apis/{self.group}/{self.name}" if self.group else f"/api/{self.name}"


async def scan(client: session.Client, *, groups: Collection[str] | None = None) -> ScanResult:
    """Get all kinds of objects: of all API groups, or only of the specified ones.

    The core API is the group with the empty name. The groups that do not exist have no kinds.
    Groups can be served by other servers behind the main one, and these can be broken.
    This does not prevent other groups from working, so they are only reported in the result.

    Raises :class:`APIError` if the list of groups itself cannot be retrieved.
    """
    findings = _Findings()
    if groups is None:
        for index in await _get_indices(client):
            _interpret(findings, index)
    else:
        await asyncio.gather(*(_scan_group(client, group, findings) for group in groups))
    await asyncio.gather(
        *(_scan_version(client, version, findings) for version in findings.versions)
    )
    return ScanResult(resources=frozenset(findings.resources), broken_groups=findings.broken)


async def _get_indices(client: session.Client) -> Collection[Any]:
    """Get both lists of groups. If both fail, raise the error of the first, not of the quickest."""
    indices: Collection[Any] = await asyncio.gather(
        _get_index(client, "/api"), _get_index(client, "/apis"), return_exceptions=True
    )
    for index in indices:
        if isinstance(index, BaseException):
            raise index
    return indices


async def _get_index(client: session.Client, url: str) -> Any:
    try:
        return await client.get(url, accept=_AGGREGATED)
    except errors.APINotFoundError:
        return {}


async def _scan_group(client: session.Client, group: str, findings: _Findings) -> None:
    url = f"/apis/{group}" if group else "/api"
    try:
        payload = await client.get(url, timeout=GROUP_TIMEOUT, backoffs=())
        _interpret(findings, {"groups": [payload]} if group else payload)
    except errors.APINotFoundError:
        pass
    except errors.APIError as e:
        findings.broken[group] = e


async def _scan_version(client: session.Client, version: _Version, findings: _Findings) -> None:
    try:
        # Not retried here: all other groups would wait for the broken one.
        payload = await client.get(version.url, timeout=GROUP_TIMEOUT, backoffs=())
        findings.resources |= _guarded(_parse_resources, version, payload)
    except errors.APINotFoundError:
        pass
    except errors.APIError as e:
        findings.broken[version.group] = e


def _interpret(findings: _Findings, payload: Any) -> None:
    """Take the groups and versions from a response of the server, in any of its formats."""
    match payload:
        case {"kind": "APIGroupDiscoveryList", "items": items}:
            for item in items or []:
                _interpret_group(findings, item)
        case {"groups": groups}:
            for group in groups or []:
                findings.versions.extend(_guarded(_parse_group, group))
        case {"versions": [*names]}:
            findings.versions.extend(
                _Version("", name, preferred=name == names[0]) for name in names
            )
        case {}:
            pass
        case _:
            raise errors.APIResponseError("the list of API groups is not understood")


def _interpret_group(findings: _Findings, item: dict[str, Any]) -> None:
    """Take a group of the aggregated discovery."""
    group = (item.get("metadata") or {}).get("name") or ""
    for number, data in enumerate(item.get("versions") or []):
        version = _Version(group, data.get("version") or "", preferred=number == 0)
        try:
            findings.resources |= _guarded(_parse_aggregated, version, data)
            if data.get("freshness") == "Stale":
                raise errors.APIResponseError(f"the API group {group} {version.name} is stale")
        except errors.APIError as e:
            findings.broken[group] = e


def _guarded(fn: Callable[..., Iterable[_T]], *args: Any) -> set[_T]:
    """Parse, and convert all surprises into one error."""
    try:
        return set(fn(*args))
    except (TypeError, AttributeError, LookupError, ValueError) as e:
        raise errors.APIResponseError(f"the discovery response is not understood: {e!r}") from e


def _parse_group(group: dict[str, Any]) -> Iterator[_Version]:
    preferred = (group.get("preferredVersion") or {}).get("version")
    versions = [item["version"] for item in group.get("versions") or []]
    for name in versions:
        yield _Version(group["name"], name, preferred=name == (preferred or versions[0]))


def _parse_resources(version: _Version, payload: dict[str, Any]) -> Iterator[Resource]:
    """Parse the separate list of one version: it has the subresources among the resources."""
    items = payload.get("resources") or []
    subresources: dict[str, set[str]] = {}
    for item in items:
        plural, _, subresource = item["name"].partition("/")
        if subresource:
            subresources.setdefault(plural, set()).add(subresource)
    for item in items:
        if "/" not in item["name"]:
            yield Resource(
                group=version.group,
                version=version.name,
                plural=item["name"],
                kind=item.get("kind"),
                singular=item.get("singularName") or (item.get("kind") or "").lower() or None,
                shortcuts=frozenset(item.get("shortNames") or ()),
                categories=frozenset(item.get("categories") or ()),
                subresources=frozenset(subresources.get(item["name"], ())),
                namespaced=item.get("namespaced"),
                preferred=version.preferred,
                verbs=frozenset(item.get("verbs") or ()),
            )


def _parse_aggregated(version: _Version, data: dict[str, Any]) -> Iterator[Resource]:
    for item in data.get("resources") or []:
        kind = (item.get("responseKind") or {}).get("kind")
        yield Resource(
            group=version.group,
            version=version.name,
            plural=item["resource"],
            kind=kind,
            singular=item.get("singularResource") or (kind or "").lower() or None,
            shortcuts=frozenset(item.get("shortNames") or ()),
            categories=frozenset(item.get("categories") or ()),
            subresources=frozenset(sub["subresource"] for sub in item.get("subresources") or ()),
            namespaced=item.get("scope") == "Namespaced",
            preferred=version.preferred,
            verbs=frozenset(item.get("verbs") or ()),
        )
