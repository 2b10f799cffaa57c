"""Shapes: convert values of JSON to annotated Python types, and back. This needs no pydantic.

A reader is a function for one type. It takes a value of JSON and its place in the object, and
returns the Python value, or adds a problem. So, one pass finds all problems of an object.
"""

from __future__ import annotations

import base64
import collections.abc
import dataclasses
import datetime
import decimal
import enum
import ipaddress
import types
import typing
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, Literal, NamedTuple, Union, get_args, get_origin

from kopf_cogs.structs.hints import list_hints, open_alias
from kopf_cogs.structs.markers import Name
from kopf_cogs.structs.models import Problems, Where, is_model, is_pydantic
from kopf_cogs.structs.quantities import Quantity, format_duration, parse_duration

Reader = Callable[[Any, Where, Problems], Any]


class Shapes:
    """Makes readers of types. The reader of a class is made once: a class can refer to itself."""

    def __init__(self) -> None:
        self._known: dict[Any, Reader] = {}

    def find(self, annotation: Any) -> Reader:
        """The reader of the type. For an unknown type, it returns the value as it is."""
        origin, args = get_origin(annotation), get_args(annotation)
        if origin is Annotated:
            return self.find(args[0])
        if origin in (Union, types.UnionType):
            return self._find_union(args)
        if origin is Literal:
            return _make_choice(args)
        if open_alias(annotation) is not annotation:
            return self._find_alias(annotation)
        if is_model(origin or annotation):
            return self._find_model(annotation, origin or annotation)
        if origin is not None:
            return self._find_container(origin, args)
        return _find_plain(annotation)

    def _find_alias(self, annotation: Any) -> Reader:
        if annotation not in self._known:  # aliases can refer to themselves, as classes can
            self._known[annotation] = lambda *args: self._known[annotation](*args)
            self._known[annotation] = self.find(open_alias(annotation))
        return self._known[annotation]

    def _find_model(self, annotation: Any, cls: Any) -> Reader:
        if annotation not in self._known:
            if is_pydantic(cls):
                self._known[annotation] = _make_pydantic(cls)
            else:
                shape = self._known[annotation] = _Dataclass(cls)
                hints = list_hints(annotation)
                shape.fields = [_Field.of(f, hints[f.name], self) for f in _get_init_fields(cls)]
        return self._known[annotation]

    def _find_union(self, args: Iterable[Any]) -> Reader:
        members = [arg for arg in args if arg is not type(None)]
        readers, is_optional = [self.find(arg) for arg in members], len(members) < len([*args])

        def read(value: Any, where: Where, problems: Problems) -> Any:
            if value is None and is_optional:
                return None
            for reader in _choose(readers, value):
                found = Problems()
                result = reader(value, where, found)
                if not found:
                    return result
            problems.extend(found)  # of the last reader; usually, there is only one
            return None

        return read

    def _find_container(self, origin: Any, args: tuple[Any, ...]) -> Reader:
        if not isinstance(origin, type):
            return _read_anything
        if issubclass(origin, collections.abc.Mapping):
            key, value = args if len(args) == 2 else (str, Any)
            return _make_mapping(self._find_key(key), self.find(value))
        if issubclass(origin, collections.abc.Iterable) and not issubclass(origin, str | bytes):
            items = [arg for arg in args if arg is not Ellipsis]
            if origin is tuple and len(items) != 1:
                return _make_list(_read_anything, tuple)
            make = origin if origin in (tuple, set, frozenset) else list
            return _make_list(self.find(items[0] if items else Any), make)
        return _read_anything

    def _find_key(self, key: Any) -> Reader:
        """Keys of JSON are texts, so numeric keys remain texts: no schema permits them anyway."""
        return _read_anything if key in (str, int, float, bool) else self.find(key)


def _choose(readers: Sequence[Reader], value: Any) -> Sequence[Reader]:
    """The classes of a union that the tags of the value name; all classes if the tags name none."""
    fitting = [one for one in readers if not isinstance(one, _Dataclass) or one.fits(value)]
    return fitting or readers


class _Field(NamedTuple):
    """A field of a dataclass, with its name in JSON."""

    name: str
    key: str
    is_required: bool
    is_tag: bool
    read: Reader

    @classmethod
    def of(cls, field: dataclasses.Field[Any], hint: Any, shapes: Shapes) -> _Field:
        missing = dataclasses.MISSING
        is_required = field.default is missing and field.default_factory is missing
        is_tag = get_origin(hint) is Literal
        return cls(field.name, get_key(field.name, hint), is_required, is_tag, shapes.find(hint))


def get_key(name: str, hint: Any) -> str:
    """The name of the field in objects: as in Python, or as :class:`Name` says."""
    args = get_args(hint) if get_origin(hint) is Annotated else ()
    return next((arg.name for arg in args if isinstance(arg, Name)), name)


class _Dataclass:
    """The reader of a dataclass. It skips the fields that the dataclass does not have."""

    def __init__(self, cls: Any) -> None:
        self._cls = cls
        self.fields: list[_Field] = []

    def fits(self, value: Any) -> bool:
        """Whether the tags of the object name this class; tags are fields of ``Literal`` types."""
        problems = Problems()
        for field in self.fields:
            if field.is_tag and isinstance(value, Mapping) and field.key in value:
                field.read(value[field.key], (), problems)
        return not problems

    def __call__(self, value: Any, where: Where, problems: Problems) -> Any:
        if not isinstance(value, Mapping):
            return problems.expect(where, "an object", value)
        count, given = len(problems), {}
        for field in self.fields:
            if field.key in value:
                given[field.name] = field.read(value[field.key], (*where, field.key), problems)
            elif field.is_required:
                problems.add((*where, field.key), "is required")
        if len(problems) > count:
            return None
        try:
            return self._cls(**given)
        except Exception as e:  # from its own checks, e.g. in ``__post_init__()``
            return problems.add(where, _explain(e))


def _explain(error: Exception) -> str:
    """The text of a failed check, with the class of the error if the text alone is unclear."""
    text, name = str(error), type(error).__name__
    if isinstance(error, ValueError | TypeError | AssertionError):
        return text or name
    return f"{name}: {text}" if text else name


def _get_init_fields(cls: Any) -> list[dataclasses.Field[Any]]:
    return [field for field in dataclasses.fields(cls) if field.init]


def _make_pydantic(cls: Any) -> Reader:
    config = getattr(cls, "model_config", None) or getattr(cls, "__pydantic_config__", None) or {}

    def read(value: Any, where: Where, problems: Problems) -> Any:
        validator = cls.__pydantic_validator__  # pydantic can make it late, for forward references
        try:
            if config.get("strict"):  # only ``validate_json()`` makes dates etc. of strings
                from kopf_cogs.helpers import jsons

                return validator.validate_json(jsons.dumps(value))
            return validator.validate_python(value)
        except Exception as e:  # from pydantic, or from the validators of users
            errors: Any = getattr(e, "errors", None)
            if not callable(errors):
                return problems.add(where, _explain(e))
            for error in errors(include_url=False, include_context=False, include_input=False):
                problems.add((*where, *error["loc"]), str(error["msg"]))
        return None

    return read


def _make_mapping(read_key: Reader, read_value: Reader) -> Reader:
    def read(value: Any, where: Where, problems: Problems) -> Any:
        if not isinstance(value, Mapping):
            return problems.expect(where, "an object", value)
        return {
            read_key(key, (*where, key), problems): read_value(item, (*where, key), problems)
            for key, item in value.items()
        }

    return read


def _make_list(read_item: Reader, make: Callable[[Iterable[Any]], Any]) -> Reader:
    def read(value: Any, where: Where, problems: Problems) -> Any:
        if not isinstance(value, list | tuple):
            return problems.expect(where, "a list", value)
        count = len(problems)
        items = [read_item(item, (*where, index), problems) for index, item in enumerate(value)]
        return make(items) if len(problems) == count else None

    return read


def _make_choice(choices: tuple[Any, ...]) -> Reader:
    """The reader of ``Literal``. For the value of an enumeration, it returns the member."""
    plain = [choice.value if isinstance(choice, enum.Enum) else choice for choice in choices]

    def read(value: Any, where: Where, problems: Problems) -> Any:
        for choice, expected in zip(choices, plain, strict=True):
            if type(value) is type(expected) and value == expected:
                return choice
        return problems.expect(where, f"one of {', '.join(map(repr, plain))}", value)

    return read


def _read_anything(value: Any, _where: Where, _problems: Problems) -> Any:
    return value


def _find_plain(cls: Any) -> Reader:
    if cls in _PLAIN:
        accepted, title = _PLAIN[cls]
        return _make_plain(cls, accepted, title)
    if cls in _PARSERS:
        return _make_parser(*_PARSERS[cls])
    if isinstance(cls, type) and issubclass(cls, enum.Enum):
        return _make_parser(cls, f"one of {', '.join(repr(item.value) for item in cls)}")
    if cls in (dict, list, set, frozenset, tuple):
        return Shapes().find({dict: dict[str, Any]}.get(cls, cls[Any]))
    return _read_anything


_PLAIN: Final[Mapping[Any, tuple[tuple[type, ...], str]]] = {
    str: ((str,), "a string"),
    bool: ((bool,), "true or false"),
    int: ((int,), "an integer"),
    float: ((int, float), "a number"),
    type(None): ((type(None),), "null"),
}


def _make_plain(cls: Any, accepted: tuple[type, ...], title: str) -> Reader:
    def read(value: Any, where: Where, problems: Problems) -> Any:
        if type(value) not in accepted:
            return problems.expect(where, title, value)
        return float(value) if cls is float else value

    return read


def _make_parser(parse: Callable[[Any], Any], title: str) -> Reader:
    def read(value: Any, where: Where, problems: Problems) -> Any:
        try:
            return parse(value)
        except (ValueError, TypeError, ArithmeticError, AttributeError):
            return problems.expect(where, title, value)

    return read


def _parse_number(value: Any) -> decimal.Decimal:
    if isinstance(value, bool):
        raise ValueError
    return decimal.Decimal(str(value))


def _parse_bytes(value: Any) -> bytes:
    return base64.b64decode(value, validate=True)


_PARSERS: Final[Mapping[Any, tuple[Callable[[Any], Any], str]]] = {
    datetime.datetime: (datetime.datetime.fromisoformat, "a date with a time"),
    datetime.date: (datetime.date.fromisoformat, "a date"),
    datetime.timedelta: (parse_duration, "a duration such as '1h30m'"),
    decimal.Decimal: (_parse_number, "a number"),
    uuid.UUID: (uuid.UUID, "a UUID"),
    Quantity: (Quantity.parse, "a quantity such as '1.5Gi'"),
    bytes: (_parse_bytes, "a text in base64"),
    ipaddress.IPv4Address: (ipaddress.IPv4Address, "an address of IPv4"),
    ipaddress.IPv6Address: (ipaddress.IPv6Address, "an address of IPv6"),
    ipaddress.IPv4Network: (ipaddress.IPv4Network, "a network of IPv4"),
    ipaddress.IPv6Network: (ipaddress.IPv6Network, "a network of IPv6"),
}
_TEXTS: Final = (
    decimal.Decimal,
    uuid.UUID,
    Quantity,
    ipaddress.IPv4Address,
    ipaddress.IPv6Address,
    ipaddress.IPv4Network,
    ipaddress.IPv6Network,
)


def write(value: Any) -> Any:
    """Convert an instance of a model, and all values in it, to values of JSON."""
    if is_pydantic(type(value)):
        return _write_pydantic(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        hints = typing.get_type_hints(type(value), include_extras=True)
        fields = _get_init_fields(type(value))
        return {get_key(f.name, hints[f.name]): write(getattr(value, f.name)) for f in fields}
    match value:
        case enum.Enum():
            return value.value
        case datetime.datetime():
            text = value.astimezone(datetime.UTC).isoformat()
            return text.replace("+00:00", "Z")
        case datetime.timedelta():
            return format_duration(value)
        case datetime.date():
            return value.isoformat()
        case bytes():
            return base64.b64encode(value).decode("ascii")
        case Mapping():
            return {write(key): write(item) for key, item in value.items()}
        case list() | tuple():
            return [write(item) for item in value]
        case set() | frozenset():  # each process has its own order of texts
            return sorted(map(write, value), key=repr)
    return str(value) if isinstance(value, _TEXTS) else value


def write_sparsely(value: Any) -> Any:
    """The same as :func:`write`, without the nulls of fields whose default is ``None``.

    All other nulls are data: in required fields, in dictionaries, in values without a schema.
    """
    written = write(value)
    _leave_out(written, value)
    return written


def _leave_out(written: Any, value: Any) -> None:
    for one, inner in _walk(written, value):
        if isinstance(one, dict) and is_model(type(inner)):
            for key, name, default in _list_defaults(type(inner)):
                if default is None and getattr(inner, name) is None:
                    one.pop(key, None)


def _walk(written: Any, value: Any) -> Iterator[tuple[Any, Any]]:
    """All parts of the written value, each with the Python value that it was made of."""
    yield written, value
    pairs: Iterable[tuple[Any, Any]] = ()
    match written, value:
        case _ if getattr(type(value), "__pydantic_root_model__", False):
            pairs = [(written, value.root)]
        case {}, _ if is_model(type(value)):
            known = _list_defaults(type(value))
            pairs = [(written.get(key), getattr(value, name)) for key, name, _ in known]
        case ({}, Mapping()) if len(written) == len(value):
            pairs = zip(written.values(), value.values(), strict=True)
        case ([*_], list() | tuple()) if len(written) == len(value):
            pairs = zip(written, value, strict=True)
    for one, inner in pairs:
        yield from _walk(one, inner)


def _list_defaults(cls: Any) -> Iterable[tuple[str, str, Any]]:
    """List each field: its name in objects, its name in Python, and its default."""
    if is_pydantic(cls):
        fields = getattr(cls, "model_fields", None) or cls.__pydantic_fields__
        for name, field in fields.items():
            yield field.serialization_alias or field.alias or name, name, field.default
        return
    hints = typing.get_type_hints(cls, include_extras=True)
    for one in _get_init_fields(cls):
        yield get_key(one.name, hints[one.name]), one.name, one.default


def _write_pydantic(value: Any) -> Any:
    written = _dump(value)
    for one, inner in _walk(written, value):
        if isinstance(one, dict):
            for name, field in _list_computed(type(inner)):
                one.pop(field.alias or name, None)
        if isinstance(one, list) and isinstance(inner, set | frozenset):
            one.sort(key=repr)  # each process has its own order of texts
    return written


def _list_computed(cls: Any) -> Iterable[tuple[str, Any]]:
    """The computed fields, i.e. properties: models do not read them, so no definition has them."""
    if not is_pydantic(cls):
        return ()
    return [(name, one.info) for name, one in cls.__pydantic_decorators__.computed_fields.items()]


def _dump(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", by_alias=True)
    from kopf_cogs.helpers import jsons

    return jsons.loads(type(value).__pydantic_serializer__.to_json(value, by_alias=True))
