"""The rehearsal: a client that commits nothing, and yet reads what it has written.

* :mod:`.client`: every write goes with ``dryRun=All``.
* :mod:`.predictions`: the next state of an object, though its former states are not stored.
* :mod:`.overlay`: the predicted states over the stored ones, and the differences in the end.
* :mod:`.replays`: watch-streams in which the predicted changes come, too.
* :mod:`.addresses`: the meaning of URLs.
"""
