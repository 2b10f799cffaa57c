"""The command line, and the parts of it for other command lines."""

from kopf_kits.cli import CLIControls, freeze, logging_options, main, resume, run, sandbox

__all__ = ["CLIControls", "freeze", "logging_options", "main", "resume", "run", "sandbox"]
