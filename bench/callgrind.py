"""The executed instructions of the processor for an object or event, bounded: ``make callgrind``.

The stories are those of ``bench.spine``: an operator in one process, and no network. Each story is
lived by a process of its own under valgrind, first with few objects, then with many. The difference
is what the additional objects have taken, so neither the start nor the end is in the figures.

The figures depend on how the interpreter and the C library were built. So they are compared only
with those of the same build, which are in ``callgrind.json``: ``--record`` writes them there.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.config import HERE
from bench.instructions import read_total
from bench.spine import BATCH, STORIES, Meter, Story, measure

LANDED = HERE / "callgrind.json"
MARGIN = 1.03

FEW = 10
MORE = 6 * BATCH
"""The number of additional objects: whole batches of events, and enough for stable figures."""

ENVIRONMENT = ("PATH", "TMPDIR")
"""What the processes get of the environment: the rest of it must not change the figures."""


@dataclass(frozen=True)
class Build:
    """What the figures depend on, besides the code and its locked dependencies."""

    python: str
    libc: str
    valgrind: str
    machine: str

    @classmethod
    def detect(cls) -> Build:
        valgrind = subprocess.run(["valgrind", "--version"], check=True, capture_output=True)
        return cls(
            python=sys.version.replace("\n", ""),
            libc=os.confstr("CS_GNU_LIBC_VERSION") or "",
            valgrind=valgrind.stdout.decode().strip(),
            machine=" ".join([platform.machine(), *detect_vectors()]),
        )


def detect_vectors() -> list[str]:
    """What the C library chooses its functions by; valgrind hides all that is newer than that."""
    flags = Path("/proc/cpuinfo").read_text().split()
    return [name for name in ("avx2",) if name in flags]


@dataclass(frozen=True)
class Record:
    """The landed figures of one build."""

    build: Build
    instructions: Mapping[str, int]


def read_records(path: Path) -> list[Record]:
    documents = json.loads(path.read_text("utf-8"))
    return [Record(Build(**each["build"]), each["instructions"]) for each in documents]


def write_record(path: Path, new: Record) -> None:
    """Put the figures in the place of those of the same build, or beside those of other builds.

    The figures of other stories stay.
    """
    records = {record.build: record for record in read_records(path)}
    before = records[new.build].instructions if new.build in records else {}
    records[new.build] = Record(new.build, {**before, **new.instructions})
    text = json.dumps([asdict(record) for record in records.values()], indent=2)
    path.write_text(f"{text}\n", "utf-8")


def count_more(story: Story) -> int:
    """How many additional objects there are; each of them is multiplied by the crowd."""
    return max(FEW, MORE // story.crowd)


def count(story: Story, folder: Path) -> int:
    """Live the story under valgrind; get the instructions for one object or event."""
    out = folder / story.name
    command = ["valgrind", "--tool=callgrind", "--instr-atstart=no"]
    command += [f"--callgrind-out-file={out}"]
    command += [sys.executable, "-m", "bench.callgrind", "--live", story.name]
    env = {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}
    env |= {"PYTHONHASHSEED": "0"}
    run = subprocess.run(command, cwd=HERE.parent, env=env, capture_output=True, text=True)
    if run.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{run.stderr}")
    few, many = (read_total(Path(f"{out}.{part}")) for part in (1, 2))
    return round((many - few) / (count_more(story) * story.crowd))


def live(story: Story) -> None:
    """In the process under valgrind: leave a part of the profile for few objects, and for many."""
    logging.basicConfig(stream=open(os.devnull, "w"), level=logging.INFO)  # noqa: SIM115
    asyncio.run(measure(story, FEW))  # the first run has all that is made once; nothing counts it
    for size in (FEW, FEW + count_more(story)):
        asyncio.run(measure(story, size, instructions))


@contextlib.contextmanager
def instructions(_: Meter) -> Iterator[None]:
    """Count the instructions, and leave them in the next part of the profile."""
    control("--instr=on")
    yield
    control("--instr=off")
    control("--dump")


def control(option: str) -> None:
    """Tell valgrind, which runs this process. It obeys while the process waits for the command."""
    command = ["callgrind_control", option, str(os.getpid())]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def is_exceeded(now: int, landed: int) -> bool:
    return now > landed * MARGIN


def describe(name: str, now: int, landed: int | None) -> str:
    """A line of the table."""
    line = f"{name:10}{now:14,}"
    if landed is None:
        return line
    verdict = "EXCEEDED" if is_exceeded(now, landed) else "ok"
    return f"{line}{landed:14,}{now / landed - 1:+8.1%}  {verdict}"


def count_all(stories: Iterable[Story], landed: Mapping[str, int]) -> dict[str, int]:
    """Count for all the stories; print the table meanwhile, as this takes minutes."""
    figures = {}
    print(f"{'':10}{'instructions':>14}" + (f"{'landed':>14}" if landed else ""))
    with tempfile.TemporaryDirectory() as folder:
        for story in stories:
            figures[story.name] = count(story, Path(folder))
            print(describe(story.name, figures[story.name], landed.get(story.name)), flush=True)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.callgrind", description=__doc__)
    parser.add_argument("--only", default="", metavar="NAME[,NAME]")
    parser.add_argument("--record", action="store_true", help="write them as the landed figures")
    parser.add_argument("--live", metavar="NAME", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.live:
        return live(next(story for story in STORIES if story.name == args.live))
    names = set(filter(None, args.only.split(",")))
    stories = [story for story in STORIES if not names or story.name in names]
    build = Build.detect()
    landed = {record.build: record.instructions for record in read_records(LANDED)}.get(build)
    figures = count_all(stories, landed or {})
    if args.record:
        write_record(LANDED, Record(build, figures))
    elif landed is None:
        print(f"NOT COMPARED: {LANDED.name} has no figures of this build: {asdict(build)}")
    elif any(is_exceeded(now, landed.get(name, 0)) for name, now in figures.items()):
        sys.exit(f"An object takes over {MARGIN - 1:.0%} more instructions than landed.")


if __name__ == "__main__":
    main()
