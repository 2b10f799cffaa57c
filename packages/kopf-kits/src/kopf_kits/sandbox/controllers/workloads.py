"""Workloads that become ready by themselves, as with the controllers and nodes of a cluster.

There are no pods behind them and nothing runs: only the statuses are as if everything went well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from kopf_kits.sandbox.base.statuses import StatusError
from kopf_kits.sandbox.store.resources import Endpoint, Registry
from kopf_kits.sandbox.store.storage import Change, Key
from kopf_kits.sandbox.store.writeoptions import WriteOptions
from kopf_kits.sandbox.verbs.writes import Writer

Obj = dict[str, Any]
Complete = Callable[[Obj, str], Obj]


class Workloads:
    """Makes deployments, replica sets, stateful sets, daemon sets, jobs, and pods ready."""

    def __init__(self, registry: Registry, writer: Writer) -> None:
        self._registry = registry
        self._writer = writer
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Look after all workloads from now on, including the existing ones."""
        for name in COMPLETIONS:
            endpoint = self._registry.find(name)
            endpoint.resource.store.listeners.append(self._make_listener(endpoint))
            for key in list(endpoint.resource.store.objects):
                self._schedule(endpoint, key)

    async def complete(self, endpoint: Endpoint, key: Key) -> Obj:
        """Make the status of the object as if everything went well; get the object."""
        complete = COMPLETIONS.get(endpoint.resource.qualified)
        if complete is None:
            raise LookupError(f"The sandbox does not know when {endpoint.resource} are ready.")

        def modify(obj: Obj) -> Obj:
            completed = complete(obj, endpoint.nature.now())
            return {**obj, "status": {**(obj.get("status") or {}), **completed}}

        stored = await self._writer.update(endpoint, key, "status", modify, WriteOptions())
        return stored.obj

    def _make_listener(self, endpoint: Endpoint) -> Callable[[Change], None]:
        def listen(change: Change) -> None:
            if change.type != "DELETED":
                self._schedule(endpoint, change.now.key)

        return listen

    def _schedule(self, endpoint: Endpoint, key: Key) -> None:
        task = asyncio.get_running_loop().create_task(self._settle(endpoint, key))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _settle(self, endpoint: Endpoint, key: Key) -> None:
        stored = endpoint.resource.store.get(key)
        if stored is None:
            return
        obj, complete = stored.obj, COMPLETIONS[endpoint.resource.qualified]
        status = obj.get("status") or {}
        completed = complete(obj, endpoint.nature.now())
        if any(status.get(k) != v for k, v in completed.items() if k not in _TIMED):
            try:
                await self.complete(endpoint, key)
            except StatusError:
                return  # it is gone, or its newer change brings it here again


_TIMED = frozenset({"conditions", "startTime", "completionTime"})
"""The fields with times in them: the comparison skips them."""


def _condition(type: str, reason: str, time: str) -> Obj:
    return {
        "type": type,
        "status": "True",
        "reason": reason,
        "message": "",
        "lastTransitionTime": time,
        "lastUpdateTime": time,
    }


def _replicas(obj: Obj) -> int:
    replicas = (obj.get("spec") or {}).get("replicas")
    return 1 if replicas is None else int(replicas)


def _observed(obj: Obj) -> Obj:
    return {"observedGeneration": obj["metadata"].get("generation", 1)}


def _deployment(obj: Obj, time: str) -> Obj:
    replicas = _replicas(obj)
    counts = ("replicas", "readyReplicas", "updatedReplicas", "availableReplicas")
    conditions = [
        _condition("Available", "MinimumReplicasAvailable", time),
        _condition("Progressing", "NewReplicaSetAvailable", time),
    ]
    return {**dict.fromkeys(counts, replicas), **_observed(obj), "conditions": conditions}


def _replicaset(obj: Obj, time: str) -> Obj:
    counts = ("replicas", "readyReplicas", "fullyLabeledReplicas", "availableReplicas")
    return {**dict.fromkeys(counts, _replicas(obj)), **_observed(obj)}


def _statefulset(obj: Obj, time: str) -> Obj:
    counts = (
        "replicas",
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
    )
    return {**dict.fromkeys(counts, _replicas(obj)), **_observed(obj)}


def _daemonset(obj: Obj, time: str) -> Obj:
    counts = (
        "currentNumberScheduled",
        "desiredNumberScheduled",
        "numberAvailable",
        "numberReady",
        "updatedNumberScheduled",
    )
    return {**dict.fromkeys(counts, 1), "numberMisscheduled": 0, **_observed(obj)}


def _job(obj: Obj, time: str) -> Obj:
    completions = (obj.get("spec") or {}).get("completions")
    conditions = [
        _condition("SuccessCriteriaMet", "CompletionsReached", time),
        _condition("Complete", "CompletionsReached", time),
    ]
    for condition in conditions:
        condition["lastProbeTime"] = condition.pop("lastUpdateTime")
    return {
        "succeeded": 1 if completions is None else int(completions),
        "startTime": time,
        "completionTime": time,
        "conditions": conditions,
    }


def _pod(obj: Obj, time: str) -> Obj:
    containers = (obj.get("spec") or {}).get("containers") or ()
    statuses = [
        {
            "name": container.get("name"),
            "image": container.get("image", ""),
            "imageID": "",
            "ready": True,
            "restartCount": 0,
            "started": True,
        }
        for container in containers
    ]
    names = ("Initialized", "Ready", "ContainersReady", "PodScheduled")
    conditions = [{"type": t, "status": "True", "lastTransitionTime": time} for t in names]
    return {
        "phase": "Running",
        "startTime": time,
        "conditions": conditions,
        "containerStatuses": statuses,
    }


COMPLETIONS: Mapping[str, Complete] = {
    "deployments.apps": _deployment,
    "replicasets.apps": _replicaset,
    "statefulsets.apps": _statefulset,
    "daemonsets.apps": _daemonset,
    "jobs.batch": _job,
    "pods": _pod,
}
"""The statuses of ready objects, by the qualified names of their resources."""
