"""A Kubernetes API in this very process, for tests of anything. It needs only ``kopf-kits``.

python example.py
"""

import json
import urllib.request

import kopf_kits


def main() -> None:
    owner = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "parent", "namespace": "default", "labels": {"team": "ours"}},
    }
    with kopf_kits.SandboxThread() as sandbox:
        owner = sandbox.create(owner)

        # Children have the names, the namespaces, the labels, and the owners as they should.
        child = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {},
            "stringData": {"key": "value"},
        }
        kopf_kits.adopt(child, owner=owner)
        sandbox.create(child)

        # Any client can be used with it. Here is what the others see:
        url = f"{sandbox.url}/api/v1/namespaces/default/secrets"
        with urllib.request.urlopen(url) as response:
            (secret,) = json.load(response)["items"]
        print(
            f"{secret['metadata']['name']}, of {secret['metadata']['ownerReferences'][0]['name']}"
        )

        # When the owner is gone, so are the children.
        sandbox.delete("configmap", "parent")
        print(f"Secrets left: {len(sandbox.list('secret'))}")


if __name__ == "__main__":
    main()
