"""Helm: on PATH, or built with Go into the user's cache: ``python -m e2e.deploy.helm``."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

MODULE = "helm.sh/helm/v3/cmd/helm@v3.19.0"


def get_folder() -> Path:
    """Where it is built."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "kopf" / "tools" / "bin"


def find_helm() -> str | None:
    """The path of the executable, if it is there."""
    path = os.pathsep.join([os.environ.get("PATH", ""), str(get_folder())])
    return shutil.which("helm", path=path)


def main() -> int:
    """Build it if it is absent, and if there is Go."""
    if find_helm() is None:
        if shutil.which("go") is None:
            print("There is neither helm nor Go: the chart will not be checked.", file=sys.stderr)
            return 0
        env = {**os.environ, "GOBIN": str(get_folder()), "GOFLAGS": "-p=2"}
        subprocess.run(["go", "install", MODULE], check=True, env=env)
    print(find_helm())
    return 0


if __name__ == "__main__":
    sys.exit(main())
