"""Checks of the built-in kinds that operators create most often."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from kopf_kits.sandbox.base.jsons import clone
from kopf_kits.sandbox.base.statuses import Cause
from kopf_kits.sandbox.schemas.names import check_name
from kopf_kits.sandbox.schemas.selectors import parse_label_selector
from kopf_kits.sandbox.schemas.validation import invalid_value
from kopf_kits.sandbox.store.rules import Obj

_DATA_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_RESTARTS = ("Always", "OnFailure", "Never")
_SERVICES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_PORT_TEXT = "must be between 1 and 65535, inclusive"


def required(path: str, text: str = "") -> Cause:
    return Cause("FieldValueRequired", path, f"Required value: {text}".removesuffix(": "))


def unsupported(path: str, value: Any, options: Iterable[str]) -> Cause:
    listed = ", ".join(f'"{option}"' for option in options)
    text = f'Unsupported value: "{value}": supported values: {listed}'
    return Cause("FieldValueNotSupported", path, text)


def section(obj: Obj, name: str = "spec") -> Obj:
    found = obj.get(name)
    return found if isinstance(found, dict) else {}


def check_data(obj: Obj, old: Obj | None) -> Iterator[Cause]:
    """The keys of ConfigMaps and Secrets."""
    texts, binaries = obj.get("data") or {}, obj.get("binaryData") or {}
    for field, values in (("data", texts), ("binaryData", binaries)):
        for key in values:
            if not _DATA_KEY.fullmatch(key):
                text = (
                    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' "
                    "(e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation "
                    "is '[-._a-zA-Z0-9]+')"
                )
                yield invalid_value(f"{field}[{key}]", key, text)
            elif field == "data" and key in binaries:
                yield invalid_value(f"data[{key}]", key, "duplicate of key present in binaryData")


def check_service(obj: Obj, old: Obj | None) -> Iterator[Cause]:
    spec = section(obj)
    ports = spec.get("ports") or []
    if not ports and spec.get("type") != "ExternalName" and spec.get("clusterIP") != "None":
        yield required("spec.ports")
    if spec.get("type") not in _SERVICES:
        yield unsupported("spec.type", spec.get("type"), _SERVICES)
    for index, port in enumerate(ports):
        path = f"spec.ports[{index}]"
        if len(ports) > 1 and not port.get("name"):
            yield required(f"{path}.name")
        for field in ("port", "targetPort"):
            value = port.get(field)
            if isinstance(value, int) and not 1 <= value <= 65535:
                yield invalid_value(f"{path}.{field}", value, _PORT_TEXT)


def check_pod(obj: Obj, old: Obj | None) -> Iterator[Cause]:
    yield from _check_pod_spec(section(obj), "spec")
    if old is not None and _fixed_part(section(obj)) != _fixed_part(section(old)):
        text = (
            "Forbidden: pod updates may not change fields other than "
            "`spec.containers[*].image`,`spec.initContainers[*].image`,"
            "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing "
            "tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was "
            "previously negative)"
        )
        yield Cause("FieldValueForbidden", "spec", text)


def _fixed_part(spec: Obj) -> Obj:
    fixed: Obj = clone(spec)
    for name in ("activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds",
                 "nodeName", "ephemeralContainers"):  # fmt: skip
        fixed.pop(name, None)
    for name in ("containers", "initContainers"):
        for container in fixed.get(name) or ():
            container.pop("image", None)
            container.pop("imagePullPolicy", None)
    return fixed


def _check_pod_spec(spec: Obj, path: str) -> Iterator[Cause]:
    seen: set[str] = set()
    for index, container in enumerate(spec.get("containers") or ()):
        where = f"{path}.containers[{index}]"
        name = container.get("name")
        if name and name in seen:
            yield Cause("FieldValueDuplicate", f"{where}.name", f'Duplicate value: "{name}"')
        seen.add(name)
        if not container.get("image"):
            yield required(f"{where}.image")
        for number, port in enumerate(container.get("ports") or ()):
            if not port.get("containerPort"):
                yield required(f"{where}.ports[{number}].containerPort")
    restart = spec.get("restartPolicy")
    if restart not in (*_RESTARTS, None):
        yield unsupported(f"{path}.restartPolicy", restart, _RESTARTS)


def check_workload(obj: Obj, old: Obj | None) -> Iterator[Cause]:
    """The selector, the template, and the replicas of a workload."""
    spec = section(obj)
    template = section(spec, "template")
    labels = section(template, "metadata").get("labels") or {}
    selector = spec.get("selector")
    replicas = spec.get("replicas")
    if isinstance(replicas, int) and replicas < 0:
        yield invalid_value("spec.replicas", replicas, "must be greater than or equal to 0")
    if selector is not None and not parse_label_selector(selector):
        text = "empty selector is invalid for deployment"
        yield invalid_value("spec.selector", selector, text)
    else:
        matches = parse_label_selector(selector)
        if matches is None or not matches({"metadata": {"labels": labels}}):
            text = "`selector` does not match template `labels`"
            path = "spec.template.metadata.labels"
            yield invalid_value(path, labels or None, text)
    yield from _check_pod_spec(section(template), "spec.template.spec")


def check_job(obj: Obj, old: Obj | None) -> Iterator[Cause]:
    yield from check_job_template(section(section(obj), "template"), "spec.template")


def check_job_template(template: Obj, path: str) -> Iterator[Cause]:
    """The template of the pods of a job."""
    yield from _check_pod_spec(section(template), f"{path}.spec")
    if section(template).get("restartPolicy") == "Always":
        text = 'valid values: "OnFailure", "Never"'
        yield required(f"{path}.spec.restartPolicy", text)


def check_lease(obj: Obj, old: Obj | None) -> Iterator[Cause]:
    spec = section(obj)
    duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if duration is not None and duration <= 0:
        yield invalid_value("spec.leaseDurationSeconds", duration, "must be greater than 0")
    if transitions is not None and transitions < 0:
        text = "must be greater than or equal to 0"
        yield invalid_value("spec.leaseTransitions", transitions, text)


def check_webhooks(obj: Obj, old: Obj | None) -> Iterator[Cause]:
    """The webhooks of a configuration."""
    for index, hook in enumerate(obj.get("webhooks") or []):
        yield from _check_webhook(hook, f"webhooks[{index}]")


def _check_webhook(hook: Obj, path: str) -> Iterator[Cause]:
    if str(hook.get("name", "")).count(".") < 2:
        text = "should be a domain with at least three segments separated by dots"
        yield invalid_value(f"{path}.name", hook.get("name", ""), text)
    effects = hook.get("sideEffects")
    if not effects:
        yield required(f"{path}.sideEffects", "must specify one of None, NoneOnDryRun")
    elif effects not in ("None", "NoneOnDryRun"):
        yield unsupported(f"{path}.sideEffects", effects, ("None", "NoneOnDryRun"))
    versions = hook.get("admissionReviewVersions") or []
    if not versions:
        text = "must specify one of v1, v1beta1"
        yield required(f"{path}.admissionReviewVersions", text)
    elif not {"v1", "v1beta1"} & set(versions):
        text = "must include at least one of v1, v1beta1"
        yield invalid_value(f"{path}.admissionReviewVersions", versions, text)
    if not 1 <= hook.get("timeoutSeconds", 10) <= 30:
        text = "the timeout value must be between 1 and 30 seconds"
        yield invalid_value(f"{path}.timeoutSeconds", hook["timeoutSeconds"], text)
    policy = hook.get("failurePolicy", "Fail")
    if policy not in ("Fail", "Ignore"):
        yield unsupported(f"{path}.failurePolicy", policy, ("Fail", "Ignore"))
    yield from _check_client(hook.get("clientConfig") or {}, f"{path}.clientConfig")
    for index, rule in enumerate(hook.get("rules") or ()):
        yield from _check_operations(rule, f"{path}.rules[{index}].operations")


def _check_client(config: Obj, path: str) -> Iterator[Cause]:
    url = config.get("url")
    if bool(url) == bool(config.get("service")):
        yield required(path, "exactly one of url or service is required")
    elif url and not url.startswith("https://"):
        text = "'https' is the only allowed URL scheme; desired format: https://host[/path]"
        yield invalid_value(f"{path}.url", url.partition(":")[0], text)
    yield from _check_service_path(section(config, "service").get("path"), f"{path}.service.path")


def _check_service_path(value: str | None, path: str) -> Iterator[Cause]:
    """There are only names between the slashes: fewer characters are possible than in URLs."""
    if not value or value == "/":
        return
    if not value.startswith("/"):
        yield invalid_value(path, value, "must start with a '/'")
    for index, segment in enumerate(value[1:].removesuffix("/").split("/")):
        if not segment:
            yield invalid_value(path, value, f"segment[{index}] may not be empty")
            continue
        for cause in check_name(segment, "subdomain", path):
            text = cause.message.split(": ", 2)[-1]
            yield invalid_value(path, value, f"segment[{index}]: {text}")


def _check_operations(rule: Obj, path: str) -> Iterator[Cause]:
    known = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
    for index, operation in enumerate(rule.get("operations") or ()):
        if operation not in known:
            yield unsupported(f"{path}[{index}]", operation, known)


def all_of(*checks: Callable[[Obj, Obj | None], Iterable[Cause]]) -> Any:
    """All the checks, one after another."""

    def check(obj: Obj, old: Obj | None) -> Iterator[Cause]:
        for one in checks:
            yield from one(obj, old)

    return check
