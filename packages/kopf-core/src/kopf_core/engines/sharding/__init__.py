"""Shards: many processes work at once, each on its part of the objects.

* :mod:`.hashing`: which object is in which shard.
* :mod:`.assignments`: which member has which shard, and how a shard changes hands.
* :mod:`.shares`: the shards of this process.
"""
