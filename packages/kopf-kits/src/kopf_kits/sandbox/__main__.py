"""Runs the sandbox as a process of its own: ``python -m kopf_kits.sandbox``."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import yaml

from .base.statuses import StatusError
from .sandbox import Sandbox


def main(args: Sequence[str] | None = None) -> int:
    """Serve until interrupted; returns the exit code."""
    options = _parse(args)
    try:
        return asyncio.run(_serve(options.port, options.kubeconfig, options.file))
    except KeyboardInterrupt:
        return 0
    except (StatusError, LookupError, ValueError, yaml.YAMLError) as error:
        text = " ".join(str(error).split())
        print(f"The manifests cannot be applied: {text}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"The sandbox cannot start: {error}", file=sys.stderr)
        return 1


def _parse(args: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m kopf_kits.sandbox",
        description="A local Kubernetes API server for trying and testing operators.",
    )
    parser.add_argument("-p", "--port", type=int, default=0, help="0 is any free port (default)")
    parser.add_argument("-k", "--kubeconfig", type=Path, help="where to write the kubeconfig")
    parser.add_argument(
        "-f", "--file", type=Path, action="append", default=[], help="manifests to apply first"
    )
    return parser.parse_args(args)


async def _serve(port: int, kubeconfig: Path | None, files: list[Path]) -> int:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        try:
            loop.add_signal_handler(number, stopped.set)
        except NotImplementedError:  # pragma: no cover  (Windows)
            pass
    async with Sandbox(port=port) as sandbox:
        for path in files:
            await sandbox.apply(path)
        if kubeconfig is not None:
            sandbox.write_kubeconfig(kubeconfig)
        print(f"The sandbox is ready at {sandbox.url}", flush=True)
        await stopped.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
