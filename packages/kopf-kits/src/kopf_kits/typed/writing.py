"""Typed dictionaries as a module of Python, as people would write it by hand."""

from __future__ import annotations

import keyword
import textwrap
from collections.abc import Iterable, Iterator
from typing import Final

from kopf_kits.typed.reading import Key, Structure

_WIDTH: Final = 100
_IMPORTED: Final = ("Any", "Literal", "NotRequired", "TypedDict")


def write_module(structures: Iterable[Structure], origin: str) -> str:
    """The source of the module. The origin tells its readers what the module is made of."""
    blocks = [_write_structure(structure) for structure in structures]
    body = "\n\n\n".join(blocks)
    names = ", ".join(name for name in _IMPORTED if name in body)
    title = textwrap.fill(f'"""{origin}"""', _WIDTH)
    return (
        f"{title}\n\n# ruff: noqa\n\nfrom __future__ import annotations\n\n"
        f"from typing import {names}\n\n\n{body}\n"
    )


def _write_structure(structure: Structure) -> str:
    """A class; or, if some of the keys cannot be its attributes, a call that makes the same."""
    if all(key.name.isidentifier() and not keyword.iskeyword(key.name) for key in structure.keys):
        return "\n".join(_write_class(structure))
    return "\n".join(_write_call(structure))


def _write_class(structure: Structure) -> Iterator[str]:
    yield f"class {structure.name}(TypedDict):"
    yield from _write_text(structure.text)
    for index, key in enumerate(structure.keys):
        if index or structure.text:
            yield ""
        yield from _write_key(f"    {key.name}: ", key, "")
        yield from _write_text(key.text)


def _write_call(structure: Structure) -> Iterator[str]:
    yield f"{structure.name} = TypedDict("
    yield f'    "{structure.name}",'
    yield "    {"
    for key in structure.keys:
        quoted = Key(key.name, _quote_forward(key.type), key.required)
        yield from _write_key(f'        "{key.name}": ', quoted, ",")
    yield "    },"
    yield ")"


def _quote_forward(type_: str) -> str:
    """The whole type as a text: it can name classes that are further below."""
    return "'" + type_ + "'"


def _write_key(start: str, key: Key, end: str) -> Iterator[str]:
    type_ = key.type if key.required else f"NotRequired[{key.type}]"
    line = f"{start}{type_}{end}"
    if len(line) <= _WIDTH or "Literal[" not in line:
        yield line
        return
    before, _, rest = line.partition("Literal[")
    options, closing = rest.split("]", 1)
    indent = " " * (len(start) - len(start.lstrip()) + 4)
    yield f"{before}Literal["
    for option in options.split(", "):
        yield f"{indent}{option},"
    yield f"{indent[4:]}]{closing}"


def _write_text(text: str) -> Iterator[str]:
    if not text:
        return
    quoted = text.replace("\\", "\\\\").replace('"""', "'''")
    quoted = f"{quoted[:-1]}'" if quoted.endswith('"') else quoted
    yield from textwrap.wrap(
        f'"""{quoted}."""', _WIDTH, initial_indent="    ", subsequent_indent="    "
    )
