"""What ``import kopf`` costs: in a fresh process, with the bytecode cached."""

from __future__ import annotations

import json
import subprocess

from bench.config import Config
from bench.driver import Measurement
from bench.engines import Engine
from bench.processes import pin, unpin
from bench.yardstick import measure_yardstick

SCRIPT = """
import json, time
before = time.process_time(), time.perf_counter()
import {module}
cpu, wall = time.process_time() - before[0], time.perf_counter() - before[1]
for line in open("/proc/self/status"):
    if line.startswith("VmHWM"):
        rss = int(line.split()[1]) * 1024
print(json.dumps([cpu, wall, rss]))
"""


def measure_import(config: Config, engine: Engine) -> Measurement:
    """The best of a few attempts; the memory is of the whole process, interpreter included."""
    module = "aiohttp" if engine.is_floor else "kopf"
    command = [str(engine.folder / "python"), "-c", SCRIPT.format(module=module)]
    attempts = []
    own = pin(config.operator_core)
    try:
        for _ in range(7):
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                error = done.stderr.strip().splitlines()[-1]
                return Measurement("import", engine.name, 1, error=error)
            attempts.append(json.loads(done.stdout))
    finally:
        unpin(own)
    cpu, wall, rss = min(attempts)
    result = Measurement("import", engine.name, 1, cpu=cpu, wall=wall, rss=rss)
    result.yardstick = measure_yardstick(config.operator_core)
    return result
