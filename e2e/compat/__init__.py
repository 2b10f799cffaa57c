"""The compatibility suite: the same operators under both generations of the framework.

Each case is a small operator and a script of changes to its objects. It runs under the previous
generation and under ours, side by side in the same cluster, in namespaces of their own. What users
can observe is compared: the handlers' calls and kwargs, the objects, the requests, the Kubernetes
events, the logs.
The hand-over cases kill one generation in the middle of its work, and the other one carries on.

The previous generation is a black box: it is installed into an environment of its own, and is run.

Usage: ``python -m e2e.compat --cluster emulator|envtest|current [PATTERN ...]``
"""
