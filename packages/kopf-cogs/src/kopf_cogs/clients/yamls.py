"""Loading of YAML files that are written by people and tools, with no surprises."""

import contextlib
import json
from typing import Any

MAX_SIZE = 4 * 1024 * 1024
"""How big the files can be, in bytes."""

MAX_PAIRS = 10_000
"""How big a mapping can become after merging (``<<``) of other mappings to it."""


def load(data: bytes) -> Any:
    """Load a single document. Raises :class:`ValueError` if it is not possible for any reason.

    The documents that take too much time or memory (e.g. "YAML bombs") are refused.
    The texts of errors have the line numbers, but not the content: it can be secret.
    """
    import yaml  # this import is slow, and is not needed in clusters

    class Loader(yaml.SafeLoader):
        """The loader in Python: slower than the loader in C, but it cannot overflow the stack."""

        def flatten_mapping(self, node: yaml.MappingNode) -> None:
            super().flatten_mapping(node)
            if len(node.value) > MAX_PAIRS:
                raise ValueError("too many merged keys")

    if len(data) > MAX_SIZE:
        raise ValueError(f"the file is too big: over {MAX_SIZE} bytes")
    if data.lstrip()[:1] == b"{":  # tabs are permitted in JSON, but not in YAML
        with contextlib.suppress(ValueError, RecursionError):
            return json.loads(data)
    try:
        return yaml.load(data, Loader)
    except yaml.MarkedYAMLError as e:
        where = f" in line {e.problem_mark.line + 1}" if e.problem_mark else ""
        raise ValueError(f"it is not YAML: {e.problem}{where}") from None
    except yaml.YAMLError as e:
        raise ValueError(f"it is not YAML: {type(e).__name__}") from None
    except RecursionError:
        raise ValueError("it is nested too deep") from None
