"""Verbs for objects: reading, watching, writing, deleting."""
