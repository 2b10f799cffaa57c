"""Definitions as YAML, as people would write it by hand."""

from __future__ import annotations

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


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as they are, and repeats what is the same."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_text(self, data: str) -> yaml.Node:
        style = "|" if "\n" in data else None
        return self.represent_scalar("tag:yaml.org,2002:str", data, style=style)


_Dumper.add_representer(str, _Dumper.represent_text)
