"""An operator with a command line of its own. It needs only ``pip install kopf-core``.

There is no ``kopf run``, no files with handlers to be loaded, no global registry:

    python example.py --namespace default --greeting Hello
    kubectl create configmap world && kubectl label configmap world greet=please
"""

import argparse
import logging

import kopf_cogs
import kopf_core


def make_registry(greeting: str) -> kopf_core.OperatorRegistry:
    """The handlers of the operator: here, they are closures over its options."""
    registry = kopf_core.OperatorRegistry()

    @kopf_core.on.login(registry=registry)
    def login(**kwargs):
        return kopf_cogs.login_with_service_account(**kwargs) or kopf_cogs.login_with_kubeconfig(
            **kwargs
        )

    @kopf_core.on.create("configmaps", id="greet", labels={"greet": "please"}, registry=registry)
    async def greet(name, patch, retry, **_):
        if not retry:
            raise kopf_core.TemporaryError("Not that fast.", delay=0.1)
        patch["data"] = {"greeting": f"{greeting}, {name}!"}

    return registry


def main() -> None:
    parser = argparse.ArgumentParser(description="Greet config maps.")
    parser.add_argument("--namespace", action="append", default=[], help="all of them by default")
    parser.add_argument("--greeting", default="Hello")
    args = parser.parse_args()

    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    settings = kopf_cogs.OperatorSettings()
    settings.posting.enabled = False
    kopf_core.run(
        registry=make_registry(args.greeting),
        settings=settings,
        namespaces=args.namespace,
        clusterwide=not args.namespace,
        standalone=True,
    )


if __name__ == "__main__":
    main()
