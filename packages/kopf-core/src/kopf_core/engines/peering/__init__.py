"""Peering: operators that see each other, so that one of them works, and others wait.

From the pure to the thin: :mod:`records` (what is written), :mod:`roster` (who is alive),
:mod:`membership` (who works), :mod:`member` (the watch and the keep-alives of one peering object),
:mod:`engine` (all the peering objects of one operator).
"""
