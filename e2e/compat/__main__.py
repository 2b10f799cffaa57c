"""The command line of the compatibility suite; see the package."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import fnmatch
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from e2e.clusters import ClusterError, open_cluster

from .cases import CASES, Case
from .clients import Api
from .comparing import Difference, is_unexpected
from .engines import get_ours, get_predecessor
from .expected import EXPECTED
from .reports import format_differences, format_reasons, format_row, format_unused
from .running import Setup, prepare, run_case

Results = dict[str, list[Difference]]


def main(args: Sequence[str] | None = None) -> int:
    """Run the selected cases; returns 1 if there are unexpected differences."""
    options = _parse(args)
    cases = [case for case in CASES if _is_selected(case.name, options.patterns)]
    if options.list:
        print("\n".join(case.name for case in cases))
        return 0
    try:
        with _get_folder(options.keep) as folder:
            results = asyncio.run(_run(options, cases, folder))
    except ClusterError as e:
        print(f"The cluster is not available: {e}", file=sys.stderr)
        return 2
    return _report(results, options.json)


def _parse(args: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m e2e.compat", description=__doc__)
    parser.add_argument("patterns", nargs="*", help="names of the cases, as in file names")
    parser.add_argument("--cluster", choices=["emulator", "envtest", "current"], default="emulator")
    parser.add_argument("--jobs", type=int, default=3, help="how many cases to run at once")
    parser.add_argument("--attempts", type=int, default=3, help="runs of the cases that differ")
    parser.add_argument("--predecessor", type=Path, help="a virtual environment to use instead")
    parser.add_argument("--ours", type=Path, help="a virtual environment to use instead")
    parser.add_argument("--self-check", action="store_true", help="compare predecessor with itself")
    parser.add_argument("--list", action="store_true", help="list the cases, and exit")
    parser.add_argument("--keep", type=Path, help="keep the logs and journals in this folder")
    parser.add_argument("--json", type=Path, help="write the differences to this file too")
    return parser.parse_args(args)


def _is_selected(name: str, patterns: Sequence[str]) -> bool:
    return not patterns or any(fnmatch.fnmatch(name, pattern) for pattern in patterns)


@contextlib.contextmanager
def _get_folder(folder: Path | None) -> Iterator[Path]:
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="kopf-compat-") as name:
        yield Path(name)


async def _run(options: argparse.Namespace, cases: Sequence[Case], folder: Path) -> Results:
    theirs = get_predecessor(options.predecessor)
    ours = theirs if options.self_check else get_ours(options.ours)
    stamp = format(int(time.time()) % 16**5, "05x")
    with open_cluster(options.cluster, folder) as cluster:
        async with Api(cluster) as api:
            setup = Setup(cluster, api, theirs, ours, folder, stamp)
            await prepare(api)
            return await _run_confirmed(setup, cases, options.jobs, options.attempts)


async def _run_confirmed(setup: Setup, cases: Sequence[Case], jobs: int, attempts: int) -> Results:
    """Run all the cases, several at once; those that differ are repeated alone, after all others.

    A busy machine can be the cause of a difference; one that repeats on an idle one is confirmed.
    """
    semaphore = asyncio.Semaphore(jobs)
    results: Results = {}

    async def run_one(case: Case, attempt: int) -> None:
        async with semaphore:
            started = time.monotonic()
            results[case.name] = await run_case(setup, case, attempt)
            seconds = time.monotonic() - started
        print(format_row(case.name, results[case.name], seconds))
        print(format_differences(results[case.name]), end="", flush=True)

    await asyncio.gather(*(run_one(case, 1) for case in cases))
    for attempt in range(2, attempts + 1):
        differing = [case for case in cases if is_unexpected(results[case.name])]
        if differing:
            print(f"\nAgain, one by one (attempt {attempt}):")
        for case in differing:
            await run_one(case, attempt)
    return results


def _report(results: Results, path: Path | None) -> int:
    differences = [item for items in results.values() for item in items]
    differing = [name for name, items in results.items() if is_unexpected(items)]
    if path is not None:
        path.write_text(json.dumps([dataclasses.asdict(d) for d in differences], indent=1))
    reasons = format_reasons(results)
    if reasons:
        print(f"\nExpected to differ:\n{reasons}")
    unused = format_unused(EXPECTED, results)
    if unused and len(results) == len(CASES):
        print(f"\nExpected to differ, but did not:\n{unused}")
    for name in differing:
        print(f"\nDiffers in all attempts: {name}{format_differences(results[name])}", end="")
    names = f": {', '.join(differing)}" if differing else ""
    print(f"\n{len(results)} cases, {len(differing)} with unexpected differences{names}.")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
