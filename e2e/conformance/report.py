"""Write the table of the behaviours: what is the same on the emulator and on the real server.

Run as ``uv run python -m e2e.conformance.report``. Where there are no binaries of the real server,
what was recorded from it is used instead.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import pathlib
import sys
import tempfile
from typing import Any

from e2e.clusters import Cluster, ClusterError, open_cluster

from . import runner
from .api import connect
from .expectations import Expectations, load_differences
from .registry import Behaviour

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUTPUT = ROOT / "docs" / "reference" / "conformance.md"
HEADER = """\
---
orphan: true
---

# Conformance of the sandbox

<!-- This file is generated: run `uv run python -m e2e.conformance.report`. -->

The sandbox (`kopf sandbox`) is an emulator of the Kubernetes API. Each of the {total} behaviours
below was observed on a real API server ({version}) and on the emulator, and compared in full:
status codes, reasons, messages, details, objects, and events. {verdict}

"✓" means that it is as recorded from the real server; "≠" means that it differs, as explained in
the note; "–" means that it was not observed.
"""

INTRODUCTION = [
    "# Where the emulator differs from the real server",
    "",
    "See again: `uv run python -m e2e.conformance.report --emulator-only --differences FILE`;",
    "with `--only ID`, for some. A difference that must stay is explained in one line in",
    "`e2e/conformance/differences.json`, by the id of the behaviour.",
    "",
]

Results = dict[str, bool | None]


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the table of the conformance.")
    parser.add_argument("-o", "--output", type=pathlib.Path, default=OUTPUT)
    parser.add_argument("--differences", type=pathlib.Path, help="write the unexplained ones there")
    parser.add_argument("--only", default="", help="only the behaviours with this in their ids")
    parser.add_argument("--emulator-only", action="store_true", help="do not run the real server")
    args = parser.parse_args()
    behaviours = [item for item in runner.collect() if args.only in item.id]
    found, _ = observe_all("emulator", behaviours)
    emulated = check(behaviours, found)
    real, version = {}, "as recorded"
    if not args.emulator_only:
        try:
            observed, version = observe_all("envtest", behaviours)
            real = check(behaviours, observed)
        except ClusterError as e:
            print(f"The real server is not run: {e}", file=sys.stderr)
    if args.differences:
        args.differences.write_text(describe(behaviours, found), encoding="utf-8")
    if not args.only and not args.emulator_only:
        args.output.parent.mkdir(parents=True, exist_ok=True)
        args.output.write_text(format_table(behaviours, emulated, real, version), encoding="utf-8")
    notes = load_differences()
    unexplained = [key for key, same in emulated.items() if not same and key not in notes]
    print(f"{len(behaviours)} behaviours, {len(unexplained)} unexplained differences", *unexplained)
    broken = [key for key, same in real.items() if not same]
    if broken:
        print("not as recorded on the real server:", *broken)
    return 1 if unexplained or broken else 0


def observe_all(name: str, behaviours: list[Behaviour]) -> tuple[dict[str, Any], str]:
    """Observe the behaviours on a cluster; what fails to be observed is shown by its error."""
    with (
        tempfile.TemporaryDirectory() as folder,
        open_cluster(name, pathlib.Path(folder), rbac=True) as cluster,
    ):
        return asyncio.run(_observe_all(cluster, behaviours))


async def _observe_all(cluster: Cluster, behaviours: list[Behaviour]) -> tuple[dict[str, Any], str]:
    observed: dict[str, Any] = {}
    async with connect(cluster) as session:
        await runner.prepare(cluster, session)
        async with session.get(f"{cluster.url}/version") as response:
            version = (await response.json())["gitVersion"]
        for behaviour in behaviours:
            if runner.why_not(behaviour, cluster) is None:
                try:
                    observed[behaviour.id] = await runner.observe(behaviour, cluster, session)
                except Exception as e:
                    observed[behaviour.id] = f"it cannot be observed: {e!r}"
    return observed, version


def check(behaviours: list[Behaviour], observed: dict[str, Any]) -> Results:
    expectations = Expectations.load()
    return {
        behaviour.id: expectations.agree(behaviour, observed[behaviour.id])
        for behaviour in behaviours
        if behaviour.id in observed
    }


def format_table(
    behaviours: list[Behaviour], emulated: Results, real: Results, version: str
) -> str:
    notes = load_differences()
    different = sum(not same for same in emulated.values())
    verdict = f"{different} of them differ." if different else "There are no differences."
    lines = [HEADER.format(total=len(behaviours), version=version, verdict=verdict)]
    area = None
    for behaviour in behaviours:
        if behaviour.area != area:
            area = behaviour.area
            lines += [f"\n## {area.capitalize().replace('-', ' ')}\n"]
            lines += ["| behaviour | emulator | real | note |", "|---|---|---|---|"]
        marks = [sign(emulated.get(behaviour.id)), sign(real.get(behaviour.id, True))]
        note = notes.get(behaviour.id, "")
        title = behaviour.title.replace("|", "\\|")
        lines.append(f"| {title} | {' | '.join(marks)} | {note} |")
    return "\n".join(lines) + "\n"


def sign(same: bool | None) -> str:
    return "–" if same is None else "✓" if same else "≠"


def describe(behaviours: list[Behaviour], found: dict[str, Any]) -> str:
    """Describe the unexplained differences of the emulator in full, for those who will fix them."""
    expectations = Expectations.load()
    notes = load_differences()
    lines = [*INTRODUCTION]
    for behaviour in behaviours:
        if behaviour.id in found and behaviour.id not in notes:
            shown, expected = expectations.compare(behaviour, found[behaviour.id])
            if shown != expected:
                lines += [f"## {behaviour.id}", "", f"{behaviour.title}", ""]
                lines += find_differences("", expected, shown)
                lines.append("")
    return "\n".join(lines)


def find_differences(path: str, expected: Any, shown: Any) -> list[str]:
    """Find the smallest differing parts."""
    if isinstance(expected, dict) and isinstance(shown, dict):
        keys = [*expected, *(key for key in shown if key not in expected)]
        pairs = [(key, expected.get(key, "(none)"), shown.get(key, "(none)")) for key in keys]
    elif isinstance(expected, list) and isinstance(shown, list) and len(expected) == len(shown):
        pairs = [(str(i), e, s) for i, (e, s) in enumerate(zip(expected, shown, strict=True))]
    else:
        texts = [json.dumps(value, ensure_ascii=False) for value in (expected, shown)]
        return [f"- `{path}`", f"  - real: {texts[0]}", f"  - emulator: {texts[1]}"]
    return [
        line for key, e, s in pairs if e != s for line in find_differences(f"{path}.{key}", e, s)
    ]


if __name__ == "__main__":
    sys.exit(main())
