"""Errors of a real control plane on this machine."""


class EnvtestError(Exception):
    """The control plane could not be started, or has stopped by itself.

    The message is meant for the user as it is: it names the cause and, where there is one, the way
    out. All processes that were started have been stopped.
    """

    expected = True
