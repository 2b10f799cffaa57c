"""Definitions as YAML, as people would write it by hand."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import yaml


def dump(objects: Iterable[Any]) -> str:
    """Write the objects one after another, as documents of one YAML file."""
    return yaml.dump_all(
        objects,
        Dumper=_Dumper,
        sort_keys=False,
        explicit_start=True,
        allow_unicode=True,
        width=100,
    )


class Quoting(yaml.SafeDumper):
    """Quotes also the texts that other readers, such as kubectl, take for something else."""


Quoting.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("[yYnN]$"), [*"yYnN"])
Quoting.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$"),
    [*"-+.0123456789"],
)
Quoting.add_implicit_resolver("tag:yaml.org,2002:int", re.compile("[-+]?0[oO][0-7]+$"), [*"-+0"])


class _Dumper(Quoting):
    """Writes texts of several lines as they are, and repeats equal objects instead of aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_text(self, data: str) -> yaml.Node:
        style = "|" if "\n" in data else None
        return self.represent_scalar("tag:yaml.org,2002:str", data, style=style)


_Dumper.add_representer(str, _Dumper.represent_text)
