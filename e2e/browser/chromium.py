#!/usr/bin/env python3
"""Find Chromium, or install it if this is Debian or Ubuntu and the user is root: print its path.

The browser is the one of the machine, and not one from a test tool's own server: a machine of CI
reaches package registries only. ``CHROMIUM`` names another program.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


class NoBrowserError(Exception):
    """There is no browser; the message says what to do."""


def find() -> str | None:
    """The path of the browser: of the named one, or of the first one that is there."""
    if named := os.environ.get("CHROMIUM"):
        return shutil.which(named)
    return next(filter(None, map(shutil.which, NAMES)), None)


def obtain() -> str:
    """Find the browser, or install it. Raises `NoBrowserError` if neither is possible."""
    found = find()
    if found is None and shutil.which("apt-get") and os.geteuid() == 0:
        install()
        found = find()
    if found is None:
        raise NoBrowserError(
            "The tests of the pages need Chromium, and there is none. Install it, e.g. by "
            "`apt-get install chromium` as root, or name it: CHROMIUM=/path/to/chrome"
        )
    return found


def install() -> None:
    """Install the browser from the packages of the distribution."""
    print("Installing Chromium by apt-get ...", file=sys.stderr)
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    packages = ["chromium", "fonts-dejavu-core"]
    for args in (["update"], ["install", "--yes", "--no-install-recommends", *packages]):
        command = ["apt-get", "--quiet", "--quiet", *args]
        result = subprocess.run(command, env=env, capture_output=True, text=True)
        if result.returncode:
            raise NoBrowserError(f"`{' '.join(command)}` failed:\n{result.stderr}")


if __name__ == "__main__":
    try:
        print(obtain())
    except NoBrowserError as e:
        sys.exit(str(e))
