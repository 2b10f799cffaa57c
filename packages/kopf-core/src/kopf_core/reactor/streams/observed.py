"""Observed kinds: the kinds that reconcilers own or relate to. Their newest states are stored.

They are watched in the same namespaces as all other kinds, beside other watches of the same kind.
When an observed object changes, the reconcilers that depend on it are told.
"""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from typing import Any

from kopf_cogs.configs.forms import Form
from kopf_cogs.structs.bodies import RawBody, RawEvent
from kopf_cogs.structs.keys import ObjectKey, object_key
from kopf_cogs.structs.parts import ALL_OBJECTS
from kopf_cogs.structs.resources import Resource
from kopf_cogs.structs.selectors import Selector
from kopf_cogs.structs.versions import is_same
from kopf_core.engines.desired.ownership import get_owners
from kopf_core.engines.desired.sources import Name, ObservedChange
from kopf_core.reactor.streams.forms import Forms
from kopf_core.reactor.streams.informers import StreamKey
from kopf_core.reactor.streams.pool import InformerPool
from kopf_core.reactor.streams.readiness import Readiness
from kopf_core.reactor.streams.referenced import ReferencedView
from kopf_core.reactor.streams.stores import ObjectStore, Transform

OnChange = Callable[[Resource, RawBody, ObservedChange], None]
OnListed = Callable[[Resource], None]


class KindView:
    """The objects of one kind in all the namespaces where they are observed."""

    def __init__(self, resource: Resource, on_change: OnChange = lambda *_: None) -> None:
        self.resource = resource
        self.stores: dict[str | None, ObjectStore] = {}
        self.unlisted: set[str | None] = set()
        """The namespaces that are not listed yet, or not since a backup was restored."""

        self._homes: dict[str, set[str | None]] = {}  # by owners: the namespaces of their objects
        self._on_change = on_change
        self._written: dict[ObjectKey, tuple[str, ...]] = {}
        self._held: dict[Name, list[RawBody]] = {}
        self._released: dict[Name, asyncio.Event] = {}

    @property
    def is_synced(self) -> bool:
        """Whether all existing objects are known, in all namespaces."""
        return not self.unlisted

    @property
    def is_observed(self) -> bool:
        """Whether the kind is served and watched anywhere."""
        return bool(self.stores)

    def is_synced_in(self, namespace: str | None) -> bool:
        """Whether all existing objects of this namespace are known."""
        store = self._select(namespace)
        return store is not None and store.is_synced

    def covers(self, namespace: str | None) -> bool:
        """Whether the objects of this namespace are observed."""
        return self._select(namespace) is not None

    def knows(self, names: Collection[Name] | None) -> bool:
        """Whether it is known which objects of these names exist; or of any names."""
        if names is None:
            return self.is_synced
        spaces = {space for space, _ in names}
        return all(self.is_synced_in(space) for space in spaces if self.covers(space))

    def find(self, namespace: str | None, name: str) -> RawBody | None:
        store = self._select(namespace)
        space = namespace if self.resource.namespaced else None
        return None if store is None else store.find(space, name)

    def owned_by(self, uid: str) -> Iterator[RawBody]:
        for home in self._homes.get(uid, set()) & self.stores.keys():
            yield from self.stores[home].owned_by(uid)

    def values(self) -> Iterator[RawBody]:
        for store in self.stores.values():
            yield from store.values()

    def put(self, body: RawBody) -> None:
        store = self._select(body["metadata"].get("namespace"))
        if store is None:  # the stream will never bring its events
            self._on_change(self.resource, body, ObservedChange.OTHERS)
            return
        is_ahead = any(is_same(held, body) for held in self._held.get(_get_name(body), ()))
        if store.put(body) or is_ahead:
            key, version = object_key(self.resource, body), body["metadata"].get("resourceVersion")
            self._written[key] = (*self._written.get(key, ()), version or "")
        self._follow_owners(body)
        self._tell_vanished(store)

    async def wait_for_others(self, namespace: str | None, name: str) -> None:
        """Wait until no other reconciler is writing the object.

        Otherwise, if two owners want it while it does not exist, the second would take it from the
        first.
        """
        while (namespace, name) in self._held:
            await self._released.setdefault((namespace, name), asyncio.Event()).wait()

    @contextlib.contextmanager
    def writing(self, namespace: str | None, name: str) -> Iterator[None]:
        """Hold the events of the object while it is being written: some can be of this very write.

        The stream is often faster than the reply, and only the reply tells which event is our own.
        """
        held = self._held[namespace, name] = []
        try:
            yield
        finally:
            del self._held[namespace, name]
            released = self._released.pop((namespace, name), None)
            if released is not None:
                released.set()
            for body in held:
                self._tell(object_key(self.resource, body), body)

    def on_event(self, key: ObjectKey, event: RawEvent) -> None:
        body = event["object"]
        self._follow_owners(body)
        self._tell_former_owners(body)
        held = self._held.get(_get_name(body)) if self._held else None
        if event["type"] == "DELETED":
            self._written.pop(key, None)
            self._on_change(self.resource, body, ObservedChange.GONE)
        elif held is not None:
            held.append(body)
        else:
            self._tell(key, body)

    def tell_vanished(self, namespace: str | None) -> None:
        """Report the objects that have vanished without an event of their deletion."""
        store = self.stores.get(namespace)
        if store is not None:
            self._tell_vanished(store)

    def leave(self, namespace: str | None) -> ObjectStore:
        """Observe the namespace no more; return its store."""
        store = self.stores.pop(namespace)
        for key in store:
            self._written.pop(key, None)
        self.unlisted.discard(namespace)
        return store

    def _tell(self, key: ObjectKey, body: RawBody) -> None:
        change = ObservedChange.OURS if self.is_own_echo(key, body) else ObservedChange.OTHERS
        self._on_change(self.resource, body, change)

    def _tell_vanished(self, store: ObjectStore) -> None:
        for body in store.take_vanished():
            self._written.pop(object_key(self.resource, body), None)
            self._follow_owners(body)
            self._on_change(self.resource, body, ObservedChange.GONE)

    def _follow_owners(self, body: RawBody) -> None:
        """Remember in which namespaces the owners have objects, to look only there."""
        namespace = body["metadata"].get("namespace")
        home = namespace if namespace in self.stores else None
        for uid in get_owners(body):
            if home in self.stores and self.stores[home].owns(uid):
                self._homes.setdefault(uid, set()).add(home)
            else:
                self._forget_home(uid, home)

    def _forget_home(self, uid: str, home: str | None) -> None:
        homes = self._homes.get(uid, set())
        homes.discard(home)
        if not homes:
            self._homes.pop(uid, None)

    def _tell_former_owners(self, body: RawBody) -> None:
        """Report the previous state to the owners that have lost the object: the new one names
        others.
        """
        store = self._select(body["metadata"].get("namespace"))
        former = None if store is None else store.former
        if former is None or is_same(former, body):
            return
        if {*get_owners(former)} - {*get_owners(body)}:
            self._follow_owners(former)
            self._on_change(self.resource, former, ObservedChange.OTHERS)

    def is_own_echo(self, key: ObjectKey, body: RawBody) -> bool:
        """Whether the event brings back our own write, which is known already.

        Several writes can be on their way. The writes before this one have come, or will never
        come.
        """
        versions = self._written.pop(key, ())
        version = body["metadata"].get("resourceVersion")
        if version not in versions:
            return False
        left = versions[versions.index(version) + 1 :]
        if left:
            self._written[key] = left
        return True

    def _select(self, namespace: str | None) -> ObjectStore | None:
        store = self.stores.get(namespace)  # not by its truth: it can be empty
        return self.stores.get(None) if store is None else store


class _Watcher:
    """The subscriber that reports all changes, and holds the readiness until all is listed."""

    def __init__(
        self,
        view: KindView,
        namespace: str | None,
        *,
        on_listed: OnListed,
        readiness: Readiness,
    ) -> None:
        self._view = view
        self._namespace = namespace
        self._on_listed = on_listed
        self._readiness = readiness
        readiness.hold(self)
        view.unlisted.add(namespace)

    part = ALL_OBJECTS

    def on_event(self, key: ObjectKey, event: RawEvent) -> None:
        self._view.on_event(key, event)

    def on_listed(self) -> None:
        self._readiness.release(self)
        self._view.unlisted.discard(self._namespace)
        self._view.tell_vanished(self._namespace)
        self._on_listed(self._view.resource)

    def on_reversed(self) -> None:
        self._view.unlisted.add(self._namespace)

    def on_interrupted(self) -> None:
        self._readiness.release(self)

    async def drain(self) -> None:
        """Return at once: all events are taken already."""


class ObservedKinds:
    """The observed kinds and namespaces, adjusted as these come and go."""

    def __init__(
        self,
        *,
        pool: InformerPool,
        selectors: Collection[Selector],
        forms: Forms,
        readiness: Readiness,
        transform: Transform,
        on_change: OnChange,
        on_listed: OnListed,
    ) -> None:
        self._pool = pool
        self._selectors = selectors
        self._forms = forms
        self._readiness = readiness
        self._transform = transform
        self._on_change = on_change
        self._on_listed = on_listed
        self._views: dict[Resource, KindView] = {}
        self._found: dict[tuple[Selector, ...], dict[Resource, Any]] = {}  # a cache
        self._watchers: dict[StreamKey, _Watcher] = {}
        self._broken: Collection[str] = ()
        self._references: dict[tuple[Selector, Hashable], frozenset[Name]] = {}
        self._referenced: dict[Resource, ReferencedView] = {}

    def __contains__(self, key: StreamKey) -> bool:
        return key in self._watchers

    async def adjust(
        self,
        resources: Collection[Resource],
        namespaces: Collection[str | None],
        broken: Collection[str] = (),
    ) -> None:
        """Observe the served kinds, and no others; ``broken`` groups can have more of them.

        In between, no kind looks as if it were listed and empty. Kopf reports the objects that
        it observes no more as gone, unless it lists them in another version of their kind.
        """
        kinds = self._select(resources)
        alone = {res: form for res, form in kinds.items() if self._forms.is_referenced_only(res)}
        wanted = dict.fromkeys(
            StreamKey(resource, namespace if resource.namespaced else None, form=form)
            for resource, form in kinds.items()
            for namespace in namespaces
            if resource not in alone
        )
        scopes = {key.resource: key.resource.namespaced for key in wanted}
        places = {key.place: key for key in wanted}
        lost = [
            await self._leave(key)
            for key in list(self._watchers)
            if key.resource.namespaced != scopes.get(key.resource, key.resource.namespaced)
            or key != places.get(key.place, key)
        ]
        for resource, form in alone.items():
            self._watch_referenced(resource, form, namespaces)
        for key in [key for key in wanted if key not in self._watchers]:
            self._observe(key)
        await self._leave_referenced([res for res in self._referenced if res not in alone])
        self._broken = broken
        lost += [await self._leave(key) for key in [*self._watchers] if key not in wanted]
        for store in lost:
            for body in store.values():
                self._on_change(store.resource, body, ObservedChange.GONE)

    def stop(self) -> None:
        """Request nothing anymore: the operator exits."""
        for view in self._referenced.values():
            view.stop()

    def refer(self, selector: Selector, holder: Hashable, names: frozenset[Name]) -> None:
        """The holder refers to these objects now, by their names."""
        if not self._forms.has_referenced:
            return
        self._references.pop((selector, holder), None)
        if names:
            self._references[selector, holder] = names
        for resource, view in self._referenced.items():
            if selector.check(resource):
                view.refer((selector, holder), names)

    def get_sources(self, selectors: Iterable[Selector]) -> Mapping[Resource, Any]:
        """The views of the served kinds that match these selectors."""
        key = tuple(selectors)
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = {}
            views: Mapping[Resource, Any] = {**self._views, **self._referenced}
            for selector in key:
                found |= {res: views[res] for res in selector.select(views)}
        return found

    def is_undiscovered(self, selector: Selector) -> bool:
        """Whether no such kind is known because the discovery of its API group is broken."""
        if not self._broken or (selector.group is not None and selector.group not in self._broken):
            return False
        return not selector.select({**self._views, **self._referenced})

    def on_interrupted(self, key: StreamKey) -> None:
        """The stream is broken or forbidden for now: do not let the other kinds wait for it."""
        watcher = self._watchers.get(key)
        if watcher is not None:
            watcher.on_interrupted()

    def _select(self, resources: Collection[Resource]) -> Mapping[Resource, Form]:
        """The observed kinds with their forms, always in the same order."""
        found: set[Resource] = set()
        for selector in self._selectors:
            found |= selector.resolve(resources).resources
        return {
            resource: self._forms.choose_observed(resource) for resource in sorted(found, key=str)
        }

    def _watch_referenced(
        self, resource: Resource, form: Form, namespaces: Collection[str | None]
    ) -> None:
        view = self._referenced.get(resource)
        if view is None:
            self._found.clear()
            view = self._referenced[resource] = ReferencedView(
                StreamKey(resource, form=form),
                self._pool,
                transform=self._transform,
                on_change=self._on_change,
                on_listed=self._on_listed,
            )
            for (selector, holder), names in self._references.items():
                if selector.check(resource):
                    view.refer((selector, holder), names)
        view.adjust(namespaces)

    async def _leave_referenced(self, resources: Collection[Resource]) -> None:
        for resource in resources:
            self._found.clear()
            await self._referenced.pop(resource).close()

    def _observe(self, key: StreamKey) -> None:
        self._found.clear()
        view = self._views.setdefault(key.resource, KindView(key.resource, self._on_change))
        watcher = self._watchers[key] = _Watcher(
            view, key.namespace, on_listed=self._on_listed, readiness=self._readiness
        )
        view.stores[key.namespace] = self._pool.acquire_store(key, transform=self._transform)
        self._pool.subscribe(key, watcher)

    async def _leave(self, key: StreamKey) -> ObjectStore:
        """Observe the stream no more; return the objects that are not observed anymore."""
        watcher, view = self._watchers.pop(key), self._views[key.resource]
        self._readiness.release(watcher)
        store = view.leave(key.namespace)
        if not view.stores:
            del self._views[key.resource]
            self._found.clear()
        await self._pool.unsubscribe(key, watcher)
        await self._pool.release_store(key)
        return self._hand_over(key, store)

    def _hand_over(self, key: StreamKey, store: ObjectStore) -> ObjectStore:
        """If the kind is observed in another version, let that view find out which objects are
        gone.

        The store is empty then.
        """
        for resource, view in self._views.items():
            successor = view.stores.get(key.namespace)
            if resource.name == key.resource.name and successor is not None:
                successor.succeed(store)
                view.tell_vanished(key.namespace)
                store.clear()
        return store


def _get_name(body: RawBody) -> Name:
    return body["metadata"].get("namespace"), body["metadata"]["name"]
