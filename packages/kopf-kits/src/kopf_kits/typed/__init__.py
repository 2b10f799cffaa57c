"""Typed dictionaries of the kinds that a cluster serves, made of its OpenAPI documents."""
