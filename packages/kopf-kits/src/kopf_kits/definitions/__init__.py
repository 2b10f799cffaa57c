"""Definitions of custom resources: from the types in Python to the manifests of Kubernetes."""
