"""The decorator for conversions between the versions of a kind: ``@kopf.on.convert``."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack

from kopf_core.intents.conversions import ConversionHandler
from kopf_core.intents.decorators.declaring import Decorator, make_handler_id
from kopf_core.intents.decorators.signatures import spelled_out
from kopf_core.intents.registries import OperatorRegistry, get_default_registry
from kopf_core.intents.views import find_annotations, find_views

if TYPE_CHECKING:  # most operators do without them
    from kopf_cogs.structs.definitions import Definition

F = TypeVar("F", bound=Callable[..., Any])


class ConvertOptions(TypedDict, total=False):
    """The options of ``@kopf.on.convert``."""

    kind: str | None
    """The name of the kind with its group, e.g. ``websites.example.com``. By default, it is
    the kind of the converted models.
    """

    id: str | None
    """The identity of the function in logs; by default, its name."""

    param: Any
    """An arbitrary value, passed to the function as it is."""

    registry: OperatorRegistry | None
    """By default, the registry of this process: :func:`kopf.get_default_registry`."""


@spelled_out
def convert(
    source: str | type[Any], target: str | type[Any], /, **options: Unpack[ConvertOptions]
) -> Decorator:
    """Called to make an object of the ``target`` version from an object of the ``source`` version.

    The versions are their names, such as ``v1beta1``, or classes with ``@kopf.resource``.
    The function gets the ``body`` as a dictionary of its own. It changes this dictionary in place,
    or returns another one. If the argument is annotated with a model, the function gets
    an instance of this model, and returns an instance of another model. Kopf keeps the metadata,
    except labels and annotations.

    The API server asks for conversions through the webhook server of the operator. If there is
    no function for a pair of versions, several functions are called one after another.
    Raises :class:`TypeError` if it is not known which kind it is for.
    """
    models = [one for one in (source, target) if isinstance(one, type)]

    def decorator(fn: F) -> F:
        from kopf_cogs.structs.definitions import definition_of

        found = [definition_of(cls) for cls in (*models, *find_annotations(fn).values())]
        definitions = [one for one in found if one is not None]
        handler = ConversionHandler(
            fn=fn,
            id=make_handler_id(fn, options.get("id")),
            param=options.get("param"),
            kind=_find_kind(options.get("kind"), definitions, fn),
            source=_find_version(source),
            target=_find_version(target),
            views=find_views(fn),
        )
        registry = options.get("registry") or get_default_registry()
        registry.append(handler)
        return fn

    return decorator


def _find_version(version: str | type[Any]) -> str:
    if isinstance(version, str):
        return version.rpartition("/")[2]
    from kopf_cogs.structs.definitions import definition_of

    definition = definition_of(version)
    if definition is None:
        raise TypeError(f"There is no @kopf.resource on {version.__qualname__}.")
    return definition.version


def _find_kind(name: str | None, definitions: "list[Definition]", fn: Any) -> str:
    names = {name} if name is not None else {definition.name for definition in definitions}
    kind = names.pop() if len(names) == 1 else None
    if kind is None or "." not in kind:
        raise TypeError(
            f"It is not clear which kind {fn!r} converts: name it with the group, "
            f"e.g. kind='websites.example.com', or convert the classes with @kopf.resource."
        )
    return kind
