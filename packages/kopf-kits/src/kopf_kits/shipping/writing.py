"""The files of a deployment, in each of the forms: by their paths in the folder."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from kopf_kits.definitions.writing import Quoting
from kopf_kits.shipping.rendering import CHART, merge_values, read_version, render_chart

Files = dict[str, str]


@dataclass(frozen=True)
class Deployment:
    """A deployment of an operator: its name, its namespace, and its values of the chart."""

    name: str
    namespace: str
    values: Mapping[str, Any] = field(default_factory=dict)
    definitions: Iterable[Mapping[str, Any]] = ()
    """The definitions of the custom kinds, and their policies: they go first."""

    @property
    def version(self) -> str:
        """The version of the operator: the tag of its image."""
        return str((self.values.get("image") or {}).get("tag") or read_version())


def write_plain(deployment: Deployment) -> str:
    """All objects in one text, to be applied as it is: the namespace and the definitions first."""
    home = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": deployment.namespace}}
    homes = [] if deployment.namespace == "default" else [home]
    return _dump([*homes, *deployment.definitions, *_render(deployment)])


def write_kustomize(deployment: Deployment) -> Files:
    """A base for kustomize; the image can be changed in overlays.

    It sets no namespace for all: the roles are in the namespaces that the operator serves.
    """
    files: Files = {}
    if deployment.definitions:
        files["definitions.yaml"] = _dump(deployment.definitions)
    for body in _render(deployment):
        path = "permissions.yaml" if _is_about_rights(body) else "operator.yaml"
        files[path] = files.get(path, "") + ("---\n" if path in files else "") + _dump([body])
    image = deployment.values.get("image") or {}
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": sorted(files),
        "images": [{"name": image["repository"], "newTag": image["tag"]}] if image else [],
    }
    return files | {"kustomization.yaml": _dump([kustomization])}


def write_chart(deployment: Deployment) -> Files:
    """A chart of the operator: our templates, with the values of this operator in its defaults."""
    files: Files = {}
    for one in sorted((CHART / "templates").iterdir(), key=lambda one: one.name):
        files[f"templates/{one.name}"] = one.read_text("utf-8")
    files["values.schema.json"] = (CHART / "values.schema.json").read_text("utf-8")
    files["values.yaml"] = _put_values((CHART / "values.yaml").read_text("utf-8"), deployment)
    files["Chart.yaml"] = _dump(
        [
            {
                "apiVersion": "v2",
                "name": deployment.name,
                "description": f"The operator {deployment.name}, with the rights that it needs",
                "type": "application",
                "version": "0.1.0",
                "appVersion": deployment.version,
            }
        ]
    )
    definitions = [body for body in deployment.definitions if _is_definition(body)]
    policies = [body for body in deployment.definitions if not _is_definition(body)]
    if definitions:
        files["crds/definitions.yaml"] = _dump(definitions)
    if policies:  # unlike definitions, they must be updated with the chart, and removed with it
        files["templates/policies.yaml"] = _dump(policies).replace("{{", '{{ "{{" }}')
    return files


def _is_definition(body: Mapping[str, Any]) -> bool:
    return bool(body["kind"] == "CustomResourceDefinition")


def _render(deployment: Deployment) -> list[dict[str, Any]]:
    return render_chart(
        deployment.values,
        name=deployment.name,
        namespace=deployment.namespace,
        chart=deployment.name,
        version=deployment.version,
    )


def _put_values(text: str, deployment: Deployment) -> str:
    """Put the values in place of the default ones, with the comments around them kept."""
    merged = merge_values(deployment.values)
    for key in deployment.values:
        style = None if isinstance(merged[key], dict | list) else False  # never "{replicas: 2}"
        value = {key: merged[key]}
        dumped = yaml.dump(value, Dumper=Quoting, sort_keys=False, default_flow_style=style)
        pattern = re.compile(rf"^{re.escape(key)}:.*\n(?:[ ].*\n)*", re.MULTILINE)
        text = pattern.sub(lambda _, dumped=dumped: dumped, text)  # type: ignore[misc]
    return text


def _is_about_rights(body: Mapping[str, Any]) -> bool:
    return body["kind"] == "ServiceAccount" or "rbac." in body["apiVersion"]


def _dump(bodies: Iterable[Mapping[str, Any]]) -> str:
    copies = [dict(body) for body in bodies]
    return yaml.dump_all(copies, Dumper=Quoting, sort_keys=False, width=120)
