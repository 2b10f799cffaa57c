"""The name of the operator, and the settings that follow it."""

import re
from collections.abc import Mapping
from typing import Any, Protocol

from kopf_cogs.configs.checks import SettingError
from kopf_cogs.configs.diffbase import AnnotationsDiffBaseStorage
from kopf_cogs.configs.progress import SmartProgressStorage

MAX_LENGTH = 63
"""Names are also values of labels, and Kubernetes limits the length of these."""

_VALID = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


class Settings(Protocol):
    """The settings, some of which follow the name."""

    @property
    def persistence(self) -> Any: ...

    @property
    def posting(self) -> Any: ...


def get_followers(settings: Settings) -> Mapping[str, Any]:
    """The values that follow the name until the user sets other values."""
    return {
        "finalizer": settings.persistence.finalizer,
        "progress_storage": settings.persistence.progress_storage,
        "diffbase_storage": settings.persistence.diffbase_storage,
        "reporting_component": settings.posting.reporting_component,
    }


def follow(settings: Settings, known: Mapping[str, Any], name: str | None) -> Mapping[str, Any]:
    """Set the values that follow the name; return them. With no name, everything stays as is.

    Raises :class:`SettingError` if there can be no such name.
    """
    if name is None:
        return known
    if len(name) > MAX_LENGTH or not _VALID.fullmatch(name):
        raise SettingError(
            f"The name of the operator must be like a domain name, in lowercase, with at most "
            f"{MAX_LENGTH} characters; not {name!r}."
        )
    wanted = {
        "finalizer": f"{name}/finalizer",
        "progress_storage": SmartProgressStorage(prefix=name),
        "diffbase_storage": AnnotationsDiffBaseStorage(prefix=name),
        "reporting_component": name,
    }
    current = get_followers(settings)
    for key, value in wanted.items():
        if current[key] is known[key]:
            group = settings.posting if key == "reporting_component" else settings.persistence
            setattr(group, key, value)
            current = {**current, key: value}
    return {**known, **{key: current[key] for key in wanted if current[key] is wanted[key]}}
