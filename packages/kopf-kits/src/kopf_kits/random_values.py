"""Random values which fit a schema of OpenAPI: for tests of rules that hold for all objects."""

from __future__ import annotations

import base64
import datetime
import ipaddress
import string
import uuid
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

Schema = Mapping[str, Any]

MAX_ITEMS = 3
"""How many items there are in lists and mappings, unless the schema wants more."""

MAX_DEPTH = 5
"""How deep the structures are where the schema does not limit it."""

_TEXTS = f"{string.ascii_letters}{string.digits} -_.äß語🙂"


def make_value(schema: Schema, random: Random, depth: int = 0) -> Any:
    """A value of the schema. It can break patterns and rules: the caller must check them later."""
    if schema.get("nullable") and random.random() < 0.1:
        return None
    if schema.get("enum"):
        return random.choice(schema["enum"])
    if schema.get("x-kubernetes-int-or-string"):
        return random.choice([random.randint(0, 100), str(random.randint(0, 100))])
    for group in ("oneOf", "anyOf"):
        options = [option for option in schema.get(group) or () if "type" in option]
        if options and "type" not in schema:
            return make_value(random.choice(options), random, depth)
    make = _MAKERS.get(str(schema.get("type")), _make_anything)
    return make(schema, random, depth)


def _make_object(schema: Schema, random: Random, depth: int) -> Any:
    made: dict[str, Any] = {}
    required = schema.get("required") or ()
    for name, prop in (schema.get("properties") or {}).items():
        if name in required or (depth < MAX_DEPTH and random.random() < 0.7):
            made[name] = make_value(prop, random, depth + 1)
    items = schema.get("additionalProperties")
    if isinstance(items, Mapping) and depth < MAX_DEPTH:
        low = schema.get("minProperties") or 0
        for _ in range(random.randint(low, max(low, MAX_ITEMS))):
            made[_make_word(random)] = make_value(items, random, depth + 1)
    if schema.get("x-kubernetes-preserve-unknown-fields") and not made:
        made[_make_word(random)] = _make_anything(schema, random, depth)
    return made


def _make_list(schema: Schema, random: Random, depth: int) -> Any:
    low = schema.get("minItems") or 0
    high = min(schema.get("maxItems") or MAX_ITEMS, max(low, MAX_ITEMS))
    count = random.randint(low, max(low, high)) if depth < MAX_DEPTH else low
    return [make_value(schema.get("items") or {}, random, depth + 1) for _ in range(count)]


def _make_integer(schema: Schema, random: Random, _depth: int) -> Any:
    low = schema.get("minimum", -1000)
    high = schema.get("maximum", max(1000, low + 1000))
    step = schema.get("multipleOf") or 1
    low = low + 1 if schema.get("exclusiveMinimum") else low
    high = high - 1 if schema.get("exclusiveMaximum") else high
    return int(random.randint(-(-int(low) // int(step)), int(high) // int(step)) * step)


def _make_number(schema: Schema, random: Random, depth: int) -> Any:
    if schema.get("multipleOf"):
        return float(_make_integer(schema, random, depth))
    low = float(schema.get("minimum", -1000))
    return round(random.uniform(low, float(schema.get("maximum", max(1000, low + 1000)))), 3)


def _make_text(schema: Schema, random: Random, _depth: int) -> Any:
    maker = _FORMATS.get(str(schema.get("format")))
    if maker is not None:
        return maker(random)
    low = schema.get("minLength") or 0
    high = min(schema.get("maxLength") or 20, max(low, 20))
    return "".join(random.choices(_TEXTS, k=random.randint(low, max(low, high))))


def _make_word(random: Random) -> str:
    return "".join(random.choices(string.ascii_lowercase, k=random.randint(1, 8)))


def _make_anything(_schema: Schema, random: Random, _depth: int) -> Any:
    return random.choice([1, 1.5, "text", True, ["a"], {"a": {"b": 1}}])


def _make_time(random: Random) -> str:
    moment = datetime.datetime.fromtimestamp(random.randint(0, 2**32), datetime.UTC)
    return moment.isoformat().replace("+00:00", "Z")


_MAKERS: Mapping[str, Callable[[Schema, Random, int], Any]] = {
    "object": _make_object,
    "array": _make_list,
    "integer": _make_integer,
    "number": _make_number,
    "string": _make_text,
    "boolean": lambda schema, random, depth: random.random() < 0.5,
}
_FORMATS: Mapping[str, Callable[[Random], str]] = {
    "date-time": _make_time,
    "date": lambda random: _make_time(random)[:10],
    "duration": lambda random: f"{random.randint(0, 23)}h{random.randint(0, 59)}m0s",
    "uuid": lambda random: str(uuid.UUID(int=random.getrandbits(128), version=4)),
    "byte": lambda random: base64.b64encode(random.randbytes(5)).decode("ascii"),
    "ipv4": lambda random: str(ipaddress.IPv4Address(random.getrandbits(32))),
    "ipv6": lambda random: str(ipaddress.IPv6Address(random.getrandbits(128))),
    "cidr": lambda random: f"{ipaddress.IPv4Address(random.getrandbits(24) << 8)}/24",
    "uri": lambda random: f"https://{_make_word(random)}.example.com/{_make_word(random)}",
    "email": lambda random: f"{_make_word(random)}@example.com",
}
