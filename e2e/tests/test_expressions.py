"""Expressions of CEL with the functions of Kubernetes: the sandbox has the same values of them."""

from __future__ import annotations

from typing import Any

from e2e.tests.harness import CRDS, World, make_crd

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "maxLength": 20},
        "absent": {"type": "string", "maxLength": 20},
        "ip": {"type": "string", "maxLength": 20},
        "cidr": {"type": "string", "maxLength": 20},
        "url": {"type": "string", "maxLength": 50},
        "time": {"type": "string", "format": "date-time"},
        "span": {"type": "string", "format": "duration"},
        "port": {"x-kubernetes-int-or-string": True, "maxLength": 20},
        "items": {"type": "array", "maxItems": 9, "items": {"type": "integer"}},
        "map": {
            "type": "object",
            "maxProperties": 9,
            "additionalProperties": {"type": "string", "maxLength": 9},
        },
    },
}
SPEC = {
    "text": "a-b-c",
    "ip": "10.0.0.1",
    "cidr": "10.0.0.0/8",
    "url": "https://user@example.com:80/path?a=1&a=2",
    "time": "2026-01-31T10:20:30Z",
    "span": "1h30m",
    "port": 80,
    "items": [1, 2, 2, 3],
    "map": {"k": "v"},
}
TRUE = [
    "self.?text.hasValue() && !self.?absent.hasValue()",
    "self.?absent.orValue('x') == 'x'",
    "self.?text.optMap(t, t.startsWith('a')).value() && !self.?absent.optMap(t, t).hasValue()",
    "self.map[?'k'].orValue('') == 'v' && self.map[?'z'].orValue('') == ''",
    "optional.of(1).or(optional.of(2)).value() == 1",
    "optional.none().or(optional.of(2)).value() == 2",
    "!optional.ofNonZeroValue('').hasValue()",
    "self.text.split('-') == ['a', 'b', 'c']",
    "self.text.split('-', 2) == ['a', 'b-c']",
    "self.text.indexOf('-') == 1 && self.text.lastIndexOf('-') == 3",
    "self.text.charAt(0) == 'a' && self.text.substring(2, 3) == 'b'",
    "self.text.replace('-', '') == 'abc' && self.text.replace('-', '', 1) == 'ab-c'",
    "self.text.find('[b-z]') == 'b' && self.text.find('[0-9]') == ''",
    "self.text.findAll('[a-z]') == ['a', 'b', 'c']",
    "self.text.findAll('[a-z]', 2) == ['a', 'b']",
    "self.items.isSorted() && self.items.sum() == 8",
    "self.items.min() == 1 && self.items.max() == 3",
    "self.items.indexOf(2) == 1 && self.items.lastIndexOf(2) == 2",
    "self.items.map(i, i > 2, i * 2) == [6]",
    "self.items.exists_one(i, i == 3) && !self.items.exists_one(i, i == 2)",
    "sets.contains(self.items, [1, 3]) && !sets.contains(self.items, [4])",
    "sets.equivalent(self.items, [3, 2, 1]) && sets.intersects(self.items, [3, 4])",
    "isIP(self.ip) && !isIP('10.0.0') && ip(self.ip).family() == 4",
    "ip('::1').isLoopback() && ip.isCanonical('::1') && !ip.isCanonical('0:0::1')",
    "isCIDR(self.cidr) && cidr(self.cidr).containsIP(self.ip)",
    "cidr(self.cidr).containsCIDR('10.1.0.0/16') && cidr(self.cidr).prefixLength() == 8",
    "cidr('10.1.2.3/8').masked() == cidr(self.cidr) && cidr(self.cidr).ip() == ip('10.0.0.0')",
    "isURL(self.url) && !isURL('x')",
    "url(self.url).getScheme() == 'https' && url(self.url).getHostname() == 'example.com'",
    "url(self.url).getHost() == 'example.com:80' && url(self.url).getPort() == '80'",
    "url(self.url).getEscapedPath() == '/path' && url(self.url).getQuery()['a'] == ['1', '2']",
    "self.time.getFullYear() == 2026 && self.time.getMonth() == 0 && self.time.getDate() == 31",
    "self.time.getDayOfWeek() == 6 && self.time.getDayOfYear() == 30 && self.time.getHours() == 10",
    "self.span.getMinutes() == 90 && self.span > duration('1h')",
    "self.time + self.span < timestamp('2026-01-31T12:00:00Z')",
    "type(self.port) == int && type(self.text) == string",
    "quantity('1Gi').compareTo(quantity('1024Mi')) == 0",
    "quantity('1').add(quantity('500m')).isGreaterThan(quantity('1'))",
]


async def send(world: World, plural: str, rules: list[str]) -> Any:
    """Define a kind with such rules, and try to create an object of it."""
    schema = {**SCHEMA, "x-kubernetes-validations": [{"rule": rule} for rule in rules]}
    root = {"type": "object", "properties": {"spec": schema}}
    crd = make_crd(plural, plural.capitalize(), schema={"openAPIV3Schema": root})
    group = crd["spec"]["group"] = f"{world.namespace}.dev"
    crd["metadata"]["name"] = f"{plural}.{group}"
    await world.request("POST", CRDS, crd)
    body = {"apiVersion": f"{group}/v1", "kind": plural.capitalize(), "spec": SPEC}
    url = f"/apis/{group}/v1/namespaces/{world.namespace}/{plural}?dryRun=All"
    while True:
        answer = await world.attempt("POST", url, {**body, "metadata": {"name": "x"}})
        if answer.status not in (404, 429):  # the kind is served a moment later
            return answer


async def test_expressions_are_evaluated_as_by_the_api(world: World) -> None:
    accepted = await send(world, "trues", TRUE)
    assert accepted.status == 201, accepted.body
    assert not accepted.warnings
    refused = await send(world, "falses", [f"!({rule})" for rule in TRUE])
    assert refused.status == 422
    messages = [cause["message"] for cause in refused.body["details"]["causes"]]
    assert len(messages) == len(TRUE)
    for rule in TRUE:
        assert any(f"failed rule: !({rule})" in message for message in messages), rule
