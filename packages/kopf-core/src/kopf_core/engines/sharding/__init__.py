"""Shards: many processes work at once, each on its part of the objects.

* :mod:`.hashing`: which object is in which shard.
* :mod:`.assignments`: which member has which shard, and how a shard changes hands.
* :mod:`.shares`: the shards of this process.
* :mod:`.replicas`: the assigner by Leases, for replicas; with :mod:`.seats`,
  :mod:`.coordinators`, the :mod:`.roll` of the members, :mod:`.lookouts`, and
  :mod:`.assignment_records`.
"""
