"""Rules for names, labels, and annotations, with the messages that API servers give."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from kopf_kits.sandbox.base.statuses import Cause

from .validation import invalid_value

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_1035 = r"[a-z]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"
_ANNOTATIONS_LIMIT = 262144

_STYLES: dict[str, tuple[re.Pattern[str], int, str]] = {
    "subdomain": (
        re.compile(_SUBDOMAIN), 253,
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' "
        "or '.', and must start and end with an alphanumeric character (e.g. 'example.com', "
        rf"regex used for validation is '{_LABEL}(\.{_LABEL})*')",
    ),
    "label": (
        re.compile(_LABEL), 63,
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
        "and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', "
        f"regex used for validation is '{_LABEL}')",
    ),
    "label1035": (
        re.compile(_LABEL_1035), 63,
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with "
        "an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or "
        f"'abc-123', regex used for validation is '{_LABEL_1035}')",
    ),
}  # fmt: skip
_QUALIFIED_TEXT = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    r"validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_KEY_TEXT = (
    "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start "
    "and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex "
    "used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS "
    "subdomain prefix and '/' (e.g. 'example.com/MyName')"
)
_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  "
    "or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_re_qualified = re.compile(_QUALIFIED)
_re_value = re.compile(_VALUE)


def check_name(
    name: str, style: str, path: str = "metadata.name", *, prefix: bool = False
) -> Iterator[Cause]:
    """Tell what is wrong with the name of an object, or with a prefix of a name."""
    shown, name = name, name[:-1] + "a" if prefix and name.endswith("-") else name
    if style == "path":
        if name in (".", ".."):
            yield invalid_value(path, shown, f"may not be '{name}'")
        for char in "/%":
            if char in name:
                yield invalid_value(path, shown, f"may not contain '{char}'")
        return
    pattern, limit, text = _STYLES[style]
    if len(name) > limit:
        yield invalid_value(path, shown, f"must be no more than {limit} characters")
    if "." in name and style != "subdomain":
        yield invalid_value(path, shown, "must not contain dots")
    elif not pattern.fullmatch(name):
        yield invalid_value(path, shown, text)


@lru_cache(maxsize=10_000)
def _qualified_problems(name: str) -> tuple[str, ...]:
    prefix, slash, rest = name.rpartition("/")
    if "/" in prefix:
        return (_KEY_TEXT,)
    problems = []
    if slash and not prefix:
        problems.append("prefix part must be non-empty")
    elif slash:
        pattern, limit, text = _STYLES["subdomain"]
        if len(prefix) > limit:
            problems.append(f"prefix part must be no more than {limit} characters")
        if not pattern.fullmatch(prefix):
            problems.append(f"prefix part {text}")
    if not rest:
        problems.append("name part must be non-empty")
    elif len(rest) > 63:
        problems.append("name part must be no more than 63 characters")
    if not _re_qualified.fullmatch(rest):
        problems.append(_QUALIFIED_TEXT)
    return tuple(problems)


def check_qualified(name: str, path: str) -> Iterator[Cause]:
    """Tell what is wrong with the name of a label, an annotation, or a finalizer."""
    for problem in _qualified_problems(name):
        yield invalid_value(path, name, problem)


def check_labels(labels: dict[str, Any], path: str = "metadata.labels") -> Iterator[Cause]:
    for key, value in labels.items():
        yield from check_qualified(key, path)
        if len(value) > 63:
            yield invalid_value(path, value, "must be no more than 63 bytes")
        if not _re_value.fullmatch(value):
            yield invalid_value(path, value, _VALUE_TEXT)


def check_annotations(
    annotations: dict[str, Any], path: str = "metadata.annotations"
) -> Iterator[Cause]:
    size = 0
    for key, value in annotations.items():
        yield from check_qualified(key.lower(), path)
        size += len(key.encode()) + len(value.encode("utf-8", "surrogatepass"))
    if size > _ANNOTATIONS_LIMIT:
        text = f"Too long: may not be more than {_ANNOTATIONS_LIMIT} bytes"
        yield Cause("FieldValueTooLong", path, text)
