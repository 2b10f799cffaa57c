"""Roles: the least rights with which an operator works, written as manifests, or verified."""
