"""Other people in simulated lives: what they do with objects, and what they put into these."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

from e2e.simulation.clusters import REFUSALS, Cluster
from e2e.simulation.plans import Event
from kopf_core.intents.pauses import PAUSED

NOTE, GUARD = "people.example/note", "people.example/guard"
OWN = "sim.kopf.dev/"
"""How the annotations of the simulated operators begin."""


class People:
    """Everybody but the operators. It is remembered what they have put into the objects."""

    def __init__(
        self, cluster: Cluster, tell: Callable[[str], None], clock: Callable[[], float]
    ) -> None:
        self._cluster = cluster
        self._tell = tell
        self._clock = clock
        self.strips: list[tuple[float, str]] = []
        """When they have removed the marks of operators, and from which objects: by their uids."""

        self.wanted: dict[str, dict[str, Any]] = {}
        """By the uids of objects, what people have last put into them."""

        self.done: collections.Counter[str] = collections.Counter()
        """How many times they did what; without what the cluster has refused."""

        self.problems: list[str] = []

    async def act(self, event: Event) -> None:
        self._tell(f"people: {event.what} {event.name} {event.number}")
        try:
            await getattr(self, f"_do_{event.what.replace('-', '_')}")(event)
            self.done[event.what] += 1
        except REFUSALS as e:
            self._tell(f"people: refused: {e}")

    async def leave(self) -> None:
        """Take away what keeps the operators from their work."""
        for obj in await self._cluster.list("kexes"):
            name, meta = obj["metadata"]["name"], obj["metadata"]
            if GUARD in (meta.get("finalizers") or []):  # it can come with a backup, too
                await self.act(Event(0, "unguard", name))
            if PAUSED in (meta.get("annotations") or {}):
                await self.act(Event(0, "unhold", name))

    async def check(self) -> list[str]:
        """What is not as people have left it. Nobody else has the right to change that."""
        problems = [*self.problems]
        for obj in await self._cluster.list("kexes"):
            meta = obj["metadata"]
            wanted = self.wanted.get(meta["uid"], {})
            annotations, labels = meta.get("annotations") or {}, meta.get("labels") or {}
            actual = {"x": obj["spec"].get("x"), "label": labels.get("label"),
                      "note": annotations.get(NOTE)}  # fmt: skip
            problems += [
                f"O10: {meta['name']} has {name}={actual[name]} instead of {wanted[name]}"
                for name in actual
                if name in wanted and wanted[name] != actual[name]
            ]
        return problems

    async def _find(self, name: str) -> dict[str, Any]:
        for obj in await self._cluster.list("kexes"):
            if obj["metadata"]["name"] == name:
                return obj
        raise LookupError(name)

    async def _put(self, event: Event, patch: dict[str, Any], **wanted: Any) -> None:
        uid = (await self._find(event.name))["metadata"]["uid"]
        await self._cluster.patch("kexes", event.name, patch)
        self.wanted.setdefault(uid, {}).update(wanted)

    async def _do_create(self, event: Event) -> None:
        await self._cluster.create(event.name, {"x": event.number})

    async def _do_edit(self, event: Event) -> None:
        await self._put(event, {"spec": {"x": event.number}}, x=event.number)

    async def _do_label(self, event: Event) -> None:
        label = str(event.number)
        await self._put(event, {"metadata": {"labels": {"label": label}}}, label=label)

    async def _do_annotate(self, event: Event) -> None:
        note = str(event.number)
        await self._put(event, {"metadata": {"annotations": {NOTE: note}}}, note=note)

    async def _do_status(self, event: Event) -> None:
        await self._cluster.set_status(event.name, {"foreign": event.number})

    async def _do_delete(self, event: Event) -> None:
        await self._cluster.delete(event.name)

    async def _do_recreate(self, event: Event) -> None:
        await self._cluster.delete(event.name)
        await self._do_create(event)

    async def _do_edit_child(self, event: Event) -> None:
        await self._cluster.patch("configmaps", f"{event.name}-0", {"data": {"x": "foreign"}})

    async def _do_delete_child(self, event: Event) -> None:
        await self._cluster.delete(f"{event.name}-0", plural="configmaps")

    # Finalizers of others: objects stay though they are released.

    async def _do_guard(self, event: Event) -> None:
        finalizers = (await self._find(event.name))["metadata"].get("finalizers") or []
        patch = {"metadata": {"finalizers": [*finalizers, GUARD]}}
        await self._put(event, patch, guard=True)

    async def _do_guarded_delete(self, event: Event) -> None:
        await self._do_guard(event)
        await self._do_delete(event)

    async def _do_unguard(self, event: Event) -> None:
        obj = await self._find(event.name)
        finalizers = obj["metadata"].get("finalizers") or []
        if GUARD in finalizers:
            patch = {"metadata": {"finalizers": [one for one in finalizers if one != GUARD]}}
            await self._put(event, patch, guard=False)
        elif self.wanted.get(obj["metadata"]["uid"], {}).get("guard"):
            self.problems.append(f"O10: the finalizer of others is gone from {event.name}")

    # Pauses of objects, and the loss of marks.

    async def _do_hold(self, event: Event) -> None:
        await self._put(event, {"metadata": {"annotations": {PAUSED: "by people"}}})

    async def _do_unhold(self, event: Event) -> None:
        await self._put(event, {"metadata": {"annotations": {PAUSED: None}}})

    async def _do_strip(self, event: Event) -> None:
        """Replace the object by what is in a repository: it has no marks of operators."""
        meta = (await self._find(event.name))["metadata"]
        annotations = meta.get("annotations") or {}
        self.strips.append((self._clock(), meta["uid"]))
        marks = {name: None for name in annotations if name.startswith(OWN)}
        await self._put(event, {"metadata": {"annotations": marks}})
