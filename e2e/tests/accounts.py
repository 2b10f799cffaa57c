"""Service accounts in a real cluster: with exactly the rights of our manifests, or with less."""

from __future__ import annotations

import asyncio
import copy
import json
import logging
import pathlib
from typing import Any

import yaml

from e2e.clusters import Cluster
from e2e.tests.harness import GROUP, PATIENCE, World

ROLES = "/apis/rbac.authorization.k8s.io/v1"
MANIFESTS = pathlib.Path(__file__).parents[2] / "deploy" / "rbac"
URLS = {
    "ServiceAccount": "/api/v1/namespaces/{ns}/serviceaccounts",
    "Role": ROLES + "/namespaces/{ns}/roles",
    "RoleBinding": ROLES + "/namespaces/{ns}/rolebindings",
    "ClusterRole": ROLES + "/clusterroles",
    "ClusterRoleBinding": ROLES + "/clusterrolebindings",
}

Obj = dict[str, Any]


class Account:
    """A service account made by a manifest, and a kubeconfig of it."""

    def __init__(
        self, world: World, cluster: Cluster, manifest: str, folder: pathlib.Path, *more: str
    ) -> None:
        self.world = world
        self._cluster = cluster
        text = (MANIFESTS / f"{manifest}.yaml").read_text(encoding="utf-8")
        text = text.replace("my-namespace", world.namespace)
        text = text.replace("my-operator", f"operator-{world.namespace}")
        text = text.replace("[example.com]", f"[{GROUP}]")
        text = text.replace("[websites]", json.dumps(["kexes", *more]))
        text = text.replace("[websites/status]", json.dumps([f"{name}/status" for name in more]))
        self._objects: list[Obj] = list(yaml.safe_load_all(text))
        self._role: Obj = next(obj for obj in self._objects if obj["kind"].endswith("Role"))
        self.token_path = folder / "token"
        self.kubeconfig_path = folder / "kubeconfig"

    @property
    def name(self) -> str:
        return f"operator-{self.world.namespace}"

    def _url(self, kind: str) -> str:
        return URLS[kind].format(ns=self.world.namespace)

    def extend(self, rules: list[Obj]) -> None:
        """Grant something else, too."""
        self._role["rules"] += rules

    async def create(self) -> None:
        for obj in self._objects:
            await self.world.request("POST", self._url(obj["kind"]), obj)
        self.token_path.write_text(await self.request_token())
        config = copy.deepcopy(self._cluster.kubeconfig)
        config["users"][0]["user"] = {"tokenFile": str(self.token_path)}
        self.kubeconfig_path.write_text(json.dumps(config))

    async def delete(self) -> None:
        for obj in reversed(self._objects):
            await self.world.request(
                "DELETE", f"{self._url(obj['kind'])}/{obj['metadata']['name']}"
            )

    async def request_token(self, secret: Obj | None = None) -> str:
        """A new token; if it is of a secret, it is revoked when the secret is deleted."""
        spec: Obj = {"expirationSeconds": 600}
        if secret is not None:
            meta = secret["metadata"]
            spec["boundObjectRef"] = {
                "apiVersion": "v1",
                "kind": "Secret",
                "name": meta["name"],
                "uid": meta["uid"],
            }
        url = f"{self._url('ServiceAccount')}/{self.name}/token"
        answer = await self.world.request("POST", url, {"spec": spec})
        token: str = answer["status"]["token"]
        return token

    async def restrict(self, verb: str, *resources: str) -> None:
        """Take one right away."""
        rules = copy.deepcopy(self._role["rules"])
        for rule in rules:
            if {*resources} & {*rule["resources"]}:
                rule["verbs"].remove(verb)
        await self._set_rules([rule for rule in rules if rule["verbs"]])

    async def restore(self) -> None:
        """Give all the rights back."""
        await self._set_rules(self._role["rules"])

    async def _set_rules(self, rules: list[Obj]) -> None:
        url = f"{self._url(self._role['kind'])}/{self._role['metadata']['name']}"
        await self.world.request("PATCH", url, {"rules": rules}, "application/merge-patch+json")


REVIEW = "The operator lacks rights"
"""What is said of all rights at once; besides, of each of them when it is refused."""


class Messages(logging.Handler):
    """What the framework says, which can be waited for."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self._records: list[logging.LogRecord] = []
        self._changed = asyncio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self._records.append(record)
        self._changed.set()

    def find(self, text: str = "", level: int = logging.WARNING) -> list[str]:
        messages = [r.getMessage() for r in self._records if r.levelno >= level]
        return [m for m in messages if text in m and (text or not m.startswith(REVIEW))]

    async def until(self, text: str, times: int = 1) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                while len(self.find(text, logging.DEBUG)) < times:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"It is not said: {text!r}; but: {self.find()!r}") from None
