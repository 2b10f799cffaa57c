"""The checks of schemas in detail: patterns, numbers, formats, rules."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

from e2e.conformance.api import Api
from e2e.conformance.objects import make_crd, make_version
from e2e.conformance.registry import Area

area = Area("checks")
TEXT = {"type": "string", "maxLength": 30}  # unlimited texts make rules too costly
Pair = tuple[Any, Any]


def make_things(api: Api, fields: dict[str, Any], **spec: Any) -> dict[str, Any]:
    inner = {"type": "object", "properties": fields, **spec}
    version = make_version(schema={"type": "object", "properties": {"spec": inner}})
    return make_crd(f"{api.namespace}.dev", "Thing", version)


@contextlib.asynccontextmanager
async def serve_things(api: Api, fields: dict[str, Any], **spec: Any) -> AsyncIterator[str]:
    """Define a kind with these fields in its spec; it is given by its path."""
    await api.make("customresourcedefinitions", make_things(api, fields, **spec))
    path = f"/apis/{api.namespace}.dev/v1/namespaces/{api.namespace}/things"
    await api.settle(path, "kind", "ThingList")
    try:
        yield path
    finally:
        await api.delete(f"customresourcedefinitions/things.{api.namespace}.dev")


def thing(api: Api, spec: Any) -> dict[str, Any]:
    meta = {"metadata": {"name": "x"}}
    return {"apiVersion": f"{api.namespace}.dev/v1", "kind": "Thing", **meta, "spec": spec}


async def try_values(api: Api, pairs: Sequence[tuple[dict[str, Any], Any]]) -> list[Any]:
    """Create objects, each with one field; show whether they are accepted, and why not."""
    fields = {f"f{index}": schema for index, (schema, _) in enumerate(pairs)}
    shown = []
    async with serve_things(api, fields) as path:
        for index, (_, value) in enumerate(pairs):
            reply = await api.create(path, thing(api, {f"f{index}": value}), dryRun="All")
            shown.append([reply.code, [cause["message"] for cause in causes_of(reply.body)]])
    return shown


async def try_rules(api: Api, fields: dict[str, Any], spec: Any, *rules: str) -> list[Any]:
    """Create an object; show which of the rules do not hold."""
    validations = [{"rule": rule} for rule in rules]
    async with serve_things(api, fields, **{"x-kubernetes-validations": validations}) as path:
        reply = await api.create(path, thing(api, spec), dryRun="All")
    return sorted(cause["message"] for cause in causes_of(reply.body))


def causes_of(body: Any) -> list[dict[str, Any]]:
    causes: list[dict[str, Any]] = body.get("details", {}).get("causes") or []
    return causes


def patterns(*pairs: tuple[str, str]) -> list[Pair]:
    return [({"type": "string", "pattern": pattern}, value) for pattern, value in pairs]


def formats(*pairs: tuple[str, str]) -> list[Pair]:
    return [({"type": "string", "format": format}, value) for format, value in pairs]


@area.behaviour("Patterns end at the end of the text, not before its last newline")
async def ends(api: Api) -> Any:
    return await try_values(
        api, patterns(("^a$", "a\n"), (r"^a\z", "a\n"), ("(?m)^a$", "a\nb"), ("^a.b$", "a\nb"))
    )


@area.behaviour("Classes of characters in patterns are those of ASCII")
async def ascii_classes(api: Api) -> Any:
    return await try_values(
        api,
        patterns(
            (r"^\d$", "\u0661"),
            (r"^\w$", "\u00e9"),
            (r"^\s$", "\u00a0"),
            (r"^\s$", "\v"),
            ("^a\\b\u00e9$", "a\u00e9"),
            ("^[[:alpha:]]$", "a"),
            ("^[[:alpha:]]$", "\u00e9"),
        ),
    )


@area.behaviour("Categories of Unicode can be used in patterns")
async def categories(api: Api) -> Any:
    pairs = [(r"^\pL+$", "abc\u00e9"), (r"^\pL+$", "123"), (r"^\p{Lu}$", "A"), (r"^\p{Lu}$", "a")]
    return await try_values(api, patterns(*pairs, (r"^[\PN]$", "1"), (r"^\p{^N}$", "a")))


@area.behaviour("Patterns can ignore the case, and have braces that are not repetitions")
async def odd_patterns(api: Api) -> Any:
    pairs = [("(?i)^k$", "K"), ("^a{,2}$", "aa"), ("^a{,2}$", "a{,2}"), (r"^\Qa.b\E$", "a.b")]
    return await try_values(api, patterns(*pairs, ("(?i)^[a-z]+$", "ABC"), ("^(?P<n>a)$", "a")))


@area.behaviour("Definitions with patterns that RE2 does not know are refused")
async def wrong_patterns(api: Api) -> Any:
    shown = []
    for pattern in ["(?=a)b", "a**", r"a\Z", r"(a)\1", "[z-a]", "(a", "a)", "a++", "*", "a{1001}"]:
        crd = make_things(api, {"text": {"type": "string", "pattern": pattern}})
        reply = await api.create("customresourcedefinitions", crd, dryRun="All")
        shown.append([reply.code, [cause["message"] for cause in causes_of(reply.body)]])
    return shown


@area.behaviour("Decimals can be multiples of decimals")
async def multiples(api: Api) -> Any:
    decimals: list[tuple[float, float]] = [
        (0.1, 0.3),
        (0.1, 3),
        (0.5, 1),
        (0.1, 0.35),
        (0.01, 0.07),
        (0.01, 1.1),
        (0.5, 1.5),
        (2, 3.0),
        (2, 4.0),
    ]
    whole = [({"type": "integer", "multipleOf": 5}, value) for value in (10, 11)]
    numbers = [({"type": "number", "multipleOf": factor}, value) for factor, value in decimals]
    return await try_values(api, [*numbers, *whole])


@area.behaviour("Formats of texts are checked")
async def texts(api: Api) -> Any:
    pairs = [("uri", "https://x/y"), ("uri", "x y"), ("uri", "x"), ("mac", "01:23:45:67:89:ab")]
    pairs += [("mac", "x"), ("uuid", "{00000000-0000-0000-0000-000000000000}"), ("email", "a@b.c")]
    pairs += [("uuid4", "00000000-0000-1000-8000-000000000000"), ("hexcolor", "#12345")]
    pairs += [("rgbcolor", "rgb(1,2,300)"), ("ssn", "1"), ("email", "a b"), ("hostname", "a_b")]
    pairs += [("ipv4", "1.2.3"), ("ipv6", "::1"), ("cidr", "10.0.0.0/33"), ("byte", "a")]
    pairs += [("date", "20200101"), ("date", "2020-02-30"), ("whatever", "x"), ("password", "x")]
    return await try_values(api, formats(*pairs))


@area.behaviour("Formats of times are checked")
async def times(api: Api) -> Any:
    pairs = [("duration", "1h30m"), ("duration", "1 day"), ("duration", "x"), ("duration", "")]
    pairs += [("date-time", "2020-01-01T00:00:00+01:00"), ("date-time", "2020-01-01T25:00:00Z")]
    pairs += [("date-time", "2020-01-01 00:00:00Z"), ("date-time", "2020-01-01t00:00:00.5z")]
    return await try_values(api, formats(*pairs))


@area.behaviour("Names of Kubernetes are formats since 1.34")
async def names(api: Api) -> Any:
    pairs = [("k8s-short-name", "a-b"), ("k8s-short-name", "A"), ("k8s-long-name", "a.b")]
    return await try_values(api, formats(*pairs, ("k8s-long-name", "a..b")))


@area.behaviour("Rules can compare durations")
async def durations(api: Api) -> Any:
    fields: Any = {"time": {**TEXT, "format": "duration"}, "text": TEXT}
    rules = ["self.time < duration('2h')", "self.time < duration('80m')", "self.time == self.time"]
    rules += ["duration(self.text) > duration('1m')", "self.time + duration('1m') > self.time"]
    rules += ["duration(self.text) > duration('1m30s')", "duration(self.text) == duration('0.5s')"]
    return await try_rules(api, fields, {"time": "1h30m", "text": "90s"}, *rules)


@area.behaviour("Rules can compare times")
async def timestamps(api: Api) -> Any:
    fields: Any = {"time": {**TEXT, "format": "date-time"}}
    rules = ["self.time < timestamp('2020-01-01T00:30:00Z')", "self.time == self.time"]
    rules += ["self.time - timestamp('2020-01-01T00:00:00Z') == duration('-1h')"]
    return await try_rules(api, fields, {"time": "2020-01-01T00:00:00+01:00"}, *rules)


@area.behaviour("Rules can compare quantities")
async def quantities(api: Api) -> Any:
    fields: Any = {"size": TEXT}
    rules = ["quantity(self.size).isGreaterThan(quantity('1000M'))", "isQuantity(self.size)"]
    rules += ["quantity(self.size).isLessThan(quantity('1Gi'))", "isQuantity('1 Gi')"]
    rules += ["quantity(self.size).compareTo(quantity('1024Mi')) == 0"]
    rules += ["quantity(self.size).add(1).sub(quantity('1')).isInteger()"]
    rules += ["quantity('1.5').asApproximateFloat() == 1.5", "quantity('2k').asInteger() == 2000"]
    rules += ["quantity('x').isInteger()", "quantity('1500m') == quantity('1.5')"]
    return await try_rules(api, fields, {"size": "1Gi"}, *rules)


@area.behaviour("Rules can do much with texts and lists")
async def functions(api: Api) -> Any:
    fields: Any = {"text": TEXT, "list": {"type": "array", "maxItems": 9, "items": TEXT}}
    rules = [r"self.text.matches('^\\d+$')", "self.list.indexOf('z') == -1"]
    rules += ["self.list.isSorted()", "self.text.lowerAscii() == 'abc'", "self.text.size() == 3"]
    rules += ["self.text.substring(1) == 'bc'", "self.list.join('-') == 'a-b'", "'a' in self.list"]
    return await try_rules(api, fields, {"text": "abc", "list": ["a", "b"]}, *rules)


@area.behaviour("Rules that are about what has not changed are not checked again")
async def unchanged(api: Api) -> Any:
    text: dict[str, Any] = {"type": "string"}
    fields: Any = {"text": text, "other": {"type": "string"}}
    async with serve_things(api, fields) as path:
        await api.create(path, thing(api, {"text": "long"}))
        text["x-kubernetes-validations"] = [{"rule": "self.size() < 3"}]
        crd = make_things(api, fields)
        await api.patch(f"customresourcedefinitions/things.{api.namespace}.dev", crd)
        probe = thing(api, {"text": "long"}) | {"metadata": {"name": "probe"}}
        while (await api.create(path, probe, dryRun="All")).ok:
            pass  # until the rule is in use
        same = await api.patch(f"{path}/x", {"spec": {"other": "o"}})
        changed = await api.patch(f"{path}/x", {"spec": {"text": "longer"}})
    return [same.show("spec"), changed.show()]
