"""Nested dictionaries: their fields by paths, their copies, and live views to their parts."""

from collections.abc import (
    ItemsView,
    Iterator,
    KeysView,
    Mapping,
    MutableMapping,
    ValuesView,
)
from typing import TYPE_CHECKING, Any, Final, Generic, TypeGuard, TypeVar

_K = TypeVar("_K")
_V = TypeVar("_V")

FieldPath = tuple[str, ...]
"""A parsed path to a field, e.g. ``('spec', 'field')``; empty for the whole object."""

FieldSpec = None | str | FieldPath | list[str]
"""A path as users write it: ``'spec.field'``, ``('spec', 'field')``, a list, or nothing."""


_MISSING: Final = object()
_EMPTY: Final[dict[Any, Any]] = {}
SCALARS: Final = frozenset({str, int, float, bool, type(None)})


def parse_field(spec: FieldSpec) -> FieldPath:
    """Convert a user's field specification into a path.

    Strings are split by dots. Keys which contain dots of their own, such as names
    of annotations, can only be addressed by tuples or lists.

    Raises ``ValueError`` for anything else.
    """
    if spec is None:
        return ()
    if isinstance(spec, str):
        return tuple(spec.split("."))
    if isinstance(spec, (tuple, list)):
        return tuple(spec)
    raise ValueError(f"A field must be a string, a tuple, or a list of strings, not {spec!r}")


def resolve(d: Any, path: FieldPath, default: Any = _MISSING) -> Any:
    """Get the value of a nested field.

    With a default: it is returned if anything on the way is absent, ``None``,
    or not a mapping. Without a default: such fields raise ``KeyError``
    when absent and ``TypeError`` when there is something else on the way.
    A value of ``None`` in the field itself is a value and is returned as is.
    """
    here = d._here() if isinstance(d, _View) else d
    for key in path:
        if type(here) is not dict and (here is None or not isinstance(here, Mapping)):
            if default is _MISSING:
                raise TypeError(f"Not a mapping where the field {key!r} is looked for: {here!r}")
            return default
        if key in here:
            here = here[key]
        elif default is _MISSING:
            raise KeyError(key)
        else:
            return default
    return here


def is_mapping(value: Any) -> TypeGuard[Mapping[Any, Any]]:
    """Whether it is a dictionary or alike: for dictionaries, several times faster than usual."""
    return type(value) is dict or isinstance(value, Mapping)


def ensure(d: MutableMapping[str, Any], path: FieldPath, value: Any) -> None:
    """Set the value of a nested field, creating the parent dictionaries where absent.

    Raises ``ValueError`` for an empty path, ``TypeError`` if a parent is not a dictionary.
    """
    if not path:
        raise ValueError("A value cannot be set for the whole object, only for its fields.")
    here = d
    for depth, key in enumerate(path[:-1], start=1):
        here = here.setdefault(key, {})
        if type(here) is not dict and not isinstance(here, MutableMapping):
            name = ".".join(path[:depth])
            raise TypeError(f"The field {name!r} is not a dictionary but {here!r}")
    here[path[-1]] = value


def remove(d: MutableMapping[str, Any], path: FieldPath) -> None:
    """Remove a nested field, and then its empty parents.

    It is fine if the field is already absent.

    Raises ``ValueError`` for an empty path.
    """
    if not path:
        raise ValueError("The whole object cannot be removed, only its fields.")
    parents: list[MutableMapping[str, Any]] = [d]
    for key in path[:-1]:
        child = parents[-1].get(key)
        if child is None or (type(child) is not dict and not isinstance(child, MutableMapping)):
            break
        parents.append(child)
    else:
        parents[-1].pop(path[-1], None)
    for depth in range(len(parents) - 1, 0, -1):
        if parents[depth]:
            break
        del parents[depth - 1][path[depth - 1]]


def json_copy(value: Any) -> Any:
    """Copy a JSON-like structure, several times faster than the generic deep copying.

    Mappings become dictionaries, lists and tuples become lists. All the rest is taken
    as is: values of JSON are immutable.
    """
    if type(value) is dict:
        return {k: v if type(v) in SCALARS else json_copy(v) for k, v in value.items()}
    if type(value) is list:
        return [v if type(v) in SCALARS else json_copy(v) for v in value]
    if isinstance(value, Mapping):
        return {k: json_copy(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_copy(v) for v in value]
    return value


class _View:
    """The common base of all views: unlike with abstract classes, checks for it are quick."""

    __slots__ = ()

    _cell: list[Mapping[Any, Any]]
    _path: FieldPath

    def _here(self) -> Any:
        raise NotImplementedError


# Views share one-item lists ("cells") with the source, and not the reference to each other.
# So, when the source is replaced in the cell, all the views see this. At the same time,
# there are no reference cycles, and the abandoned bodies are freed at once, with no GC involved.
class MappingView(_View, Mapping[_K, _V], Generic[_K, _V]):
    """A live read-only view to a part of another mapping.

    The view is resolved on every access: if the source changes, the view changes too.
    An absent part, or ``None``, or a non-mapping in its place, looks like an empty mapping.
    """

    __slots__ = ("_cell", "_path")

    _cell: list[Mapping[Any, Any]]
    _path: FieldPath

    def __init__(self, src: Mapping[Any, Any], path: FieldSpec = None, /) -> None:
        # There is nothing to initialise in the abstract bases; and views are made in thousands.
        suffix = path if type(path) is tuple else parse_field(path)
        if isinstance(src, _View):
            self._cell = src._cell
            self._path = src._path + suffix if src._path else suffix
        else:
            self._cell = [src]
            self._path = suffix

    def _here(self) -> Mapping[_K, _V]:
        here: Any = self._cell[0]
        for key in self._path:
            here = here.get(key)
            if type(here) is not dict and (here is None or not isinstance(here, Mapping)):
                return _EMPTY
        return here  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        here = self._here()
        return repr(here if type(here) is dict else dict(here))

    def __len__(self) -> int:
        return len(self._here())

    def __bool__(self) -> bool:
        return bool(self._here())

    def __iter__(self) -> Iterator[_K]:
        return iter(self._here())

    def __contains__(self, key: object) -> bool:
        return key in self._here()

    def __getitem__(self, key: _K) -> _V:
        return self._here()[key]

    if not TYPE_CHECKING:  # type checkers refuse it by themselves

        def __setitem__(self, key: Any, value: Any) -> None:
            raise TypeError("Objects are read-only: use the argument `patch` to change them.")

        def __delitem__(self, key: Any) -> None:
            self[key] = None

    def __eq__(self, other: object) -> bool:
        if isinstance(other, MappingView):
            other = other._here()
        if not isinstance(other, Mapping):
            return NotImplemented
        here = self._here()
        return bool(here == other)

    __hash__ = None  # type: ignore[assignment]

    # The inherited methods go through the Python code for each key; these methods do not.
    def get(self, key: _K, default: Any = None, /) -> Any:
        here = self._here() if self._path else self._cell[0]  # the whole object is asked often
        return here.get(key, default)

    def keys(self) -> KeysView[_K]:
        return self._here().keys()

    def values(self) -> ValuesView[_V]:
        return self._here().values()

    def items(self) -> ItemsView[_K, _V]:
        return self._here().items()


class ReplaceableMappingView(MappingView[_K, _V], Generic[_K, _V]):
    """A live view, the source of which can be replaced as a whole.

    All views to its parts will see the new source immediately, too.
    It is used for long-running daemons and timers, which always see the latest object.
    """

    __slots__ = ()


def is_view_of(view: MappingView[Any, Any], src: Mapping[Any, Any]) -> bool:
    """Whether the view shows this very mapping, not one equal to it."""
    return view._cell[0] is src


def replace_source(view: ReplaceableMappingView[_K, _V], src: Mapping[_K, _V]) -> None:
    """Make the view, and all the views to its parts, show another mapping or view from now on."""
    view._cell[0] = src._cell[0] if isinstance(src, ReplaceableMappingView) else src


class MutableMappingView(MappingView[_K, _V], MutableMapping[_K, _V], Generic[_K, _V]):
    """A live view which also writes to its source, creating the parent mappings when needed.

    Nothing is created in the source until something is written via the view.
    """

    __slots__ = ()

    def __setitem__(self, key: _K, value: _V) -> None:
        ensure(self._cell[0], (*self._path, key), value)  # type: ignore[arg-type]

    def __delitem__(self, key: _K) -> None:
        here = self._here()
        if here is _EMPTY:
            raise KeyError(key)
        del here[key]  # type: ignore[attr-defined]
