"""Errors of models; the messages are for the authors of the models."""

from __future__ import annotations


class SchemaError(Exception):
    """A model cannot be written as a schema of Kubernetes: the message says where and why."""

    expected = True


class DefinitionError(Exception):
    """The models of a kind do not make a definition: the message says which and why."""

    expected = True
