"""The fields of models, be they of pydantic, dataclasses, or typed dictionaries."""

from __future__ import annotations

import dataclasses
import datetime
import typing
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, Final

from kopf_cogs.structs.hints import QUALIFIERS, list_hints, open_alias
from kopf_cogs.structs.markers import Default, Description, Example, Name, Title
from kopf_kits.definitions.docstrings import describe_fields
from kopf_kits.definitions.errors import SchemaError
from kopf_kits.definitions.places import Dialect

MISSING: Final[Any] = dataclasses.MISSING
VARYING: Final[Any] = object()
"""The default of a field that differs each time, such as a unique id."""


@dataclasses.dataclass(frozen=True, slots=True)
class ModelField:
    """One field of a model."""

    name: str
    """The name in the objects."""

    type: Any
    """The type with no markers."""

    markers: tuple[Any, ...]
    """All markers in ``Annotated`` besides the type, and their equivalents."""

    required: bool
    default: Any = MISSING
    description: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Structure:
    """A model: its fields, and its treatment of unknown fields."""

    fields: tuple[ModelField, ...]
    extra: str = "ignore"
    """As in pydantic: ``ignore``, ``allow``, or ``forbid``."""

    dialect: Dialect | None = None
    """How it is written in JSON; if ``None``, as the structure around it."""


def is_model(cls: Any) -> bool:
    """Whether the fields of the class are known."""
    return isinstance(cls, type) and (
        _is_pydantic(cls) or dataclasses.is_dataclass(cls) or _is_typed_dict(cls)
    )


def is_root_model(cls: Any) -> bool:
    """Whether the class only names another type: its only field has no name."""
    return bool(getattr(cls, "__pydantic_root_model__", False))


def read_structure(annotation: Any) -> Structure:
    """Read the fields of the model, be it a class or a class with parameters: ``Page[int]``.

    Raises :class:`SchemaError` if it is no model, or if the types of its fields are not known.
    """
    cls = typing.get_origin(annotation) or annotation
    if not is_model(cls):
        kinds = "neither a dataclass, nor a typed dictionary, nor a model of pydantic"
        raise SchemaError(f"{cls.__name__} is {kinds}.")
    if _is_pydantic(cls):
        return _read_pydantic(cls)
    reader = _read_typed_dict if _is_typed_dict(cls) else _read_dataclass
    return Structure(tuple(reader(cls, _get_hints(annotation, cls))))


def unwrap(type_: Any) -> tuple[Any, tuple[Any, ...]]:
    """Take the markers off the type, through aliases and new types; the outer ones come last."""
    markers: tuple[Any, ...] = ()
    while True:
        if typing.get_origin(type_) is Annotated:
            type_, inner = type_.__origin__, tuple(type_.__metadata__)
            markers = (*inner, *markers)
        elif (opened := open_alias(type_)) is not type_:
            type_ = opened
        else:
            return type_, tuple(flatten(markers))


def flatten(markers: Iterable[Any]) -> Iterator[Any]:
    """Open the markers that have several markers inside: ``Field()`` of pydantic."""
    for marker in markers:
        if not _is_field_info(marker):
            yield marker
            continue
        yield from marker.metadata
        yield from _read_field_info(marker)


def _is_field_info(value: Any) -> bool:
    return type(value).__name__ == "FieldInfo" and hasattr(value, "metadata")


def _read_field_info(info: Any) -> Iterator[Any]:
    if info.description:
        prefix = "Deprecated. " if getattr(info, "deprecated", None) else ""
        yield Description(f"{prefix}{info.description}")
    if info.title:
        yield Title(info.title)
    if info.examples:
        yield Example(info.examples[0])
    if info.discriminator is not None:
        yield DiscriminatedBy(info.discriminator)


@dataclasses.dataclass(frozen=True, slots=True)
class DiscriminatedBy:
    """The field that tells the variants of a union; a callable is of no use for schemas."""

    field: Any


def _get_hints(annotation: Any, cls: type) -> dict[str, Any]:
    try:
        return list_hints(annotation)
    except (NameError, TypeError, AttributeError) as e:
        raise SchemaError(f"{cls.__name__}: the types of its fields cannot be read: {e}") from None


def _is_pydantic(cls: type) -> bool:
    return "__pydantic_fields__" in dir(cls) and hasattr(cls, "__pydantic_validator__")


def _is_typed_dict(cls: Any) -> bool:
    return isinstance(cls, type) and issubclass(cls, dict) and hasattr(cls, "__required_keys__")


def _read_pydantic(cls: Any) -> Structure:
    if not getattr(cls, "__pydantic_complete__", True) and hasattr(cls, "model_rebuild"):
        try:
            cls.model_rebuild()
        except NameError as e:
            raise SchemaError(f"{cls.__name__}: the types of its fields are not known: {e}") from e
    config = getattr(cls, "model_config", None) or getattr(cls, "__pydantic_config__", None) or {}
    texts = describe_fields(cls)
    fields = []
    for name, info in cls.__pydantic_fields__.items():
        if getattr(info, "exclude", None) and not info.is_required():
            continue
        type_, markers = unwrap(info.annotation)
        markers = (*markers, *flatten([info]))
        default = MISSING if info.is_required() else _get_default(info)
        wire = _get_alias(cls, name, info)
        fields.append(_make(wire, type_, markers, default, texts.get(name)))
    dialect = Dialect(pydantic=True, utf8=config.get("val_json_bytes", "utf8") != "base64")
    return Structure(tuple(fields), config.get("extra") or "ignore", dialect)


def _get_default(info: Any) -> Any:
    factory = info.default_factory
    if factory is None:
        return info.default
    takes_data = getattr(info, "default_factory_takes_validated_data", False)
    return None if takes_data else _make_default(factory)


def _make_default(factory: Callable[[], Any]) -> Any:
    """The default, if it does not vary. Dates vary, but two dates in a row can be the same."""
    default = factory()
    return VARYING if isinstance(default, datetime.date) or default != factory() else default


def _get_alias(cls: type, name: str, info: Any) -> str:
    alias = info.validation_alias or info.alias or name
    if not isinstance(alias, str):
        raise SchemaError(f"{cls.__name__}.{name}: only one name can be its alias in Kubernetes.")
    written = info.serialization_alias or name
    if written != alias:
        raise SchemaError(
            f"{cls.__name__}.{name}: it is read as {alias!r}, but written as {written!r}. "
            "Take Field(alias=...), which is for both."
        )
    return alias


def list_init_fields(cls: Any) -> list[dataclasses.Field[Any]]:
    """The fields of a dataclass that objects have; the class makes all others."""
    return [field for field in dataclasses.fields(cls) if field.init]


def _read_dataclass(cls: Any, hints: dict[str, Any]) -> Iterator[ModelField]:
    texts = describe_fields(cls)
    for field in list_init_fields(cls):
        type_, markers = unwrap(hints[field.name])
        factory: Callable[[], Any] | Any = field.default_factory
        default = field.default if factory is MISSING else _make_default(factory)
        yield _make(field.name, type_, markers, default, texts.get(field.name))


def _read_typed_dict(cls: Any, hints: dict[str, Any]) -> Iterator[ModelField]:
    texts = describe_fields(cls)
    for name, hint in hints.items():
        required = name in cls.__required_keys__
        for origin in _list_qualifiers(hint):
            required = {"Required": True, "NotRequired": False}.get(origin, required)
        type_, markers = unwrap(hint)
        field = _make(name, type_, markers, MISSING, texts.get(name))
        is_required = required and field.default is MISSING
        yield dataclasses.replace(field, required=is_required)


def _list_qualifiers(hint: Any) -> Iterator[str]:
    while (origin := typing.get_origin(hint)) is not None:
        name = str(getattr(origin, "__name__", None) or getattr(origin, "_name", ""))
        if origin is not Annotated and name not in QUALIFIERS:
            return
        yield name
        hint = hint.__origin__ if origin is Annotated else typing.get_args(hint)[0]


def _make(
    name: str, type_: Any, markers: tuple[Any, ...], default: Any, text: str | None
) -> ModelField:
    for marker in markers:
        match marker:
            case Name():
                name = marker.name
            case Default():
                default = marker.value
            case Description():
                text = marker.text
            case _ if type(marker).__name__ == "DocInfo" or type(marker).__name__ == "Doc":
                text = marker.documentation
    return ModelField(name, type_, markers, default is MISSING, default, text)
