"""Applying of one wanted object: if it is not in the cluster exactly so, apply it."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

from kopf_cogs.clients.errors import (
    APIClientError,
    APIConflictError,
    APIForbiddenError,
    APINotFoundError,
    APIServerError,
)
from kopf_cogs.clients.kinds import UnknownKindError
from kopf_cogs.clients.objects import ObjectsAPI
from kopf_cogs.structs.bodies import Body, RawBody
from kopf_cogs.structs.dicts import FieldPath
from kopf_cogs.structs.managedfields import find_drift
from kopf_cogs.structs.resources import Resource
from kopf_cogs.structs.selectors import Selector
from kopf_core.actions.errors import AwaitingError, PermanentError, TemporaryError
from kopf_core.actions.loggers import AnyLogger
from kopf_core.engines.desired.badges import Badges
from kopf_core.engines.desired.doubts import DoubtedChild, Doubts
from kopf_core.engines.desired.driving import PassInterrupted
from kopf_core.engines.desired.fights import Fights
from kopf_core.engines.desired.ownership import (
    Identity,
    find_other_owner,
    get_identity,
    get_owners,
    is_in_reach,
    is_leaving,
    show,
)
from kopf_core.engines.desired.sources import Source
from kopf_core.engines.desired.status_patches import FieldConflictError

UNBLOCKING_DELAY = 60.0
"""How often (in seconds) to look for the awaited objects; usually, a stream tells much earlier."""

UNTOLD = ("metadata", "managedFields")
"""The name of the dropped fields if the server does not tell who has set them: maybe, a webhook."""

KIND_LEAVING = "custom resource definition is terminating"
"""The words of the server about kinds that are going to vanish: there is no other sign of that."""

MAX_NAMED = 3
"""How many changed fields of a child the log names."""

REPEATS_LIMIT = 100
"""How many times one object can be wanted in one pass: more than that looks endless."""


class UndeclaredKindError(Exception):
    """A reconciler wants an object of a kind that is not among its ``owns=``."""

    expected = True


class UnwatchedNamespaceError(Exception):
    """A reconciler wants an object in a namespace which the operator does not serve."""

    expected = True


class FinalizerNeededError(PassInterrupted):
    """The owner needs a finalizer first, as Kubernetes does not garbage-collect the child."""


class NamespaceLeavingError(PassInterrupted):
    """The namespace of the owner is being deleted with all its objects, including the owner."""


class BlockedError(AwaitingError):
    """Another object must change in the cluster first; the pass is repeated when it does."""

    def __init__(self, message: str) -> None:
        super().__init__(message, delay=UNBLOCKING_DELAY)


class _Wish(NamedTuple):
    """A wanted object, with all that is known of it."""

    resource: Resource
    source: Source
    child: dict[str, Any]
    namespace: str | None
    identity: Identity

    @property
    def name(self) -> str:
        return str(self.child["metadata"].get("name") or "")

    def find(self) -> RawBody | None:
        """The object in the cluster, if it exists."""
        return self.source.find(self.namespace, self.name)


@dataclass(slots=True)
class Applier:
    """Applies the objects that one reconciler wants for one owner."""

    api: ObjectsAPI
    owns: Collection[Selector]
    sources: Mapping[Resource, Source]
    badges: Badges
    owner: Body
    reconciler: str
    logger: AnyLogger
    fights: Fights
    doubts: Doubts
    siblings: Collection[str] = ()
    """The other reconcilers of the owner."""

    disturbed: Collection[str] = ()
    """The objects that others have changed or deleted since the previous pass."""

    force: bool = True
    is_held: bool = False
    """Whether the owner has our finalizer."""

    is_far: bool = False
    """Whether any object was applied that Kubernetes does not garbage-collect."""

    wanted: dict[Identity, int] = field(default_factory=dict)
    """The objects that were wanted so far in this pass, each with the number of times."""

    digests: dict[Identity, str] = field(default_factory=dict)
    """The digests of these wishes."""

    unseen: set[Any] = field(default_factory=set)
    """The kinds and names of other wanted objects, which could not be looked at."""

    awaited: dict[Identity, tuple[_Wish, RawBody]] = field(default_factory=dict)
    """The objects that must be gone or change hands before the wanted ones can be applied."""

    warning: str = ""
    """The warning for people who look after the owner."""

    async def apply(self, body: Mapping[str, Any]) -> RawBody:
        """Bring the object to the wanted state; return it as it is in the cluster.

        Raises :class:`UndeclaredKindError`, :class:`BlockedError`, and other errors that explain
        what is wrong. Raises the errors of the API if it refuses.
        """
        try:
            wish = await self._look_up(body)
        except Exception:
            self.unseen.add((body.get("kind"), (body.get("metadata") or {}).get("name")))
            raise
        await wish.source.wait_for_others(wish.namespace, wish.name)
        # From here to the request, there is no ``await``: the state that is seen cannot change.
        child, identity, live = wish.child, wish.identity, wish.find()
        if live is not None and is_leaving(live):
            self.awaited[identity] = wish, live
            return live  # nothing can hold the owner; when it is gone, there will be another pass
        if live is not None:
            self._check_hands(wish, live)
            if self._is_unchanged(body, wish, live):
                return live
        ignored = self.fights.get_unkept(identity, self.badges.get_digest(child))
        drift = (
            ()
            if live is None
            else find_drift(child, live, manager=self.api.manager, ignored=ignored)
        )
        if drift is None and live is not None:
            return live
        with wish.source.writing(wish.namespace, wish.name):
            stored = await self._send_for_sure(wish)
            wish.source.put(stored)
        self._check_fight(identity, child, live, ".".join(drift or ()))  # only if it has changed
        causes = self._name_causes(child, live, ignored) if live is not None and drift else ""
        self.logger.info(f"Applied {show(stored)}" + (f": {causes}." if causes else "."))
        self._check_kept(identity, child, stored)
        return stored

    def _is_unchanged(self, body: Mapping[str, Any], wish: _Wish, live: RawBody) -> bool:
        """Whether the function yields back its own child as it is in the cluster.

        If it was applied, the operator would take the fields of others, e.g. defaults of servers.
        """
        version = (body.get("metadata") or {}).get("resourceVersion")
        if version is None or version != live["metadata"].get("resourceVersion"):
            return False
        if self.badges.get_reconciler(live) != self.reconciler:
            return False
        uid = self.owner.metadata.uid or ""
        if uid not in get_owners(live) and not self.badges.is_out_of_reach(live, uid):
            return False
        same = self._dress(wish.resource, live)
        return self.badges.get_digest(same) == self.badges.get_digest(wish.child)

    def _name_causes(
        self, child: Mapping[str, Any], live: RawBody, ignored: Collection[FieldPath]
    ) -> str:
        """Name the fields to apply, for people: the digest changes with any of them."""
        found: list[str] = []
        seen = {*ignored, self.badges.digest_path}
        while field := find_drift(child, live, manager=self.api.manager, ignored=seen):
            if len(found) == MAX_NAMED:
                return f"{', '.join(found)}, and others"
            found.append(".".join(field))
            seen.add(field)
        return ", ".join(found)

    def is_unblocked(self) -> bool:
        """Whether an awaited object has already changed while the pass was going on."""
        return any(wish.find() is not seen for wish, seen in self.awaited.values())

    def is_wanted(self, resource: Resource, body: RawBody) -> bool:
        """Whether the object is wanted in this pass, or can be."""
        if get_identity(resource, body) in self.wanted:
            return True
        name = body["metadata"].get("name")
        defaults = (None, name) if name == self.owner.metadata.name else (name,)
        return any((resource.kind, default) in self.unseen for default in defaults)

    async def _look_up(self, body: Mapping[str, Any]) -> _Wish:
        """Find the exact object that is wanted, and its source."""
        resource = await self._resolve(body)
        child = self._dress(resource, body)
        namespace = child["metadata"].get("namespace") if resource.namespaced else None
        source = self._find_source(resource, child, namespace)
        self._check_reach(namespace)
        return _Wish(resource, source, child, namespace, self._want(resource, child))

    def _dress(self, resource: Resource, body: Mapping[str, Any]) -> dict[str, Any]:
        """Make the object to be applied of the yielded one."""
        body = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
        if "status" in resource.subresources:
            body.pop("status", None)  # in manifests of tools, it is a form without content
        return self.badges.put_on(
            body,
            self.owner,
            namespaced=bool(resource.namespaced),
            reconciler=self.reconciler,
        )

    async def _resolve(self, body: Mapping[str, Any]) -> Resource:
        try:
            return await self.api.kinds.resolve_body(body)
        except UnknownKindError as e:
            raise BlockedError(f"{show(body)} must wait until its kind is served: {e}") from e

    def _find_source(
        self, resource: Resource, child: Mapping[str, Any], namespace: str | None
    ) -> Source:
        for known, source in self.sources.items():
            if (known.group, known.plural) == (resource.group, resource.plural):
                if not source.is_observed:
                    break  # it was when the pass began
                if not source.covers(namespace):
                    raise UnwatchedNamespaceError(
                        f"{show(child)} is wanted in a namespace which the operator does not "
                        f"serve: run it with --namespace={namespace}, too, if it is there at all."
                    )
                if not source.is_synced_in(namespace):
                    raise BlockedError(f"{show(child)} must wait until {resource.name} are listed.")
                return source
        if any(selector.check(resource) for selector in self.owns):
            raise BlockedError(f"{show(child)} must wait until {resource.name} are watched.")
        raise UndeclaredKindError(
            f"{show(child)} is wanted, but its kind is not declared: "
            f"add {resource.name!r} to owns=."
        )

    def _check_reach(self, namespace: str | None) -> None:
        if not is_in_reach(self.owner, namespace):
            if not self.is_held:
                raise FinalizerNeededError()
            self.is_far = True

    def _want(self, resource: Resource, child: Mapping[str, Any]) -> Identity:
        identity = get_identity(resource, child)
        count = self.wanted[identity] = self.wanted.get(identity, 0) + 1
        if count > REPEATS_LIMIT:
            raise PermanentError(
                f"{show(child)} is wanted more than {REPEATS_LIMIT} times in one pass: "
                f"the function must come to its end."
            )
        digest = self.badges.get_digest(child)
        if self.digests.setdefault(identity, digest) != digest:
            raise PermanentError(
                f"{show(child)} is wanted twice in one pass, and not the same: "
                f"let it be yielded once, with all that it must have."
            )
        return identity

    def _check_hands(self, wish: _Wish, live: RawBody) -> None:
        """Refuse to take the object from other owners, or from other reconcilers of this owner."""
        uid = self.owner.metadata.uid or ""
        other = find_other_owner(live, uid)
        if other is not None:
            self.awaited[wish.identity] = wish, live
            text = f"{show(live)} belongs to {other}, and is not taken from it."
            raise TemporaryError(text, delay=UNBLOCKING_DELAY)
        reconciler = self.badges.get_reconciler(live)
        if reconciler in self.siblings and uid in get_owners(live):
            raise PermanentError(
                f"{show(live)} is wanted by two reconcilers: {reconciler!r} and "
                f"{self.reconciler!r}. Let only one of them yield it."
            )

    async def _send_for_sure(self, wish: _Wish) -> RawBody:
        """Apply the object. If it could outlive its owner, remember it until there is an answer.

        Only a successful answer shows whether the object exists: the requests can be repeated.
        """
        if is_in_reach(self.owner, wish.namespace):
            return await self._send(wish)
        uid = self.owner.metadata.uid or ""
        doubted = DoubtedChild(wish.source, wish.namespace, wish.name)
        self.doubts.add(uid, doubted)
        stored = await self._send(wish)
        self.doubts.discard(uid, doubted)
        return stored

    async def _send(self, wish: _Wish) -> RawBody:
        child = wish.child
        try:
            live = await self.api.apply(child, kind=wish.resource, force=self.force)
            return cast(RawBody, live)
        except APIConflictError as e:
            if self.force:
                raise
            causes = [f"{cause.get('field')}: {cause.get('message')}" for cause in e.causes]
            self.warning = f"{show(child)} is also managed by others: {'; '.join(causes) or e}"
            raise FieldConflictError(self.warning) from e
        except APINotFoundError as e:
            if e.details.get("name"):
                raise
            raise self._await_kind(wish, e) from e
        except APIForbiddenError as e:
            if KIND_LEAVING in (e.message or ""):
                raise self._await_kind(wish, e) from e
            is_leaving = any(cause.get("reason") == "NamespaceTerminating" for cause in e.causes)
            if is_leaving and wish.namespace == self.owner.metadata.namespace:
                raise NamespaceLeavingError() from e
            raise
        except (APIClientError, APIServerError) as e:
            if wish.name in (e.message or ""):
                raise
            raise e.about(show(child)) from e

    def _await_kind(self, wish: _Wish, exc: Exception) -> BlockedError:
        """Make the error for an object whose kind is not served, or is about to vanish."""
        self.unseen.add((wish.resource.kind, wish.name))
        return BlockedError(f"{show(wish.child)} must wait until its kind is served: {exc}")

    def _check_fight(
        self, identity: Any, child: Mapping[str, Any], live: RawBody | None, drift: str
    ) -> None:
        """Check whether others change the object back each time, or delete it."""
        text = f"{show(child)} is deleted by others all the time"
        if live is not None:
            managers = _name_managers(live, self.api.manager)
            text = (
                f"{show(child)} is changed back by others all the time: "
                f"its field {drift!r} ({managers})"
            )
            is_undone = bool(drift) and self.badges.is_same_wish(child, live)
        else:
            is_undone = show(child) in self.disturbed
        if not is_undone:
            self.fights.forget(identity)  # our own wish has changed
        elif self.fights.count(identity):
            self.warning = text
            self.logger.warning(f"{self.warning}. It will be applied less often.")

    def _check_kept(self, identity: Any, child: Mapping[str, Any], stored: RawBody) -> None:
        """Check whether the server has not stored some of the fields: it is useless to send them
        again.
        """
        unkept: set[tuple[str, ...]] = set()
        while len(unkept) < REPEATS_LIMIT:
            drift = find_drift(child, stored, manager=self.api.manager, ignored=unkept)
            if drift is None or drift in unkept:
                break
            unkept.add(drift)
        if self.fights.keep_unkept(identity, self.badges.get_digest(child), frozenset(unkept)):
            fields = ", ".join(sorted(".".join(path or UNTOLD) for path in unkept))
            self.logger.warning(
                f"{show(child)} is not stored as it was applied: {fields}. The server drops or "
                f"changes these fields: they can be absent in its schema, or set by a webhook."
            )


def _name_managers(live: RawBody, ours: str) -> str:
    metadata: Mapping[str, Any] = live["metadata"]
    entries = metadata.get("managedFields") or ()
    names = {str(entry.get("manager")) for entry in entries} - {ours}
    return "managers: " + ", ".join(sorted(names)) if names else "the managers are unknown"
