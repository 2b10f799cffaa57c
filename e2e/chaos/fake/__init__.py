"""A small Kubernetes API on plain sockets, which does to operators what real ones do on bad days.

It shares no code with the sandbox of Kopf and uses no HTTP library: its blind spots are others.
"""
