"""Runs the cases on both generations side by side, and compares what has been seen."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Sequence
from pathlib import Path

from e2e.clusters import Cluster

from .cases import Case
from .clients import Api, ApiError
from .comparing import Difference, check, compare
from .definitions import API, KINDS, make_definition
from .engines import Engine
from .expected import EXPECTED
from .normalising import normalise
from .tracks import Track

DEFINITIONS_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@dataclasses.dataclass(frozen=True)
class Setup:
    """Where and with what to run."""

    cluster: Cluster
    api: Api
    theirs: Engine
    ours: Engine
    folder: Path
    stamp: str
    """Makes the names unique in clusters that outlive the runs."""


async def prepare(api: Api) -> None:
    """Define the kinds, and wait until they are served."""
    for plural in KINDS:
        await api.ensure(DEFINITIONS_PATH, make_definition(plural))
    for plural in KINDS:
        for _ in range(100):
            with contextlib.suppress(ApiError, ValueError):
                await api.request("GET", f"{API}/{plural}")
                break
            await asyncio.sleep(0.1)  # it is defined, but its storage is still being made


async def run_case(setup: Setup, case: Case, attempt: int = 1) -> list[Difference]:
    """Run one case in all the combinations, and compare each with the predecessor's one."""
    pairs: dict[str, Sequence[Engine]] = {"theirs": [setup.theirs], "ours": [setup.ours]}
    if case.is_handed_over:
        pairs["theirs-to-ours"] = [setup.theirs, setup.ours]
        pairs["ours-to-theirs"] = [setup.ours, setup.theirs]
    tracks = {}
    for pair, engines in pairs.items():
        folder = setup.folder / f"{setup.stamp}-{case.name}-{pair}-{attempt}"
        tracks[pair] = Track(case, engines, setup.cluster, setup.api, folder)
    results = await asyncio.gather(*(track.run() for track in tracks.values()))
    lines = {
        pair: normalise(seen, track.run_id)
        for (pair, track), seen in zip(tracks.items(), results, strict=True)
    }
    differences = []
    for pair in tracks:
        if pair != "theirs":
            differences += compare(case.name, pair, lines["theirs"], lines[pair], EXPECTED)
            differences += check(case.name, pair, lines[pair]["calls"], case.required)
    return differences
