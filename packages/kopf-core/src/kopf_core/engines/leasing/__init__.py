"""Leases: one leader at a time, as in the rest of Kubernetes, and warm followers.

* :mod:`.lease_records`: the content of a Lease, and who holds it as this operator sees it. Pure.
* :mod:`.elector`: the loop: acquire, renew, give up, release.
* :mod:`.fences`: an operator that does not surely lead sends nothing.
"""
