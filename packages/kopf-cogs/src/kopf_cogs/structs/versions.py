"""Resource versions: which one of two states of an object is the newer one.

Versions are comparable if they are numbers. All known API servers make such versions.
"""

from collections.abc import Mapping
from typing import Any

from kopf_cogs.structs.bodies import RawBody


def parse_version(body: Mapping[str, Any]) -> int | None:
    """The version of the state as a number, if it is one."""
    return _as_number(body["metadata"].get("resourceVersion"))


def is_newer(one: RawBody, other: RawBody) -> bool:
    """Whether one state of the object is surely newer than the other one."""
    one_version, other_version = parse_version(one), parse_version(other)
    return one_version is not None and other_version is not None and one_version > other_version


def is_same(one: RawBody, other: RawBody) -> bool:
    """Whether these are surely the same state of the object."""
    version = one["metadata"].get("resourceVersion")
    return version is not None and version == other["metadata"].get("resourceVersion")


def is_as_new(body: RawBody, version: str) -> bool:
    """Whether the state is surely not older than the version."""
    one_version, other_version = parse_version(body), _as_number(version)
    return one_version is not None and other_version is not None and one_version >= other_version


def is_as_old(body: RawBody, version: str | None) -> bool:
    """Whether the state is surely not newer than the version."""
    one_version, other_version = parse_version(body), _as_number(version)
    return one_version is not None and other_version is not None and one_version <= other_version


def _as_number(version: str | None) -> int | None:
    return int(version) if version and version.isdecimal() else None
