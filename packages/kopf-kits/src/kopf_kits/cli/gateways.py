"""Gateways: the supervisor of several processes serves their endpoints at one address.

For each request, it asks all processes, and joins their answers:

* Metrics get one more label: the number of the process.
* Probes fail if the probes of any process fail. If a process does not answer, they fail, too.
* The status has the work of all processes, with the numbers of the processes.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from kopf_core.engines.listening import listen
from kopf_kits.cli.links import TOKEN

if TYPE_CHECKING:
    from aiohttp import web

    from kopf_core.engines.serving.snapshots import Snapshot

PATIENCE = 10.0
"""How long (in seconds) the supervisor waits for the answer of a process."""

METRICS = "/metrics"
READINESS = "/readyz"
LABEL = "process"

ASKED = "Host", "Authorization"
"""The headers by which the processes decide who may see their status."""

TOLD = "Content-Type", "Location", "WWW-Authenticate"
"""The headers of answers that the supervisor passes on."""


class Answer(NamedTuple):
    """The answer of one process."""

    status: int
    text: str
    headers: Mapping[str, str] = {}


class Gateway:
    """One address at which the supervisor serves for all processes."""

    def __init__(self, endpoint: str, title: str, token: str, numbers: Collection[int]) -> None:
        self._endpoint = endpoint
        self._title = title
        self._token = token
        self._numbers = numbers
        self._ports: dict[int, int] = {}

    def open(self, number: int, port: int) -> None:
        """Ask this process at this port from now on."""
        self._ports[number] = port

    def close(self, number: int) -> None:
        """Ask this process no more."""
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
            answers |= self._find_missing(answers)
        status, text, _ = join_probes([*answers.values()])
        return web.Response(status=status, text=text, content_type="application/json")

    def _find_missing(self, answers: Collection[int]) -> dict[int, Answer]:
        missing = [number for number in self._numbers if number not in answers]
        return {number: _make_unready(number, "not started") for number in missing}

    async def _ask(self, path: str, headers: Mapping[str, str] = {}) -> dict[int, Answer]:
        import aiohttp

        own = {**headers, TOKEN: self._token}
        timeout = aiohttp.ClientTimeout(total=PATIENCE)
        async with aiohttp.ClientSession(headers=own, timeout=timeout) as session:

            async def ask(number: int, port: int) -> Answer:
                url = f"http://127.0.0.1:{port}{path}"
                try:
                    async with session.get(url, allow_redirects=False) as response:
                        told = {
                            key: response.headers[key] for key in TOLD if key in response.headers
                        }
                        return Answer(response.status, await response.text(), told)
                except (aiohttp.ClientError, TimeoutError):
                    return _make_unready(number, "no answer")

            ports = dict(self._ports)
            answers = await asyncio.gather(*(ask(*pair) for pair in ports.items()))
        return dict(zip(ports, answers, strict=True))


class StatusGateway(Gateway):
    """The address of the status. The processes decide on who may see it."""

    async def _show(self, request: web.BaseRequest) -> web.Response:
        from aiohttp import web

        from kopf_core.engines.serving import status_endpoint as endpoint

        path = endpoint.DATA if request.path == endpoint.PAGE else request.path
        answers = await self._ask(path, _select(request.headers, ASKED))
        for answer in answers.values():
            if answer.status not in (200, 503):
                return web.Response(status=answer.status, text=answer.text, headers=answer.headers)
        joint = join_statuses(answers | self._find_missing(answers))
        if joint is None:
            return web.Response(status=503, text="503: No process answers.\n")
        response = endpoint.show_snapshot(joint, request.path)
        response.headers.update(endpoint.HEADERS)
        return response


def make_gateway(endpoint: str, title: str, token: str, numbers: Collection[int]) -> Gateway:
    """Make the gateway that joins the answers of the processes under this title."""
    from kopf_core.engines.serving.status_endpoint import TITLE

    make = StatusGateway if title == TITLE else Gateway
    return make(endpoint, title, token, numbers)


def join_statuses(answers: Mapping[int, Answer]) -> Snapshot | None:
    """The status of all processes; ``None`` if no process has answered."""
    from kopf_core.engines.serving.joint_snapshots import join_snapshots, parse_snapshot

    snapshots = {
        number: parse_snapshot(json.loads(answer.text))
        for number, answer in answers.items()
        if answer.status == 200
    }
    absent = [
        text
        for answer in answers.values()
        if answer.status != 200
        for text in json.loads(answer.text)["unready"]
    ]
    return join_snapshots(snapshots, absent) if snapshots else None


def _select(headers: Mapping[str, str], names: Collection[str]) -> dict[str, str]:
    return {name: headers[name] for name in names if name in headers}


def _make_unready(number: int, reason: str) -> Answer:
    return Answer(503, json.dumps({"unready": [f"process {number}: {reason}"]}))


def join_probes(answers: Collection[Answer]) -> Answer:
    """The answer with the highest status. If several have this status, their texts are joined."""
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
    from prometheus_client.parser import text_string_to_metric_families as parse

    from kopf_core.engines.serving.metrics import add_label, join_families, make_registry

    labelled = [add_label(parse(text), LABEL, str(number)) for number, text in texts.items()]
    return generate_latest(make_registry(join_families(chain(*labelled)))).decode()
