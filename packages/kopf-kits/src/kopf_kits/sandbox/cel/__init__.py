"""Expressions of CEL: the syntax and the functions."""
