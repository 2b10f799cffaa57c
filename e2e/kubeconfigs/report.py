"""The table as a page of the documentation."""

from __future__ import annotations

import pathlib

from e2e.kubeconfigs.case import NOWHERE, Case
from e2e.kubeconfigs.cases import CASES

OUTPUT = pathlib.Path(__file__).parents[2] / "docs" / "reference" / "kubeconfigs.md"

HEADER = """\
# Kubeconfigs

What `kopf.login_with_kubeconfig()` does with all kinds of kubeconfigs, good and bad,
and what kubectl does with them. Both are run in the tests, where kubectl is installed;
this page is written by `python -m e2e.kubeconfigs`.

In the table, there is what the server sees: the header `Authorization`, the headers
`Impersonate-*`, the client certificate. If there is nothing to connect to,
kubectl tries `localhost:8080`; we say what is absent.

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
