"""
The command line: ``kopf run``, ``kopf sandbox``, and others.

Other command lines can be built of it: :func:`logging_options` adds the same logging options
to any command of click, :class:`CLIControls` gives the means to control the operator from outside.
"""

from .controls import CLIControls
from .groups import main
from .options import logging_options
from .running import run
from .sandboxing import sandbox

__all__ = ["CLIControls", "logging_options", "main", "run", "sandbox"]
