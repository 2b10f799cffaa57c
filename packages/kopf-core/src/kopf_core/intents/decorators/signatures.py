"""Signatures of the decorators: the options are declared once, as a dictionary of types.

``**options: Unpack[SomeOptions]`` is enough for type checkers and editors. At run time, it means
"anything". So :func:`spelled_out` refuses unknown options, and puts the known ones into the
signature for ``help()``, documentation, and other tools.
"""

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar, get_args, get_type_hints

from kopf_cogs.helpers.similar import find_similar

F = TypeVar("F", bound=Callable[..., Any])


def spelled_out(fn: F) -> F:
    """Make the function take only the options of ``**options: Unpack[SomeOptions]``.

    Unknown and missing options are :class:`TypeError`, as with a usual signature.
    """
    signature = inspect.signature(fn)
    *positional, variadic = signature.parameters.values()
    [options] = get_args(variadic.annotation)
    known, required = set(options.__annotations__), options.__required_keys__
    named = {param.name for param in positional if param.kind is param.POSITIONAL_OR_KEYWORD}

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if unknown := kwargs.keys() - known - named:
            raise TypeError(_explain_unknown(fn.__name__, sorted(unknown), known))
        if not required <= kwargs.keys():
            names = ", ".join(f"{name}=" for name in sorted(required - kwargs.keys()))
            raise TypeError(f"{fn.__name__}() needs the keyword argument {names}")
        if args and not positional and inspect.isroutine(args[0]):
            used = f"it was used for {args[0].__qualname__!r}"
            raise TypeError(f"The decorator needs parentheses: {fn.__name__}(); {used}.")
        return fn(*args, **kwargs)

    parameters = [*positional, *_spell(options)]
    wrapper.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return wrapper  # type: ignore[return-value]


def _spell(options: Any) -> Iterator[inspect.Parameter]:
    for name, annotation in get_type_hints(options).items():
        default = inspect.Parameter.empty if name in options.__required_keys__ else None
        yield inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
        )


def _explain_unknown(name: str, unknown: Iterable[str], known: Iterable[str]) -> str:
    word, *_ = unknown
    match _find_decorators(word):
        case [other]:
            hint = f". It is an option of {other}()"
        case _:
            close = find_similar(word, known)
            hint = f". Did you mean {close!r}?" if close else ""
    return f"{name}() got an unexpected keyword argument {word!r}{hint}"


def _find_decorators(option: str) -> list[str]:
    """The names of the decorators that have this option."""
    from kopf_core.intents import decorators  # only for mistakes: the package imports this module

    signatures = {name: inspect.signature(getattr(decorators, name)) for name in decorators.__all__}
    return [name for name, signature in signatures.items() if option in signature.parameters]
