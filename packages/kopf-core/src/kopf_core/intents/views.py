"""Views: the arguments that a function gets as instances of models, by its annotations.

The annotations are read once, when the function is declared. Only ``body``, ``spec``, ``status``,
``old``, ``new`` can be models, if they are annotated with models of pydantic, or with dataclasses.
All other arguments stay as they are, and cost nothing.
"""

import functools
import logging
import sys
import types
import typing
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from kopf_cogs.structs.bodies import Body
from kopf_cogs.structs.dicts import FieldPath, resolve
from kopf_cogs.structs.models import Model, Parsed, Problem, find_model
from kopf_cogs.structs.secrecy import is_secret_body
from kopf_core.actions.bases import Fn
from kopf_core.actions.errors import PermanentError

logger = logging.getLogger("kopf.intents")

_NAMES = ("body", "spec", "status", "old", "new")
_ANNOTATED = (*_NAMES, "return")
_IDENTITY = ("name", "namespace", "uid", "generation", "creationTimestamp", "deletionTimestamp")
_NOTHING: Mapping[str, Any] = {}


class InvalidObjectError(PermanentError):
    """The object is invalid for the model of the handler, so the handler is not called."""

    def __init__(self, problems: Collection[Problem]) -> None:
        super().__init__(f"The object is invalid: {describe(problems)}")
        self.problems = problems


def describe(problems: Collection[Problem]) -> str:
    """Describe the problems as one text, each of them once."""
    return "; ".join(dict.fromkeys(map(str, problems)))


@dataclass(frozen=True, slots=True)
class Views:
    """The models that a function asks for, by the names of its arguments."""

    models: Mapping[str, Model]
    field: FieldPath
    """The field of the handler: ``old`` and ``new`` are its values."""

    def fits(self, kwargs: Mapping[str, Any]) -> bool:
        """Return true if the object is valid. Raises :class:`InvalidObjectError` if it is not."""
        self._parse(kwargs)
        return True

    def read(self, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Make the arguments as instances. Raises :class:`InvalidObjectError`.

        The old state can be invalid, as the change can be the repair. Then, ``old`` is ``None``.
        """
        found = self._parse(kwargs)
        return {name: self.models[name].take(parsed) for name, parsed in found.items()}

    def _parse(self, kwargs: Mapping[str, Any]) -> Mapping[str, Parsed]:
        found = {
            name: self._parse_one(name, model, kwargs)
            for name, model in self.models.items()
            if name in kwargs
        }
        problems = [
            problem._replace(where=(*self._locate(name), *problem.where))
            for name, parsed in found.items()
            for problem in parsed.problems
            if name != "old"
        ]
        if problems and is_secret_body(kwargs["body"]):
            problems = [problem._replace(found="") for problem in problems]
        if problems:
            raise InvalidObjectError(problems)
        return found

    def _parse_one(self, name: str, model: Model, kwargs: Mapping[str, Any]) -> Parsed:
        """Parse a part of the object. All handlers share the instance of the same part."""
        body: Body = kwargs["body"]
        raw = self._get_raw(name, kwargs)
        key = (name, self.field if name in ("old", "new") else (), model.annotation)
        known: Parsed | None = body.parsed.get(key)
        if known is not None and (known.raw is raw or known.raw == raw):
            return known
        if raw is None and (model.is_optional or name in ("old", "new")):
            parsed = Parsed(None, None, ())
        else:
            parsed = model.parse(self._complete(name, model, raw, body))._replace(raw=raw)
        body.parsed[key] = parsed
        return parsed

    def _get_raw(self, name: str, kwargs: Mapping[str, Any]) -> Any:
        if name in ("spec", "status"):
            return resolve(kwargs["body"], (name,), None)
        value = kwargs[name]
        if name == "body" or value is None:
            return None if value is None else resolve(value, ())
        return resolve(value, self.field, None) if self.field else resolve(value, ())

    def _complete(self, name: str, model: Model, raw: Any, body: Body) -> Any:
        if name in ("spec", "status"):
            return _NOTHING if raw is None else raw
        if name == "body" or not self.field:
            return model.trim(raw if name == "body" else _identify(raw, body))
        return raw

    def _locate(self, name: str) -> tuple[str, ...]:
        if name in ("spec", "status"):
            return (name,)
        return tuple(map(str, self.field)) if name in ("old", "new") else ()


def _identify(essence: Mapping[str, Any], body: Body) -> dict[str, Any]:
    """Complete an essence with the fields that it lacks in order to be an object."""
    known = resolve(body, ("metadata",), _NOTHING)
    identity = {key: known[key] for key in _IDENTITY if key in known}
    metadata = identity | dict(essence.get("metadata") or {})
    standard = {"apiVersion": body.get("apiVersion"), "kind": body.get("kind")}
    return {**standard, **essence, "metadata": metadata}


def find_views(fn: Fn, field: FieldPath = ()) -> Views | None:
    """Find the models that the annotations of the function name; ``None`` if there are none."""
    models = {}
    for name, annotation in find_annotations(fn).items():
        model = find_model(annotation) if name in _NAMES else None
        if model is not None:
            models[name] = model
    return Views(models, field) if models else None


def with_views(callback: Any) -> Any:
    """Wrap a callback, or a dictionary of callbacks, to get instances of the models it names."""
    if isinstance(callback, Mapping):
        wrapped = {key: with_views(value) for key, value in callback.items()}
        return callback if all(wrapped[key] is callback[key] for key in wrapped) else wrapped
    views = find_views(callback) if callable(callback) else None
    return callback if views is None else _wrap(callback, views)


def _wrap(fn: Callable[..., Any], views: Views) -> Callable[..., Any]:
    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs | views.read(kwargs))

    return wrapper


def find_annotations(fn: Any) -> Mapping[str, Any]:
    """Find the annotations that can be models. Annotations that cannot be resolved are skipped."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    if not hasattr(fn, "__annotations__") and not isinstance(fn, type):
        fn = getattr(type(fn), "__call__", None)  # noqa: B004
    try:
        raw = _get_raw_annotations(fn)
    except Exception:  # the attribute can be anything
        return {}
    found = {name: raw[name] for name in _ANNOTATED if name in raw}
    resolved = {name: _resolve(fn, name, value) for name, value in found.items()}
    return {name: value for name, value in resolved.items() if value is not None}


def _get_raw_annotations(fn: Any) -> Mapping[str, Any]:
    if sys.version_info >= (3, 14):
        import annotationlib

        return annotationlib.get_annotations(fn, format=annotationlib.Format.FORWARDREF)
    return getattr(fn, "__annotations__", None) or {}


def _resolve(fn: Any, name: str, annotation: Any) -> Any:
    """Resolve the type, even if it is a string; ``None`` if the string cannot be resolved."""
    if isinstance(annotation, type):
        return annotation
    inner = getattr(fn, "__func__", fn)
    try:
        cells = zip(inner.__code__.co_freevars, inner.__closure__ or (), strict=False)
        local = {key: cell.cell_contents for key, cell in cells}
        holder: Any = types.FunctionType(_nothing.__code__, inner.__globals__)
        holder.__annotations__ = {name: annotation}
        return typing.get_type_hints(holder, localns=local, include_extras=True)[name]
    except Exception as e:
        logger.debug(f"The annotation of {name!r} in {fn!r} is not known when it runs: {e}")
        return None


def _nothing() -> None:
    """The code of the temporary function that holds one annotation."""
