"""What is measured against each other, and how each of them is started."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
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
    env: Mapping[str, str] = field(default_factory=dict)

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
        return {**env, **self.env, **scenario.env}


def find_port() -> int:
    """A port that nobody listens at: for the metrics, which are not scraped here."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def make_engines(config: Config, names: list[str]) -> list[Engine]:
    env = {"PYTHON_JIT": "1"} if config.is_jit_on else {}
    known = {
        "predecessor": lambda: Engine("predecessor", ensure_predecessor(config), env=env),
        "ours": lambda: Engine("ours", ensure_ours(config), env=env),
        "ours-json": lambda: Engine("ours-json", ensure_ours(config), orjson=False, env=env),
        "ours-metrics": lambda: Engine(
            "ours-metrics",
            ensure_ours(config, metrics=True),
            options=("--serve", f"http://127.0.0.1:{find_port()}"),
            env=env,
        ),
        "floor": lambda: Engine("floor", ensure_ours(config), True, orjson=False, env=env),
        "floor-orjson": lambda: Engine("floor-orjson", ensure_ours(config), True, env=env),
    }
    return [known[name]() for name in names]
