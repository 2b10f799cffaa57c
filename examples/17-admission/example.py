"""Admission webhooks: objects are judged and amended before they are stored."""

from typing import Any

import kopf


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    settings.admission.server = kopf.WebhookAutoServer()
    settings.admission.managed = "example.kopf.dev"


@kopf.on.mutate("kopfexamples", operations=["CREATE", "UPDATE"])
def default_duration(spec: kopf.Spec, patch: kopf.Patch, warnings: list[str], **_: Any) -> None:
    if "duration" not in spec:
        patch.spec["duration"] = "1m"
        warnings.append("There is no duration in the spec, so it is 1 minute.")


@kopf.on.validate("kopfexamples", operations=["CREATE", "UPDATE"])
def check_items(spec: kopf.Spec, **_: Any) -> None:
    if len(spec.get("items", [])) > 3:
        raise kopf.AdmissionError("There are too many items: at most 3 are possible.", code=422)


@kopf.on.validate("kopfexamples", operation="DELETE", labels={"protected": kopf.PRESENT})
def protect(userinfo: kopf.UserInfo, name: str, **_: Any) -> None:
    raise kopf.AdmissionError(
        f"{name} is protected, {userinfo.get('username')}: remove the label first.", code=403
    )


@kopf.on.create("kopfexamples")
def created(spec: kopf.Spec, logger: kopf.Logger, **_: Any) -> None:
    logger.info(f"It is created for {spec['duration']}.")
