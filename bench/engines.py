"""What is measured against each other, and how each of them is started."""

from __future__ import annotations

import os
import socket
import sys
from dataclasses import dataclass
from pathlib import Path

from bench.config import HERE, Config
from bench.scenarios import Scenario
from bench.setup_envs import ensure_ours, ensure_predecessor


@dataclass(frozen=True, slots=True)
class Engine:
    """One column of the table."""

    name: str
    folder: Path  # with the executables
    is_floor: bool = False
    orjson: bool = True  # if installed
    options: tuple[str, ...] = ()

    def supports(self, scenario: Scenario) -> bool:
        return not self.is_floor or scenario.floor is not None

    def command(self, scenario: Scenario, server: str) -> list[str]:
        if self.is_floor:
            return [str(self.folder / "python"), "-m", "bench.floor", server, scenario.floor or ""]
        handlers = str(HERE / "handlers" / scenario.handlers)
        return [str(self.folder / "kopf"), "run", "-A", *self.options, handlers]

    def environ(self, scenario: Scenario) -> dict[str, str]:
        """The same for all; nothing is inherited that could change what is measured."""
        hidden = ("BENCH_", "KUBE", "KOPF_", "PYTHON", "VIRTUAL_ENV")
        env = {k: v for k, v in os.environ.items() if not k.startswith(hidden)}
        paths = [HERE.parent]
        if not self.orjson:
            paths.append(HERE / "no_orjson")
        env |= {"PYTHONPATH": os.pathsep.join(map(str, paths))}
        env |= {"BENCH_ORJSON": "1"} if self.is_floor and self.orjson else {}
        return {**env, **scenario.env}


def find_port() -> int:
    """A port that nobody listens at: for the metrics, which are not scraped here."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def make_engines(config: Config, names: list[str]) -> list[Engine]:
    here = Path(sys.executable).parent
    known = {
        "predecessor": lambda: Engine("predecessor", ensure_predecessor(config)),
        "ours": lambda: Engine("ours", ensure_ours(config)),
        "ours-json": lambda: Engine("ours-json", ensure_ours(config), orjson=False),
        "ours-metrics": lambda: Engine(
            "ours-metrics",
            ensure_ours(config, metrics=True),
            options=("--serve", f"http://127.0.0.1:{find_port()}"),
        ),
        "floor": lambda: Engine("floor", here, is_floor=True, orjson=False),
        "floor-orjson": lambda: Engine("floor-orjson", here, is_floor=True),
    }
    return [known[name]() for name in names]
