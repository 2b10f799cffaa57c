"""What can be wrong with models; the messages are for those who have written them."""

from __future__ import annotations


class SchemaError(Exception):
    """A model cannot be written as a schema of Kubernetes: the message says where and why."""

    expected = True


class DefinitionError(Exception):
    """The models of a kind do not make a definition: the message says which and why."""

    expected = True
