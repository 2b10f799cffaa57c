"""Round trips of conversions: whether objects survive the way to another version and back."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

from kopf_cogs.structs.definitions import Definition, definition_of
from kopf_cogs.structs.models import Model, find_model
from kopf_cogs.structs.shapes import write
from kopf_core.engines.admission.converting import PREFIX, REVIEW, Converter
from kopf_core.intents.registries import OperatorRegistry, get_default_registry
from kopf_kits.random_values import make_value

Obj = dict[str, Any]
ATTEMPTS = 200
"""How many values Kopf tries for one object: random values can break some of the limits."""


def check_round_trips(
    *models: type,
    count: int = 100,
    seed: int = 0,
    samples: Sequence[Mapping[str, Any]] = (),
    registry: OperatorRegistry | None = None,
) -> None:
    """Convert random objects of each version to each other version and back; they must be the same.

    The ``models`` are the classes with ``@kopf.resource``, of all versions of one kind. There are
    ``count`` objects for each pair of versions, the same ones for the same ``seed``.
    If they cannot be made, e.g. because of patterns, give some as ``samples``, in any of
    the versions: these go first, and are enough. The conversions are in the ``registry``;
    by default, in the default one.

    Objects are compared as the model of their version sees them. In between, they must be valid
    for the model of the other version.

    Raises :class:`AssertionError` for the first object that does not come back, and
    :class:`ValueError` if there are no objects to be checked.
    """
    versions = [_Version(cls) for cls in models]
    if len(versions) < 2 or len({one.definition.name for one in versions}) != 1:
        raise ValueError("Round trips are between at least two versions of one kind.")
    handlers = (registry or get_default_registry()).conversions
    with ThreadPoolExecutor(2) as pool:
        converter = Converter(handlers, pool)
        for start in versions:
            objects = [*start.pick(samples), *start.make(Random(seed), count, bool(samples))]
            for other in versions:
                if other is not start:
                    trip = _travel(converter, start, other, objects)
                    pool.submit(asyncio.run, trip).result()  # there can be a loop in this thread


class _Version:
    """One version of a kind: its model, and its objects."""

    def __init__(self, cls: type) -> None:
        definition, model = definition_of(cls), find_model(cls)
        if definition is None or model is None:
            raise ValueError(f"{cls!r} is not a model with @kopf.resource.")
        self.cls = cls
        self.definition: Definition = definition
        self.model: Model = model

    def pick(self, samples: Sequence[Mapping[str, Any]]) -> Iterator[Obj]:
        for sample in samples:
            if sample.get("apiVersion") == self.definition.api_version:
                yield {**sample}

    def make(self, random: Random, count: int, is_optional: bool) -> Iterator[Obj]:
        """Random objects that are valid for the model."""
        from kopf_kits.definitions.types import make_root

        schema = make_root(self.cls, self.definition.rules)
        made, problems = 0, None
        for number in range(count * ATTEMPTS):
            obj = {**make_value(schema, random), **self._identify(number)}
            problems = self.model.parse(self.model.trim(obj)).problems
            if not problems:
                made += 1
                yield obj
            if made == count or (not made and number > ATTEMPTS):
                break
        if not made and not is_optional:
            why = "; ".join(map(str, problems or ()))
            raise ValueError(f"There are no random objects of {self.definition}, as {why}.")

    def view(self, obj: Mapping[str, Any], title: str) -> Any:
        """The object as the model sees it, as JSON."""
        parsed = self.model.parse(self.model.trim(obj))
        assert not parsed.problems, (
            f"{title}: it is invalid in {self.definition.version}: "
            f"{'; '.join(map(str, parsed.problems))}: {obj!r}"
        )
        return write(parsed.value)

    def _identify(self, number: int) -> Obj:
        meta = {"name": f"random-{number}", "namespace": "default", "uid": f"uid-{number}"}
        api_version = self.definition.api_version
        return {"apiVersion": api_version, "kind": self.definition.kind, "metadata": meta}


async def _travel(
    converter: Converter, start: _Version, other: _Version, objects: Sequence[Obj]
) -> None:
    there = await _convert(converter, other, objects)
    names = f"from {start.definition.version} to {other.definition.version}"
    for obj, middle in zip(objects, there, strict=True):
        other.view(middle, f"Converted {names} of {obj!r}")
    back = await _convert(converter, start, there)
    for obj, middle, result in zip(objects, there, back, strict=True):
        before, after = start.view(obj, "Before"), start.view(result, f"After {names} and back")
        assert before == after, (
            f"Something is lost on the way {names} and back.\n"
            f"It was:      {before!r}\nin between:  {middle!r}\nhas become:  {after!r}"
        )


async def _convert(converter: Converter, version: _Version, objects: Sequence[Obj]) -> list[Obj]:
    request = {"desiredAPIVersion": version.definition.api_version, "objects": [*objects]}
    review = {"kind": REVIEW, "request": request}
    answer = await converter(review, f"{PREFIX}{version.definition.name}")
    response = answer["response"]
    assert response["result"]["status"] == "Success", response["result"]["message"]
    converted: list[Obj] = response["convertedObjects"]
    return converted
