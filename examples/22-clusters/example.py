"""One operator for several clusters: the kubeconfigs of the clusters are files in a folder.

It is started as any other script: ``python example.py FOLDER``. Add a file to add a cluster.
"""

import asyncio
import pathlib
import sys

import kopf


@kopf.on.create("kopfexamples")
def create_fn(cluster, name, patch, **_):
    print(f"Created in {cluster}: {name}", flush=True)
    patch.status["cluster"] = cluster


def look_into(folder):
    """Make the provider of the clusters for this folder."""

    async def provide(**_):
        while True:
            yield [kopf.Cluster(path.stem, kubeconfig=path) for path in folder.glob("*.yaml")]
            await asyncio.sleep(1)

    return provide


if __name__ == "__main__":
    kopf.configure()
    kopf.run(clusters=look_into(pathlib.Path(sys.argv[1])), clusterwide=True)
