"""The user and the host of this process: for the identities in peering and in logs."""

import getpass
import os
import socket


def get_hostname() -> str:
    """The short name of this machine, or of the pod; never empty, never fails."""
    try:
        name = socket.gethostname()
    except OSError:
        name = ""
    return name.split(".", 1)[0] or "localhost"


def get_username() -> str:
    """The name of the user, or the number if there is no name for it (as often in containers)."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        uid = getattr(os, "getuid", lambda: None)()
        return "unknown" if uid is None else str(uid)
