"""Relations: on which other objects an object depends without owning them, and the other way round.

A field of the primary object can name the related ones. An index can be named instead. Or
a function finds the primary objects of a related one.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from typing import Any

from kopf_cogs.helpers.callbacks import call
from kopf_cogs.structs.bodies import Body, RawBody
from kopf_cogs.structs.dicts import FieldPath, resolve
from kopf_cogs.structs.keys import ObjectKey
from kopf_core.engines.desired.sources import Name, Source

HERE = "*"
"""The placeholder for the namespace of the related object."""

RelationFn = Callable[[Mapping[str, Any]], Any]

NOWHERE: frozenset[Name] = frozenset()
_UNKNOWN = (None, NOWHERE)


class Relation:
    """One relation of one kind of primary objects to one kind of related ones."""

    def __init__(
        self,
        source: FieldPath | RelationFn | str,
        *,
        indices: Mapping[str, Mapping[Any, Collection[Any]]],
        on_names: Callable[[ObjectKey, frozenset[Name]], None] = lambda *_: None,
    ) -> None:
        self._source = source
        self._indices = indices
        self._on_names = on_names
        self._names: dict[ObjectKey, frozenset[Name]] = {}
        self._primaries: dict[Name, set[ObjectKey]] = {}
        self._keys: dict[Name, ObjectKey] = {}
        self._homes: dict[ObjectKey, Name] = {}
        # Only for functions: their latest answers, and their earlier answers with primary objects
        # that are not related anymore, but do not know it yet.
        self._known: dict[Any, tuple[str | None, frozenset[Name]]] = {}
        self._untold: dict[Any, frozenset[Name]] = {}
        self._homonyms: dict[str, set[Name]] = {}  # the same names in different namespaces
        self._indexed: dict[Name, list[Name]] | None = None  # the index the other way round

    def track(self, key: ObjectKey, body: Body) -> None:
        """Notice the primary object: its name, and the objects that it names."""
        home = _name(body)
        self._keys[home], self._homes[key] = key, home
        if self.index is not None:
            self._homonyms.setdefault(home[1], set()).add(home)
        if not isinstance(self._source, tuple):
            return
        names = frozenset(parse_names(resolve(body, self._source, None), home[0]))
        known = self._names.get(key, NOWHERE)
        for name in known - names:
            self._forget(name, key)
        for name in names:
            for either in (name, (None, name[1])):  # cluster-scoped objects are in no namespace
                self._primaries.setdefault(either, set()).add(key)
        self._names[key] = names
        if names != known:
            self._on_names(key, names)

    def forget(self, key: ObjectKey) -> None:
        """The primary object is gone."""
        names = self._names.pop(key, NOWHERE)
        for name in names:
            self._forget(name, key)
        if names:
            self._on_names(key, NOWHERE)
        home = self._homes.pop(key, None)
        if not self._homes:
            self._known.clear()  # the answers do not matter anymore
            self._untold.clear()
        if home is not None and self._keys.get(home) == key:
            del self._keys[home]
            homonyms = self._homonyms.get(home[1], set())
            homonyms.discard(home)
            if not homonyms:
                self._homonyms.pop(home[1], None)

    def find_primaries(self, body: RawBody) -> Collection[ObjectKey]:
        """Find the primary objects of this related object.

        Raises the errors of the user's function.
        """
        if isinstance(self._source, tuple):
            return set(self._primaries.get(_name(body), ()))
        if isinstance(self._source, str):
            return self._find_keys(self._name_primaries(body))
        id = _identify(body)
        names = NOWHERE  # if the function fails, the object has no primary objects
        try:
            names = self._name_primaries(body)
        finally:
            if (names and self._homes) or id in self._known:  # other answers are of no interest
                self._known[id] = body["metadata"].get("resourceVersion"), names
        return self._find_keys(names)

    def find_former(self, body: RawBody) -> Collection[ObjectKey]:
        """Find the primary objects of the previous state of this related object.

        These are the answers of the function for that state. Fields of the primary objects do not
        change with the related object, and indices report their former values themselves.
        """
        id = _identify(body)
        return self._find_keys(self._known.get(id, _UNKNOWN)[1] | self._untold.pop(id, NOWHERE))

    def forget_related(self, body: RawBody) -> Collection[ObjectKey]:
        """The related object is gone; return its primary objects.

        The function is not called: little can be left of the object but its name.
        """
        if isinstance(self._source, tuple | str):
            return self.find_primaries(body)
        former = self.find_former(body)
        self._known.pop(_identify(body), None)
        return former

    def _find_keys(self, names: Iterable[Name]) -> Collection[ObjectKey]:
        keys = (
            self._keys.get((space, title)) or self._keys.get((None, title))  # if cluster-scoped
            for space, title in names
        )
        return {key for key in keys if key is not None}

    def find_in(self, source: Source, key: ObjectKey) -> Iterable[RawBody]:
        """Find all related objects of the primary object: by their names, if possible."""
        names = self.get_names(key)
        if names is None:
            return self.find_related(key, [*source.values()])
        named = (source.find(*name) for name in names)
        bodies = [body for body in named if body is not None]
        return bodies if isinstance(self._source, tuple) else self.find_related(key, bodies)

    def find_related(self, key: ObjectKey, bodies: Collection[RawBody]) -> Iterator[RawBody]:
        """Select the objects that are related to the primary object.

        The function of the user is called once for each state of each object.
        """
        home = self._homes.get(key)
        if home is None:
            return
        for body in bodies:
            names = self._recall_primaries(body)
            if home in names or (home[0] is None and any(home[1] == name for _, name in names)):
                yield body

    def _name_primaries(self, body: RawBody) -> frozenset[Name]:
        name = _name(body)
        if isinstance(self._source, str):
            index = self._indices.get(self._source, {})
            found: Iterable[Any] = [*index.get(name, ()), *index.get(name[1], ())]
        elif not isinstance(self._source, tuple):
            found = call(self._source, body)
        return frozenset(parse_names(found, name[0]))

    def _recall_primaries(self, body: RawBody) -> frozenset[Name]:
        """Recall the primary objects of the object; none if the function fails, which was logged
        already.
        """
        if isinstance(self._source, str):  # the index can change when the object does not
            return self._name_primaries(body)
        id, version = _identify(body), body["metadata"].get("resourceVersion")
        known = self._known.get(id)
        if known is not None and known[0] == version is not None:
            return known[1]
        try:
            names = self._name_primaries(body)
        except Exception:
            names = NOWHERE
        if known is not None and known[1] - names:  # the report of its change is on its way
            self._untold[id] = self._untold.get(id, NOWHERE) | known[1]
        self._known[id] = version, names
        return names

    @property
    def index(self) -> str | None:
        """The name of the index that finds the related objects, if there is one."""
        return self._source if isinstance(self._source, str) else None

    def find_named(self, names: Any) -> Collection[ObjectKey]:
        """Find the primary objects of these names; names without namespaces are in all of them."""
        found: set[ObjectKey] = set()
        for space, name in parse_names(names, None):
            homes = self._homonyms.get(name, ()) if space is None else [(space, name)]
            found |= {self._keys[home] for home in homes if home in self._keys}
        return found

    def get_names(self, key: ObjectKey) -> Collection[Name] | None:
        """The names of all objects that can be related, or ``None`` if any object can be."""
        if isinstance(self._source, tuple):
            return self._names.get(key, frozenset())
        home = self._homes.get(key)
        if self.index is None or home is None or home[0] is None:
            return None
        indexed = self._turn_index()
        exact = indexed.get(home, [])
        if any(space == HERE for space, _ in exact):
            return None  # only their names are known, and they can be in any namespace
        return [*exact, *((home[0], name) for _, name in indexed.get((HERE, home[1]), ()))]

    def renew(self) -> None:
        """The index has changed."""
        self._indexed = None

    def _turn_index(self) -> Mapping[Name, list[Name]]:
        """Map the primary objects to the names of the related ones, by the index."""
        if self._indexed is None:
            self._indexed = {}
            for key, values in self._indices.get(self.index or "", {}).items():
                space, name = key if _is_pair(key) else (HERE, key)
                for primary in parse_names([*values], space):
                    self._indexed.setdefault(primary, []).append((space, name))
        return self._indexed

    def _forget(self, name: Name, key: ObjectKey) -> None:
        for either in (name, (None, name[1])):
            keys = self._primaries.get(either, set())
            keys.discard(key)
            if not keys:
                self._primaries.pop(either, None)


def settle(source: Any, indices: Mapping[str, Any]) -> Any:
    """Settle a single word: an index if there is such one, or else a field of the object."""
    if isinstance(source, str) and source not in indices:
        return (source,)
    return source


def parse_names(value: Any, namespace: str | None) -> Iterator[Name]:
    """Parse the names as users write them: one or many; with a namespace, or in this one.

    A string is a name, or ``namespace/name``. A pair is a namespace and a name. A mapping has
    ``name`` and maybe ``namespace``, as references in Kubernetes have.
    """
    if isinstance(value, str):
        space, slash, name = value.rpartition("/")
        if name:
            yield (space if slash else namespace, name)
    elif isinstance(value, Mapping):
        named, home = value.get("name"), value.get("namespace") or namespace
        if isinstance(named, str) and named and isinstance(home, str | None):
            yield home, named
    elif _is_pair(value):
        yield value[0], value[1]
    elif isinstance(value, Iterable):
        for item in value:
            yield from parse_names(item, namespace)


def _is_pair(value: Any) -> bool:
    return (
        isinstance(value, tuple)
        and len(value) == 2
        and isinstance(value[1], str)
        and isinstance(value[0], Hashable)
        and (value[0] is None or isinstance(value[0], str))
    )


def _identify(body: RawBody) -> str | Name:
    return body["metadata"].get("uid") or _name(body)


def _name(body: Mapping[str, Any] | RawBody) -> Name:
    metadata = body.get("metadata") or {}
    return metadata.get("namespace"), metadata.get("name") or ""
