"""A place in a model: for the messages, and to find types that contain themselves."""

from __future__ import annotations

import dataclasses
from typing import Any

from kopf_kits.definitions.errors import SchemaError


@dataclasses.dataclass(frozen=True, slots=True)
class Dialect:
    """How the library of the models writes values in JSON."""

    pydantic: bool = False
    """Whether durations are as in ISO 8601, e.g. ``PT1H``, instead of ``1h``."""

    utf8: bool = False
    """Whether bytes are written as they are, instead of in base64."""


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """A field of the root model, with all the structures that it is in."""

    root: str
    path: str = ""
    parents: tuple[Any, ...] = ()
    dialect: Dialect = Dialect()

    def field(self, name: str) -> Place:
        return dataclasses.replace(self, path=f"{self.path}.{name}" if self.path else name)

    def items(self, mark: str = "[]") -> Place:
        return dataclasses.replace(self, path=f"{self.path}{mark}")

    def inside(self, type_: Any, dialect: Dialect | None) -> Place:
        """Go into a structure. Raises :class:`SchemaError` if the place is in it already."""
        if type_ in self.parents:
            raise self.error(
                f"{show(type_)} contains itself, and there are no recursive schemas in "
                "Kubernetes; mark the field with kopf.schema.Schemaless()."
            )
        parents = (*self.parents, type_)
        return dataclasses.replace(self, parents=parents, dialect=dialect or self.dialect)

    def error(self, text: str) -> SchemaError:
        return SchemaError(f"{self}: {text}")

    def __str__(self) -> str:
        return f"{self.root}.{self.path}" if self.path else self.root


def show(type_: Any) -> str:
    """The type for people."""
    if isinstance(type_, type) and not getattr(type_, "__args__", None):
        return type_.__name__
    return str(type_).replace("typing.", "")
