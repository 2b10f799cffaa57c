"""The table as a page of the documentation."""

from __future__ import annotations

import pathlib

from e2e.kubeconfigs.case import NOWHERE, Case
from e2e.kubeconfigs.cases import CASES

OUTPUT = pathlib.Path(__file__).parents[2] / "docs" / "reference" / "kubeconfigs.md"

HEADER = """\
# Kubeconfigs

The behaviour of `kopf.login_with_kubeconfig()` and of kubectl with all kinds of kubeconfigs,
good and bad. The tests run both, if kubectl is installed. `python -m e2e.kubeconfigs` writes
this page.

The table shows the request as the server sees it: the header `Authorization`, the headers
`Impersonate-*`, the client certificate. If a kubeconfig has no server,
kubectl tries `localhost:8080`; Kopf names the missing part.

| in the kubeconfig | Kopf | kubectl, if it differs | why |
|---|---|---|---|
"""


def render() -> str:
    return HEADER + "".join(map(_render_case, CASES))


def _render_case(case: Case) -> str:
    title = f"exec plugin: {case.title}" if case.id.split("-")[0] == "exec" else case.title
    kubectl = "" if case.kubectl == NOWHERE else case.kubectl
    kubectl = "`localhost:8080`" if case.kubectl == NOWHERE else kubectl
    return f"| {title} | {case.ours} | {kubectl} | {case.reason} |\n"
