"""
The command line, and the parts of it for other command lines.
"""

from kopf_kits.cli import CLIControls, logging_options, main, run, sandbox

__all__ = ["CLIControls", "logging_options", "main", "run", "sandbox"]
