"""Schemas, names, and selectors: the rules for values."""
