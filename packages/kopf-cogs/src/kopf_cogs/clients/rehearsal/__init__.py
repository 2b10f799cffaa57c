"""The rehearsal: a client that commits nothing, and yet reads what it has written.

* :mod:`.client`: every write goes with ``dryRun=All``.
* :mod:`.predictions`: what the next state of an object is if the former ones are not stored.
* :mod:`.overlay`: the predicted states over what is read, and the differences in the end.
* :mod:`.replays`: watch-streams in which the predicted changes come, too.
* :mod:`.addresses`: what the URLs mean.
"""
