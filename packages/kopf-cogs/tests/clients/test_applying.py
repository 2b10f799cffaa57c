"""Server-side applies: their bodies are JSON, but the API server reads them as YAML."""

import json
from typing import Any

import pytest
import yaml

from kopf_cogs.clients.objects import ObjectsAPI
from kopf_cogs.clients.session import Client
from kopf_cogs.structs.resources import Resource

ODD = [*range(0x20), 0x22, 0x5C, *range(0x7E, 0xA2), 0x2028, 0x2029, 0xFEFF, 0xFFFD, 0xFFFE, 0xFFFF]
TEXT = "".join(f"{chr(code)} й🐍 " for code in ODD)


@pytest.mark.parametrize("data", [{"key": TEXT}, {TEXT: "value"}], ids=["value", "key"])
async def test_h3_odd_characters_are_applied_as_they_are(
    server: Any, client: Client, resource: Resource, data: dict[str, str]
) -> None:
    server.script(server.reply({}))
    await ObjectsAPI(client).apply(
        {"metadata": {"name": "x"}, "data": data}, kind=resource, namespace="ns"
    )
    [request] = server.requests
    assert request.headers["Content-Type"] == "application/apply-patch+yaml"
    assert yaml.safe_load(request.body)["data"] == data
    assert json.loads(request.body)["data"] == data


async def test_usual_characters_are_applied_with_no_escapes(
    server: Any, client: Client, resource: Resource
) -> None:
    server.script(server.reply({}))
    body = {"metadata": {"name": "x"}, "data": {"key": "йü…🐍"}}
    await ObjectsAPI(client).apply(body, kind=resource, namespace="ns")
    assert "йü…🐍".encode() in server.requests[0].body
