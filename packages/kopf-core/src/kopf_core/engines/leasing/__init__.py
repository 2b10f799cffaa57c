"""Leases: one leader at a time, as the rest of Kubernetes does it, and warm followers.

* :mod:`.lease_records`: what is in a Lease, and who holds it in the eyes of this operator. Pure.
* :mod:`.elector`: the loop: acquire, renew, give up, release.
* :mod:`.fences`: nothing is sent by those who are not sure to lead.
"""
