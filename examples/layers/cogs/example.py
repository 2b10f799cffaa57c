"""A script that talks to Kubernetes from asyncio. It needs only ``pip install kopf-cogs``.

It applies a config map, and waits until somebody confirms it with an annotation:

    python example.py default settings color=blue
    kubectl annotate configmap settings confirmed=yes
"""

import asyncio
import sys

import kopf_cogs

CONFIGMAPS = kopf_cogs.Resource("", "v1", "configmaps", "ConfigMap", namespaced=True)


class Confirmation:
    """What the reflector tells: the objects as they are at first, then their changes, forever."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.has_come = asyncio.Event()

    def on_event(self, event: kopf_cogs.RawEvent) -> None:
        body = kopf_cogs.Body(event["object"])
        if body.metadata.name == self.name and "confirmed" in body.metadata.annotations:
            self.has_come.set()

    def on_listed(self) -> None:
        print("Waiting for the confirmation.", flush=True)

    async def drain(self) -> None:
        """Called after every batch of events: wait here if they come too fast."""


def log_in() -> kopf_cogs.ConnectionInfo | None:
    """In a thread: a kubeconfig can name a program to run, which would block the event loop."""
    return kopf_cogs.login_with_service_account() or kopf_cogs.login_with_kubeconfig()


async def main(namespace: str, name: str, *pairs: str) -> None:
    credentials = await asyncio.to_thread(log_in)
    if credentials is None:
        raise SystemExit("There are no credentials: no service account and no kubeconfig.")

    async with kopf_cogs.Client(credentials) as client:
        api = kopf_cogs.ObjectsAPI(client, manager="confirmer")
        data = dict(pair.split("=", 1) for pair in pairs)
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": namespace},
            "data": data,
        }
        await api.apply(body)
        names = [item["metadata"]["name"] for item in await api.list("configmaps", namespace)]
        print(f"There are config maps: {', '.join(names)}.")

        confirmation = Confirmation(name)
        reflector = kopf_cogs.Reflector(client, CONFIGMAPS, namespace, sink=confirmation)
        watching = asyncio.create_task(reflector.run())
        await confirmation.has_come.wait()
        watching.cancel()
        print("It is confirmed.")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
