"""Fields that handlers declare, but that the schemas of their kinds do not have: mistakes.

The API server drops such fields from objects. So their handlers would wait for ever, in silence.
"""

import logging
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from kopf_cogs.helpers.similar import find_similar
from kopf_cogs.structs.bodies import RawBody
from kopf_cogs.structs.dicts import FieldPath
from kopf_cogs.structs.resources import Resource
from kopf_core.intents.handlers import ReconcilingHandler, ResourceHandler
from kopf_core.intents.registries import OperatorRegistry

logger = logging.getLogger("kopf._core.reactor.running")

COMMON = ("apiVersion", "kind", "metadata")
"""The fields that all objects have, whether they are in the schema or not."""

OPEN = ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource")
"""The extensions of schemas that permit unknown fields."""


class FieldChecker:
    """Warns of the fields that are in no version of the kind, once for each of them."""

    def __init__(self, registry: OperatorRegistry) -> None:
        self._registry = registry
        self._told: set[str] = set()

    def look(self, definition: RawBody) -> None:
        """Compare the definition of a kind with the fields of its handlers."""
        schemas = get_schemas(definition)
        for handler in self._registry.resource_handlers if schemas else ():
            selector = handler.selector
            if selector is None or not selector.is_specific:
                continue  # of many kinds, some can have no such field
            chosen = [schema for resource, schema in schemas.items() if selector.check(resource)]
            for option, path in _list_fields(handler, self._registry.index_ids):
                gaps = [find_gap(schema, path) for schema in chosen]
                if gaps and gaps[0] is not None and None not in gaps:
                    name, kind = ".".join(path), definition["metadata"].get("name")
                    text = f"{handler} has {option} {name!r}, which is not in the schema of {kind}."
                    self._tell(f"{text}{_suggest(path, gaps[0])}")

    def _tell(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            logger.warning(text)


class Gap(NamedTuple):
    """The place in a path where the schema ends."""

    depth: int
    known: Collection[str]
    """The names that the schema has in that place."""


def get_schemas(definition: RawBody) -> Mapping[Resource, Any]:
    """The schemas of the served versions; none if the objects can have any fields."""
    body: Mapping[str, Any] = definition
    spec = body.get("spec") or {}
    names = spec.get("names") or {}
    if spec.get("preserveUnknownFields"):
        return {}
    return {
        Resource(
            group=spec.get("group") or "",
            version=version.get("name") or "",
            plural=names.get("plural") or "",
            kind=names.get("kind"),
            singular=names.get("singular"),
            shortcuts=frozenset(names.get("shortNames") or ()),
        ): (version.get("schema") or {}).get("openAPIV3Schema")
        for version in spec.get("versions") or ()
        if version.get("served")
    }


def find_gap(schema: Any, path: FieldPath) -> Gap | None:
    """Find where the schema does not permit the next name; ``None`` if it permits all of them."""
    if path[0] in COMMON:
        return None
    node = schema
    for depth, name in enumerate(path):
        is_object = isinstance(node, Mapping) and node.get("type") == "object"
        if not is_object or any(node.get(extension) for extension in OPEN):
            return None
        known = node.get("properties") or {}
        more = node.get("additionalProperties")
        if name not in known and not more:
            return Gap(depth, [*known, *(COMMON if depth == 0 else ())])
        node = known.get(name, more)
    return None


def _list_fields(
    handler: ResourceHandler, indices: Collection[str]
) -> Iterator[tuple[str, FieldPath]]:
    if handler.field:
        yield "the field", handler.field
    for source in handler.related.values() if isinstance(handler, ReconcilingHandler) else ():
        path = (source,) if isinstance(source, str) and source not in indices else source
        if isinstance(path, tuple):
            yield "the relation by the field", path


def _suggest(path: FieldPath, gap: Gap) -> str:
    close = find_similar(path[gap.depth], gap.known)
    if close is None:
        return ""
    return f" Did you mean {'.'.join([*path[: gap.depth], close, *path[gap.depth + 1 :]])!r}?"
