"""Handlers that type checkers must refuse: each line marked with "BAD" has an error."""

from typing import Any

import kopf


@kopf.on.create("kopfexamples")  # BAD
def wrong_type(labels: int, **_: Any) -> None:
    pass


@kopf.on.create("kopfexamples")  # BAD
def no_kwargs(spec: kopf.Spec) -> None:
    pass


@kopf.on.create("kopfexamples")  # BAD
def nothing_at_all() -> None:
    pass


@kopf.on.update("kopfexamples")  # BAD
def unknown_argument(sepc: dict[str, Any], **_: Any) -> None:
    pass


@kopf.on.delete("kopfexamples")  # BAD
async def wrong_type_async(name: int, **_: Any) -> None:
    pass


@kopf.on.event("kopfexamples")  # BAD
def diffs_are_not_for_events(diff: kopf.Diff, **_: Any) -> None:
    pass


@kopf.timer("kopfexamples", interval=1)  # BAD
def reasons_are_not_for_timers(reason: kopf.Reason, **_: Any) -> None:
    pass


@kopf.daemon("kopfexamples")  # BAD
def wrong_retry(retry: str, **_: Any) -> None:
    pass


@kopf.index("kopfexamples")  # BAD
def wrong_meta(meta: str, **_: Any) -> None:
    pass


@kopf.on.startup()  # BAD
def no_objects_yet(spec: kopf.Spec, **_: Any) -> None:
    pass


@kopf.on.login()  # BAD
def wrong_settings(settings: dict[str, Any], **_: Any) -> None:
    pass


@kopf.on.validate("kopfexamples")  # BAD
def unknown_argument_of_webhooks(warning: list[str], **_: Any) -> None:
    pass


@kopf.reconcile("kopfexamples")  # BAD
def unknown_argument_of_passes(child: dict[str, Any], **_: Any) -> None:
    pass


kopf.register(no_kwargs)  # BAD
kopf.on.create("kopfexamples", lables={})  # BAD
kopf.on.create("kopfexamples", timeout="5s")  # BAD
kopf.on.create("kopfexamples", old="x")  # BAD
kopf.on.field("kopfexamples")  # BAD
kopf.on.startup("kopfexamples")  # BAD
kopf.on.event("kopfexamples", retries=3)  # BAD
kopf.timer("kopfexamples", interval="5")  # BAD
kopf.daemon("kopfexamples", errors="permanent")  # BAD
