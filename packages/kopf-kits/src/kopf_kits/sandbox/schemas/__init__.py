"""Schemas, names, and selectors: what values may be."""
