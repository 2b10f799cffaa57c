"""Bodies of requests in protocol buffers: some commands of kubectl send built-in kinds so.

Responses are always in JSON, which all such clients accept too.
"""

from __future__ import annotations

import base64
import datetime
import struct
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Any

from kopf_kits.sandbox.base import jsons

from . import reviews

Obj = dict[str, Any]
Field = list[str]
_MAGIC = b"k8s\0"
_TIMES = ("Time", "MicroTime")
_ZEROS = frozenset(
    (
        "replicas", "backoffLimit", "parallelism", "completions", "partition",
        "revisionHistoryLimit", "ttlSecondsAfterFinished", "terminationGracePeriodSeconds",
        "gracePeriodSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit", "value",
    )
)  # fmt: skip
"""Fields where an explicit zero means something; elsewhere zeros are the absence of values."""


def decode_body(data: bytes) -> Obj:
    """Decode a whole body; raises ``ValueError`` if it is not understood."""
    if not data.startswith(_MAGIC):
        raise ValueError("provided data does not appear to be a protobuf message")
    envelope = dict(_split(data[len(_MAGIC) :]))
    head = dict(_split(envelope.get(1, b"")))
    api_version, kind = head.get(1, b"").decode(), head.get(2, b"").decode()
    group, _, version = api_version.rpartition("/")
    name = _schemas().kinds.get(f"{group}/{version}/{kind}")
    if name is None and kind == "DeleteOptions":
        name = _schemas().kinds["/v1/DeleteOptions"]
    if name is None:
        raise ValueError(f"unknown kind {kind} of {api_version}")
    return {"apiVersion": api_version, "kind": kind, **_message(name, envelope.get(2, b""))}


class _Schemas:
    def __init__(self) -> None:
        text = files(__package__).joinpath("protobufs.json").read_bytes()
        document = jsons.loads(text)
        self.kinds: dict[str, str] = document["kinds"] | reviews.KINDS
        self.messages: dict[str, dict[str, Field]] = document["messages"] | reviews.MESSAGES


@cache
def _schemas() -> _Schemas:
    return _Schemas()


def _split(data: bytes) -> Iterator[tuple[int, Any]]:
    """The numbers and the raw values of the fields of a message."""
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        match tag & 7:
            case 0:
                value, position = _varint(data, position)
                yield tag >> 3, value
            case 1:
                yield tag >> 3, struct.unpack_from("<d", data, position)[0]
                position += 8
            case 2:
                size, position = _varint(data, position)
                if position + size > len(data):
                    raise ValueError("unexpected EOF")
                yield tag >> 3, data[position : position + size]
                position += size
            case 5:
                yield tag >> 3, struct.unpack_from("<f", data, position)[0]
                position += 4
            case other:
                raise ValueError(f"unknown wire type {other}")


def _varint(data: bytes, position: int) -> tuple[int, int]:
    result = shift = 0
    while position < len(data):
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, position
        shift += 7
    raise ValueError("unexpected EOF")


def _message(name: str, data: bytes) -> Obj:
    fields = _schemas().messages[name]
    result: Obj = {}
    for number, raw in _split(data):
        if str(number) not in fields:
            continue
        mode, kind, field = fields[str(number)]
        if mode == "map":
            entry = dict(_split(raw))
            key = entry.get(1, b"").decode()
            result.setdefault(field, {})[key] = _value(kind, entry.get(2, b""))
            continue
        value = _value(kind, raw)
        if mode == "repeated":
            result.setdefault(field, []).append(value)
        elif mode == "inline":
            result.update(value)
        elif _matters(field, value):
            result[field] = value
    return result


def _matters(field: str, value: Any) -> bool:
    if value == 0 and isinstance(value, int) and not isinstance(value, bool):
        return field in _ZEROS
    return value not in (None, "", False) and value != {}


def _value(kind: str, raw: Any) -> Any:
    short = kind.rpartition(".")[2]
    if short == "string":
        return raw.decode()
    if short == "bytes":
        return base64.b64encode(raw).decode()
    if short == "bool":
        return bool(raw)
    if short in ("int32", "int64"):
        return raw - (1 << 64) if raw >= 1 << 63 else raw
    if short in _SPECIAL:
        return _special(short, raw)
    return _message(kind, raw) if kind in _schemas().messages else raw


_SPECIAL = (*_TIMES, "Quantity", "IntOrString", "FieldsV1", "RawExtension", "JSON")


def _special(short: str, raw: bytes) -> Any:
    fields = dict(_split(raw))
    if short in _TIMES:
        if not fields.get(1):
            return None
        moment = datetime.datetime.fromtimestamp(fields[1], datetime.UTC)
        moment = moment.replace(microsecond=fields.get(2, 0) // 1000)
        precise = short == "MicroTime"
        return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ" if precise else "%Y-%m-%dT%H:%M:%SZ")
    if short == "IntOrString":
        return fields.get(3, b"").decode() if fields.get(1) else fields.get(2, 0)
    text = fields.get(1, b"")
    if short == "Quantity":
        return text.decode()
    return jsons.loads(text) if text else None
