"""One operator in the process of ``kopf run``. The import of this module takes time."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from kopf_core.engines.listening import relay_var
from kopf_core.intents.registries import get_default_registry, set_default_registry
from kopf_core.reactor.life.exiting import tell_of_wish
from kopf_core.reactor.process import running
from kopf_kits.cli import spares
from kopf_kits.cli.choices import Choices
from kopf_kits.cli.controls import CLIControls
from kopf_kits.cli.exits import clean_exit
from kopf_kits.cli.links import Link
from kopf_kits.cli.onces import finish
from kopf_kits.loading import LoadingError, preload, refuse_operator
from kopf_kits.loops import proper_loop

logger = logging.getLogger("kopf.cli")


def operate(
    controls: CLIControls, choices: Choices, options: Mapping[str, Any], link: Link | None
) -> None:
    """Load the handlers, and run the operator with these options until it ends."""
    others = threading.enumerate()
    spares.wait_for_turn()
    if controls.registry is not None:
        set_default_registry(controls.registry)
    is_controlled = controls.stop_flag is not None or controls.ready_flag is not None
    is_special = choices.sandbox or choices.once is not None or link is not None
    loaded = _load(choices, refuses=is_controlled or is_special)
    if loaded is None:
        return
    with contextlib.ExitStack() as stack:
        stack.enter_context(choices.started_sandbox())
        if choices.apply_crds:
            from kopf_kits.cli.crds import apply_at_start

            apply_at_start(loaded, force=choices.force)
        kwargs = controls.as_kwargs() | _make_extras(choices, link)
        stack.enter_context(clean_exit(others))
        loop = stack.enter_context(proper_loop(kwargs.pop("loop", None)))
        running.run(loop=loop, **options, **kwargs)
        if choices.once is not None:
            finish(choices.once)


def _make_extras(choices: Choices, link: Link | None) -> dict[str, Any]:
    """The arguments of the operator that depend on the kind of its run."""
    extras: dict[str, Any] = {} if choices.once is None else {"once": choices.once}
    if link is not None:
        extras["assigner"] = link
        relay_var.set(link.relay)
    return extras


def _load(choices: Choices, *, refuses: bool) -> list[ModuleType] | None:
    """Load the files; ``None`` if a file has run an operator itself: no other one follows it.

    Such an operator is refused where tests could not stop it, or where it misses the sandbox, the
    end of the run, the rehearsal, or its part of the objects.
    If a file asks to exit, e.g. because a variable is absent, the command exits with its code.
    """
    places: list[str] = []

    def on_operator(place: str) -> None:
        if refuses:
            refuse_operator(place)
        places.append(place)
        logger.warning(
            f"{place}: an operator is run while the file is only loaded, so all the code below "
            "and the options of the command line are not for it. It is the only one; put it "
            "under `if __name__ == '__main__':`, so that `kopf run` runs its own."
        )

    try:
        loaded = preload(choices.paths, choices.modules, on_operator)
    except LoadingError as e:
        if isinstance(e.__cause__, SystemExit):
            tell_of_wish("The loaded code", e.__cause__)
            raise e.__cause__ from None
        raise
    if places:
        return None
    if not choices.paths and not choices.modules and not get_default_registry().resource_handlers:
        logger.warning("Nothing is loaded: name files with handlers, or modules after -m.")
    return loaded
