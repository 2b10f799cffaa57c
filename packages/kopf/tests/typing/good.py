"""Handlers that must be fine for type checkers: with annotations, with some, and with none."""

import datetime
import functools
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterator, Mapping
from typing import Any, NotRequired, ParamSpec, TypedDict, TypeVar, cast

import kopf

P = ParamSpec("P")
T = TypeVar("T")


# No annotations at all: the style of the documentation.
@kopf.on.create("kopfexamples")
@kopf.on.update("kopfexamples", field="spec.field", old="a", new=kopf.PRESENT)
def untyped(spec, name, logger, **kwargs):  # type: ignore[no-untyped-def]
    pass


@kopf.on.event("kopfexamples")
def nothing(**_):  # type: ignore[no-untyped-def]
    pass


@kopf.on.delete("kopfexamples", optional=True)
async def untyped_async(spec, **_):  # type: ignore[no-untyped-def]
    pass


# Annotated.
@kopf.on.resume("kopf.dev", "v1", "kopfexamples", deleted=True)
@kopf.on.create(kind="KopfExample", labels={"a": kopf.PRESENT, "b": lambda value, **_: True})
async def annotated(
    spec: kopf.Spec,
    meta: kopf.Meta,
    status: kopf.Status,
    body: kopf.Body,
    patch: kopf.Patch,
    name: str,
    namespace: str | None,
    uid: str,
    diff: kopf.Diff,
    reason: kopf.Reason,
    retry: int,
    started: datetime.datetime,
    runtime: datetime.timedelta,
    logger: kopf.Logger,
    memo: kopf.Memo,
    **kwargs: Any,
) -> None:
    pass


class MyMemo:
    pass


@kopf.on.field("kopfexamples", field=("spec", "field"), value="x")
def wider(
    spec: Mapping[str, Any],
    namespace: str,
    old: str,
    new: int | None,
    reason: str,
    memo: MyMemo,
    param: float,
    logger: logging.Logger,
    **_: object,
) -> dict[str, str]:
    return {}


@kopf.on.event("kopfexamples")
def event_fn(event: kopf.RawEvent, type: str | None, **_: Any) -> None:
    pass


@kopf.index("kopfexamples", when=lambda spec, **_: bool(spec))
def my_index(name: str, namespace: str, **_: Any) -> dict[str, str]:
    return {namespace: name}


@kopf.timer("kopfexamples", interval=1.5, idle=5, sharp=True)
def timer_fn(spec: kopf.Spec, **_: Any) -> None:
    pass


# Indices are arguments of any names. Mypy wants a default value of them, pyright does not.
@kopf.timer("kopfexamples", interval=1)
def with_index(spec: kopf.Spec, my_index: kopf.Index[str, str] = kopf.Index(), **_: Any) -> None:
    pass


@kopf.timer("kopfexamples", interval=1)
def with_untyped_index(my_index=None, **_):  # type: ignore[no-untyped-def]
    pass


@kopf.timer("kopfexamples", interval=1)
def with_optional_index(my_index: kopf.Index[str, str] | None = None, **_: Any) -> None:
    pass


@kopf.daemon("kopfexamples", initial_delay=lambda **_: 5, cancellation_timeout=1)
def daemon_fn(stopped: kopf.DaemonStopped, retry: int, **_: Any) -> None:
    pass


@kopf.daemon("kopfexamples")
async def async_daemon(stopped: kopf.AsyncDaemonStopperChecker, **_: Any) -> None:
    await stopped.wait(1)


@kopf.daemon("kopfexamples")
def sync_daemon(stopped: kopf.SyncDaemonStopperChecker, **_: Any) -> None:
    stopped.wait(1)


@kopf.on.startup(retries=3, backoff=kopf.ExponentialBackoff())
def startup(settings: kopf.OperatorSettings, **_: Any) -> None:
    pass


@kopf.on.login(errors=kopf.ErrorsMode.PERMANENT)
async def login(logger: kopf.Logger, **_: Any) -> kopf.ConnectionInfo | None:
    return kopf.login_with_kubeconfig(**_)


@kopf.on.probe(id="now")
def probe(**_: Any) -> str:
    return ""


@kopf.on.mutate("kopfexamples", operations=["CREATE"])
def mutate(
    patch: kopf.Patch,
    warnings: list[str],
    operation: kopf.Operation | None,
    userinfo: kopf.UserInfo,
    headers: kopf.Headers,
    sslpeer: kopf.SSLPeer,
    dryrun: bool,
    name: str | None,
    **_: Any,
) -> None:
    pass


@kopf.on.validate("kopfexamples")
async def validate(spec, **_):  # type: ignore[no-untyped-def]
    pass


@kopf.reconcile("kopfexamples", owns=["services"], related={"secrets": "spec.secret"})
def wanted(
    spec: kopf.Spec, children: Mapping[str, Any], triggers: frozenset[Any], **_: Any
) -> Generator[dict[str, Any], dict[str, Any], None]:
    live = yield {"kind": "Service"}
    yield {"kind": "ConfigMap", "data": live["spec"]}


@kopf.reconcile("kopfexamples")
async def wanted_asynchronously(
    conditions: Any, related: Mapping[str, Any], triggers: frozenset[kopf.Trigger], **_: Any
) -> AsyncGenerator[dict[str, Any], dict[str, Any]]:
    yield {}


@kopf.reconcile("kopfexamples")
def wanted_at_once(spec: kopf.Spec, **_: Any) -> list[dict[str, Any]]:
    return []


# Not only functions.
class Handlers:
    @kopf.on.create("kopfexamples")
    @staticmethod
    def static(spec: kopf.Spec, **_: Any) -> None:
        pass

    def method(self, spec: kopf.Spec, **_: Any) -> None:
        pass

    def __call__(self, spec: kopf.Spec, **_: Any) -> None:
        pass


def configurable(prefix: str, spec: kopf.Spec, **_: Any) -> None:
    pass


kopf.on.create("kopfexamples", id="a")(Handlers())
kopf.on.create("kopfexamples", id="b")(Handlers().method)
kopf.on.create("kopfexamples", id="c")(lambda spec, **_: None)
kopf.on.create("kopfexamples", id="d")(functools.partial(configurable, "x"))


# Daemons that can be stopped while they sleep, as documented: with one type for both kinds.
@kopf.daemon("kopfexamples")
async def waiting_asynchronously(stopped: kopf.DaemonStopped, **_: Any) -> None:
    while not stopped:
        await stopped.wait(10)


@kopf.daemon("kopfexamples")
def waiting(stopped: kopf.DaemonStopped, **_: Any) -> None:
    while not stopped:
        stopped.wait(10)


# Decorators of users, with the signatures kept and lost.
def logged(fn: Callable[P, T]) -> Callable[P, T]:
    @functools.wraps(fn)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
        return fn(*args, **kwargs)

    return wrapper


def logged_async(fn: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    @functools.wraps(fn)
    async def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
        return await fn(*args, **kwargs)

    return wrapper


def loosely(fn: Callable[..., Any]) -> Callable[..., Any]:
    return fn


@kopf.on.create("kopfexamples")
@logged
def decorated(spec: kopf.Spec, name: str, **_: Any) -> None:
    pass


@kopf.on.update("kopfexamples")
@logged_async
async def decorated_async(spec: kopf.Spec, name: str, **_: Any) -> dict[str, str]:
    return {}


@kopf.daemon("kopfexamples")
@loosely
def decorated_loosely(spec: kopf.Spec, **_: Any) -> None:
    pass


# Specs of known shapes, and other objects of any kinds.
class DatabaseSpec(TypedDict):
    size: int
    engine: NotRequired[str]


@kopf.on.create("databases", retries=3, timeout=60.0, backoff=5)
async def with_other_objects(spec: kopf.Spec, namespace: str | None, **_: Any) -> None:
    size: int = cast(DatabaseSpec, spec)["size"]
    child: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"size": f"{size}"}}
    kopf.adopt(child)
    created = await kopf.api.create(child)
    config = await kopf.api.get("configmaps", created["metadata"]["name"], namespace=namespace)
    print(config["data"]["size"])
    async for pod in kopf.api.list("pods", namespace=namespace):
        print(pod["metadata"]["name"], pod["spec"])


@kopf.on.delete("databases")
def with_other_objects_in_threads(**_: Any) -> None:
    for secret in kopf.sync_api.list("secrets", namespace=None):
        print(secret["data"], secret["metadata"]["name"])


# An operator in a class, with all its handlers as methods of its instance.
class Controller:
    def __init__(self, registry: kopf.OperatorRegistry) -> None:
        kopf.on.startup(registry=registry)(self.configure)
        kopf.on.create("databases", registry=registry)(self.created)
        kopf.on.delete("databases", registry=registry)(self.deleted)
        kopf.on.event("databases", registry=registry)(self.seen)
        kopf.on.validate("databases", registry=registry)(self.validated)
        kopf.index("databases", registry=registry)(self.indexed)
        kopf.timer("databases", interval=10, registry=registry)(self.tick)
        kopf.daemon("databases", registry=registry)(self.watch)
        kopf.reconcile("databases", registry=registry)(self.wanted)

    def configure(self, settings: kopf.OperatorSettings, memo: kopf.Memo, **_: Any) -> None:
        settings.posting.level = logging.WARNING
        settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix="x.dev")
        settings.admission.server = kopf.WebhookServer(port=8443)
        memo.controller = self

    def created(self, spec: kopf.Spec, patch: kopf.Patch, **_: Any) -> dict[str, Any]:
        patch.metadata.annotations["x"] = None
        return {"size": spec.get("size", 1)}

    async def deleted(self, name: str, logger: kopf.Logger, **_: Any) -> None:
        pass

    def seen(self, event: kopf.RawEvent, labels: kopf.Labels, **_: Any) -> None:
        pass

    def validated(self, spec: kopf.Spec, warnings: list[str], **_: Any) -> None:
        raise kopf.AdmissionError("too big", code=400)

    def indexed(self, labels: kopf.Labels, name: str | None, **_: Any) -> dict[Any, str | None]:
        return dict.fromkeys(labels.items(), name)

    def tick(self, memo: kopf.Memo, **_: Any) -> None:
        pass

    async def watch(self, stopped: kopf.DaemonStopped, **_: Any) -> None:
        pass

    def wanted(self, spec: kopf.Spec, **_: Any) -> Iterator[dict[str, Any]]:
        yield {}


Controller(kopf.OperatorRegistry())


# Sub-handlers, and the functions stay as they were.
@kopf.on.create("kopfexamples")
def parent(spec: kopf.Spec, **_: Any) -> int:
    @kopf.subhandler(id="x", old=1, field="spec.x")
    def sub(diff: kopf.Diff, **_: Any) -> None:
        pass

    kopf.register(sub, id="y")
    kopf.register(lambda **_: None, id="z")
    return 1


def calling() -> int:
    return parent(spec=kopf.Spec({}))
