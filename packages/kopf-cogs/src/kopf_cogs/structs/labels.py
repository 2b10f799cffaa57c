"""Label selectors as they are written in requests: ``app=web,tier!=back,env in (a,b),!old``."""

import re
from collections.abc import Mapping

_PARTS = re.compile(r",(?![^()]*\))")
_SET = re.compile(r"^(?P<key>\S+)\s+(?P<op>in|notin)\s*\((?P<values>[^()]*)\)$")


def matches_labels(selector: str, labels: Mapping[str, str]) -> bool:
    """Whether the labels match the selector; an empty selector matches all labels."""
    parts = [part.strip() for part in _PARTS.split(selector)]
    return all(_matches(part, labels) for part in parts if part)


def _matches(part: str, labels: Mapping[str, str]) -> bool:
    if found := _SET.match(part):
        values = {value.strip() for value in found["values"].split(",")}
        return (labels.get(found["key"]) in values) == (found["op"] == "in")
    for sign, is_wanted in (("!=", False), ("==", True), ("=", True)):
        key, found_sign, value = part.partition(sign)
        if found_sign:
            return (labels.get(key.strip()) == value.strip()) == is_wanted
    return part[1:].strip() not in labels if part.startswith("!") else part in labels
