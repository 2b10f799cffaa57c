"""What Python types do not say of custom resources: ``Annotated[str, kopf.schema.Immutable()]``.

All these are for the schemas that ``kopf crds`` makes; see :func:`kopf.resource`.
"""

from kopf_cogs.structs.definitions import Column, Scale
from kopf_cogs.structs.markers import (
    AtLeastOneOf,
    AtMostOneOf,
    Default,
    Description,
    EmbeddedObject,
    Enumerated,
    ExactlyOneOf,
    Example,
    Format,
    Immutable,
    IntOrString,
    Limits,
    ListType,
    MapKeys,
    MapType,
    Name,
    Nullable,
    PreserveUnknown,
    Rule,
    Schema,
    Schemaless,
    Title,
    Type,
)
from kopf_cogs.structs.quantities import Duration, Quantity

__all__ = [
    "AtLeastOneOf",
    "AtMostOneOf",
    "Column",
    "Default",
    "Description",
    "Duration",
    "EmbeddedObject",
    "Enumerated",
    "ExactlyOneOf",
    "Example",
    "Format",
    "Immutable",
    "IntOrString",
    "Limits",
    "ListType",
    "MapKeys",
    "MapType",
    "Name",
    "Nullable",
    "PreserveUnknown",
    "Quantity",
    "Rule",
    "Scale",
    "Schema",
    "Schemaless",
    "Title",
    "Type",
]
