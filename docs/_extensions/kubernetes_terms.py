"""Sphinx: the terms of Kubernetes lead to its documentation where they come up first on a page.

Readers of Kopf do not all know Kubernetes, and they enter by any page. Texts stay free of links:
the terms and the addresses are here. A page that has a link of its own to the address keeps it.
"""

from __future__ import annotations

import re
from fnmatch import fnmatch
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

SITE = "https://kubernetes.io/docs/"
TERMS = {
    r"admission webhooks?": "reference/access-authn-authz/extensible-admission-controllers/",
    r"annotations?": "concepts/overview/working-with-objects/annotations/",
    r"API servers?": "concepts/architecture/#kube-apiserver",
    r"ClusterRoles?|RBAC": "reference/access-authn-authz/rbac/",
    r"ConfigMaps?": "concepts/configuration/configmap/",
    r"CronJobs?": "concepts/workloads/controllers/cron-jobs/",
    r"CustomResourceDefinitions?": (
        "concepts/extend-kubernetes/api-extension/custom-resources/#customresourcedefinitions"
    ),
    r"field managers?": "reference/using-api/server-side-apply/#managers",
    r"finalizers?": "concepts/overview/working-with-objects/finalizers/",
    r"garbage collect(?:ion|or)": "concepts/architecture/garbage-collection/",
    r"kubeconfigs?": "concepts/configuration/organize-cluster-access-kubeconfig/",
    r"label selectors?|labels?": "concepts/overview/working-with-objects/labels/",
    r"(?:liveness|readiness|startup) probes?": (
        "tasks/configure-pod-container/configure-liveness-readiness-startup-probes/"
    ),
    r"namespaces?": "concepts/overview/working-with-objects/namespaces/",
    r"owner references?": "concepts/overview/working-with-objects/owners-dependents/",
    r"PersistentVolumeClaims?": "concepts/storage/persistent-volumes/#persistentvolumeclaims",
    r"PodDisruptionBudgets?": "concepts/workloads/pods/disruptions/#pod-disruption-budgets",
    r"pods?": "concepts/workloads/pods/",
    r"resource versions?": "reference/using-api/api-concepts/#resource-versions",
    r"Secrets?": "concepts/configuration/secret/",
    r"server-side apply": "reference/using-api/server-side-apply/",
    r"service accounts?": "concepts/security/service-accounts/",
    r"StatefulSets?": "concepts/workloads/controllers/statefulset/",
}
"""The terms, and the pages that explain them."""

PATTERN = re.compile(rf"(?<![\w.-])(?:{'|'.join(f'({term})' for term in TERMS)})(?![\w-])")
PAGES = list(TERMS.values())
LITERAL = (nodes.reference, nodes.title, nodes.literal, nodes.literal_block, nodes.term, nodes.raw)
UNLINKED = ("decisions/*", "reference/api/*", "contributing", "style", "vision")
"""Pages for maintainers, and the ones that are generated."""


class LinkTerms(SphinxTransform):
    """Make the links in the document of a page."""

    default_priority = 900  # after the other links are made

    def apply(self, **kwargs: Any) -> None:
        """Link the terms that are not linked to yet."""
        if any(fnmatch(self.env.docname, pattern) for pattern in UNLINKED):
            return
        linked = {
            node["refuri"].removeprefix(SITE).partition("#")[0]
            for node in self.document.findall(nodes.reference)
            if node.get("refuri", "").startswith(SITE)
        }
        for text in list(self.document.findall(nodes.Text)):
            if not _is_in(text, LITERAL) and _is_in(text, (nodes.paragraph,)):
                parts = link(text.astext(), linked)
                if len(parts) > 1:
                    text.parent.replace(text, parts)


def _is_in(node: nodes.Node, kinds: tuple[type[nodes.Node], ...]) -> bool:
    while node.parent is not None:
        node = node.parent
        if isinstance(node, kinds) or node.__class__.__name__ == "pending_xref":
            return isinstance(node, kinds) or kinds is LITERAL
    return False


def link(text: str, linked: set[str]) -> list[nodes.Node]:
    """Split a text into texts and links; "linked" is what has links already, and gets more."""
    parts: list[nodes.Node] = []
    start = 0
    for match in PATTERN.finditer(text):
        page = PAGES[(match.lastindex or 1) - 1]
        if page.partition("#")[0] not in linked:
            linked.add(page.partition("#")[0])
            uri = f"{SITE}{page}"
            parts.append(nodes.Text(text[start : match.start()]))
            parts.append(nodes.reference("", match[0], refuri=uri, internal=False))
            start = match.end()
    return [*parts, nodes.Text(text[start:])]


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect the extension."""
    app.add_transform(LinkTerms)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
