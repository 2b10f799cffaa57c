"""Gateways: the endpoints of several processes, served by their supervisor as if they were one.

The supervisor asks all the processes, and joins their answers:

* Metrics get one more label: the number of the process.
* Probes are as bad as the worst of them. A process that does not answer is bad, too.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from kopf_core.engines.listening import listen
from kopf_kits.cli.links import TOKEN

if TYPE_CHECKING:
    from aiohttp import web

PATIENCE = 10.0
"""How long (in seconds) the answer of a process is waited for."""

METRICS = "/metrics"
READINESS = "/readyz"
LABEL = "process"


class Answer(NamedTuple):
    """What one process has answered."""

    status: int
    text: str


class Gateway:
    """One address for all the processes that serve there."""

    def __init__(self, endpoint: str, title: str, token: str, numbers: Collection[int]) -> None:
        self._endpoint = endpoint
        self._title = title
        self._token = token
        self._numbers = numbers
        self._ports: dict[int, int] = {}

    def open(self, number: int, port: int) -> None:
        """That process serves at its own port since now."""
        self._ports[number] = port

    def close(self, number: int) -> None:
        """That process is gone."""
        self._ports.pop(number, None)

    async def serve(self, paths: Collection[str]) -> None:
        """Serve until cancelled. Raises the errors of :func:`listen`."""
        await listen(dict.fromkeys(paths, self._show), self._endpoint, title=self._title)

    async def _show(self, request: web.BaseRequest) -> web.Response:
        from aiohttp import web

        answers = await self._ask(request.path)
        if request.path == METRICS and all(answer.status == 200 for answer in answers.values()):
            text = join_metrics({number: answer.text for number, answer in answers.items()})
            return web.Response(text=text)
        if request.path == READINESS:
            missing = [number for number in self._numbers if number not in answers]
            answers |= {number: _make_unready(number, "not started") for number in missing}
        status, text = join_probes([*answers.values()])
        return web.Response(status=status, text=text, content_type="application/json")

    async def _ask(self, path: str) -> dict[int, Answer]:
        import aiohttp

        headers = {TOKEN: self._token}
        timeout = aiohttp.ClientTimeout(total=PATIENCE)
        async with aiohttp.ClientSession(headers=headers, timeout=timeout) as session:

            async def ask(number: int, port: int) -> Answer:
                try:
                    async with session.get(f"http://127.0.0.1:{port}{path}") as response:
                        return Answer(response.status, await response.text())
                except (aiohttp.ClientError, TimeoutError):
                    return _make_unready(number, "no answer")

            ports = dict(self._ports)
            answers = await asyncio.gather(*(ask(*pair) for pair in ports.items()))
        return dict(zip(ports, answers, strict=True))


def _make_unready(number: int, reason: str) -> Answer:
    return Answer(503, json.dumps({"unready": [f"process {number}: {reason}"]}))


def join_probes(answers: Collection[Answer]) -> Answer:
    """The worst of the answers; if several are as bad, what all of these say."""
    worst = max((answer.status for answer in answers), default=200)
    joint: dict[str, Any] = {}
    for answer in answers:
        for key, value in json.loads(answer.text).items() if answer.status == worst else ():
            known = joint.get(key)
            if isinstance(known, list) and isinstance(value, list):
                value = list(dict.fromkeys([*known, *value]))
            joint[key] = value
    return Answer(worst, json.dumps(joint))


def join_metrics(texts: Mapping[int, str]) -> str:
    """The metrics of all processes, each with the number of its process."""
    from prometheus_client import generate_latest
    from prometheus_client.registry import Collector, CollectorRegistry

    families = list(_join_families(texts))

    class Joint(Collector):
        def collect(self) -> Collection[Any]:
            return families

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Joint())
    return generate_latest(registry).decode()


def _join_families(texts: Mapping[int, str]) -> Iterator[Any]:
    from prometheus_client.parser import text_string_to_metric_families

    families: dict[str, Any] = {}
    for number, text in texts.items():
        for family in text_string_to_metric_families(text):
            samples = [
                sample._replace(labels={**sample.labels, LABEL: str(number)})
                for sample in family.samples
            ]
            known = families.setdefault(family.name, family)
            known.samples = samples if known is family else [*known.samples, *samples]
    yield from families.values()
