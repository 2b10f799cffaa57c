"""A Kubernetes-like API server that is too cheap to be a bottleneck, with scripted load.

It speaks just enough of the API for an operator to start, and to handle one custom resource:
discovery, lists, watch-streams, patches (really applied), deletions with finalizers, events.
It is no model of a real API server: no validation, no authentication, one resource with objects.
"""
