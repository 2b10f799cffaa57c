"""Migrations of stored objects to the storage version, so that older versions can be removed.

The API server writes objects in the storage version, but only when clients change them. All other
objects remain as they were stored. ``status.storedVersions`` of the definition names the versions
that can still be there.

All state of a migration is in the cluster, so users can kill and restart the migration.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kopf_cogs.clients.errors import (
    APIConflictError,
    APIError,
    APIForbiddenError,
    APIGoneError,
    APINotFoundError,
)
from kopf_cogs.clients.patching import MERGE_PATCH
from kopf_cogs.clients.rights import hint_at_role
from kopf_cogs.clients.session import Client
from kopf_cogs.structs.resources import CRDS
from kopf_kits.definitions.comparing import find_lost_fields, is_converted
from kopf_kits.definitions.errors import DefinitionError
from kopf_kits.definitions.managers import rename_versions
from kopf_kits.definitions.migrators import ClusterMigrator, find_migrator
from kopf_kits.definitions.stored import METADATA, get_url, list_stored

Obj = dict[str, Any]
Report = Callable[[str], None]

AT_ONCE: Final = 8
"""How many objects Kopf rewrites at once: the cluster has other things to do."""

ATTEMPTS: Final = 10
"""How many times Kopf tries one object if other clients change it at the same time."""

PASSES: Final = 5
MAX_FAILURES: Final = 20
"""Kopf stops then: not the objects are the cause of so many failures, but e.g. the webhook."""


class MigrationError(DefinitionError):
    """The objects are not migrated, or not all of them; nothing is lost."""


@dataclass(frozen=True, slots=True)
class Record:
    """The data of an object that its rewriting needs."""

    namespace: str | None
    name: str
    uid: str
    version: str
    managers: list[Obj] | None
    """The new ``managedFields``; ``None`` if they must remain as they are."""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind with its definition of the moment."""

    definition: Obj

    @property
    def name(self) -> str:
        return str(self.definition["metadata"]["name"])

    @property
    def group(self) -> str:
        return str(self.definition["spec"]["group"])

    @property
    def plural(self) -> str:
        return str(self.definition["spec"]["names"]["plural"])

    @property
    def storage(self) -> str:
        versions = self.definition["spec"]["versions"]
        return str(next(version["name"] for version in versions if version.get("storage")))

    @property
    def stored(self) -> list[str]:
        """The versions in which there can be objects."""
        return list((self.definition.get("status") or {}).get("storedVersions") or [])

    @property
    def served(self) -> set[str]:
        versions = self.definition["spec"]["versions"]
        return {str(version["name"]) for version in versions if version.get("served")}

    @property
    def lost(self) -> dict[str, list[str]]:
        """The fields that the API server drops when it rewrites objects, by the older version."""
        if is_converted(self.definition):
            return {}
        versions = {version["name"]: version for version in self.definition["spec"]["versions"]}
        found = {
            name: find_lost_fields(versions[name], versions[self.storage])
            for name in self.stored
            if name in versions
        }
        return {name: fields for name, fields in found.items() if fields}

    def record(self, obj: Obj) -> Record:
        meta = obj["metadata"]
        managers = rename_versions(
            meta.get("managedFields") or (), self.group, self.served, self.storage
        )
        return Record(
            meta.get("namespace"), meta["name"], meta["uid"], meta["resourceVersion"], managers
        )

    def locate(self, record: Record) -> str:
        place = f"/namespaces/{record.namespace}" if record.namespace else ""
        return f"{get_url(self.definition)}{place}/{self.plural}/{record.name}"


@dataclass(slots=True)
class Migration:
    """The plan of the migration of a kind, and its results."""

    kind: Kind
    records: Sequence[Record]
    migrator: ClusterMigrator | None
    """The migrator of the cluster, if the cluster serves its API."""

    is_unfinished: bool = False
    """Whether an earlier run has left a request to the cluster, with no time to verify it."""

    rewritten: int = 0
    renamed: int = 0
    """In how many objects ``managedFields`` were moved to the storage version."""

    done_by: str | None = None
    """``cluster`` or ``kopf``."""

    problems: list[str] = field(default_factory=list)

    @property
    def stale(self) -> Sequence[Record]:
        """The objects with ``managedFields`` of versions that are not served."""
        return [record for record in self.records if record.managers is not None]

    @property
    def is_rewriting_needed(self) -> bool:
        return self.kind.stored != [self.kind.storage] or self.is_unfinished

    @property
    def is_needed(self) -> bool:
        return self.is_rewriting_needed or bool(self.stale)


async def plan_migration(client: Client, name: str, *, with_cluster: bool = True) -> Migration:
    """Plan the migration of the kind with this name of the definition. Nothing is changed.

    Raises :class:`MigrationError` if there is no such definition, and :class:`APIError`.
    """
    kind = Kind(await _read(client, name))
    if not kind.served:
        raise MigrationError(f"No version of {name} is served, so its objects cannot be read.")
    migrator = await find_migrator(client, kind.definition) if with_cluster else None
    is_unfinished = migrator is not None and await _has_request(migrator)
    return Migration(kind, await _list(client, kind), migrator, is_unfinished)


async def migrate(client: Client, migration: Migration, patience: float, report: Report) -> None:
    """Rewrite the objects, and then drop the other versions from the definition.

    ``patience`` is how long (in seconds) the migrator of the cluster may show no progress.
    Refused objects are in ``problems``; then, Kopf does not drop the versions.
    Raises :class:`MigrationError` and :class:`APIError`.
    """
    if migration.stale:  # first: with such marks, the cluster cannot apply anything
        await _rewrite_all(client, migration, migration.stale)
    if migration.is_rewriting_needed and not migration.problems:
        await _rewrite_by_anyone(client, migration, patience, report)
    if migration.problems:
        return
    if migration.is_rewriting_needed:
        await _drop_versions(client, migration.kind)
    if migration.migrator is not None and migration.is_rewriting_needed:
        await _forget(migration.migrator)


async def _rewrite_by_anyone(
    client: Client, migration: Migration, patience: float, report: Report
) -> None:
    if migration.migrator is not None:
        report("The cluster is asked to migrate the objects by itself.")
        reason = await migration.migrator.run(patience)
        if reason is None:
            migration.done_by = "cluster"
            return
        report(f"The cluster has not done it: {reason.rstrip('.')}. Kopf does.")
    migration.done_by = "kopf"
    await _rewrite_until_clean(client, migration, report)


async def _rewrite_until_clean(client: Client, migration: Migration, report: Report) -> None:
    """Repeat until a pass finds no object to rewrite: only then, no older object is left.

    Some API servers can still write the older version for seconds after the definition is changed.
    """
    for _ in range(PASSES):
        records = await _list(client, migration.kind)
        report(f"Rewriting {len(records)} object{'s' if len(records) != 1 else ''} ...")
        if not await _rewrite_all(client, migration, records) or migration.problems:
            return
    raise MigrationError(
        f"There are still objects of {migration.kind.name} in other versions than "
        f"{migration.kind.storage}, after {PASSES} passes. Do all API servers know the definition?"
    )


async def _rewrite_all(client: Client, migration: Migration, records: Collection[Record]) -> int:
    """Rewrite the objects; get how many of them were not in the storage version."""
    left, before = list(records), migration.rewritten
    while left and len(migration.problems) < MAX_FAILURES:
        batch, left = left[:AT_ONCE], left[AT_ONCE:]
        await asyncio.gather(*(_try_to_rewrite(client, migration, record) for record in batch))
    if left:
        migration.problems.append(f"{len(left)} more objects are not tried after that.")
    return migration.rewritten - before


async def _try_to_rewrite(client: Client, migration: Migration, record: Record) -> None:
    try:
        is_rewritten = await _rewrite(client, migration.kind, record)
    except APIError as e:
        hint = hint_at_role(e) if isinstance(e, APIForbiddenError) else ""
        migration.problems.append(f"{migration.kind.plural} {record}: {e}{hint}")
        return
    migration.rewritten += is_rewritten
    migration.renamed += is_rewritten and record.managers is not None


async def _rewrite(client: Client, kind: Kind, record: Record) -> bool:
    """Patch the object with no changes: this is enough for the API server to store it anew.

    The API server does so only if the stored bytes differ, i.e. with another version in them.
    The patch is only for the state that Kopf knows, so only this patch makes a new state.
    """
    url, uid = kind.locate(record), record.uid
    for _ in range(ATTEMPTS):
        meta: Obj = {"uid": uid, "resourceVersion": record.version}
        if record.managers is not None:
            meta["managedFields"] = record.managers
        try:
            found = await client.patch(
                url,
                {"metadata": meta},
                content_type=MERGE_PATCH,
                accept=METADATA.format("PartialObjectMetadata"),
                params={"fieldManager": "kopf"},
            )
        except APINotFoundError:
            return False
        except APIConflictError as e:
            conflict = e
        else:
            return bool(found["metadata"]["resourceVersion"] != record.version)
        try:
            record = kind.record(await client.get(url))
        except APINotFoundError:
            return False
        if record.uid != uid:
            return False  # this is a new object, so it is in the storage version
    raise conflict


async def _list(client: Client, kind: Kind) -> list[Record]:
    """List all objects before their rewriting: meanwhile, the next pages would expire."""
    listing = list_stored(client, kind.definition, only_metadata=True)
    try:
        return [kind.record(obj) async for obj in listing]
    except APIGoneError:
        listing = list_stored(client, kind.definition, only_metadata=True)
        return [kind.record(obj) async for obj in listing]


async def _drop_versions(client: Client, kind: Kind) -> None:
    """Leave only the storage version in the status, unless the definition has changed by now."""
    url = CRDS.get_url(name=kind.name)
    for _ in range(ATTEMPTS):
        now = Kind(await _read(client, kind.name))
        meta = {name: now.definition["metadata"][name] for name in ("uid", "resourceVersion")}
        is_other = meta["uid"] != kind.definition["metadata"]["uid"] or now.storage != kind.storage
        if is_other or not {*now.stored} <= {*kind.stored}:
            raise MigrationError(f"{kind.name} is changed during the migration: start it again.")
        if now.stored == [kind.storage]:
            return
        patch = {"metadata": meta, "status": {"storedVersions": [kind.storage]}}
        try:
            await client.patch(f"{url}/status", patch, content_type=MERGE_PATCH)
        except APIConflictError as e:
            conflict = e
        else:
            return
    raise conflict


async def _read(client: Client, name: str) -> Obj:
    try:
        found: Obj = await client.get(CRDS.get_url(name=name))
    except APINotFoundError:
        raise MigrationError(
            f"There is no definition {name}: only objects of custom kinds can be migrated."
        ) from None
    return found


async def _has_request(migrator: ClusterMigrator) -> bool:
    try:
        return await migrator.get() is not None
    except APIError:
        return False


async def _forget(migrator: ClusterMigrator) -> None:
    """Remove the request. A failure is harmless: after the migration, the request does nothing."""
    try:
        await migrator.forget()
    except APIError:
        pass
