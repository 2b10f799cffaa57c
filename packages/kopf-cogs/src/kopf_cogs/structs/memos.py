"""Memos: containers of arbitrary in-memory values for the operators' developers."""

from typing import Any, Protocol


class AnyMemo(Protocol):
    """Any class which is used for memos in embedded operators.

    The only requirement is that ``copy.copy()`` works: the memos of individual objects
    are shallow copies of the operator's memo.
    """


class Memo(dict[Any, Any]):
    """A dictionary whose keys are also accessible as attributes.

    >>> memo = Memo()
    >>> memo.field = 100
    >>> memo['field']
    100
    """

    def __setattr__(self, key: str, value: Any) -> None:
        self[key] = value

    def __delattr__(self, key: str) -> None:
        try:
            del self[key]
        except KeyError:
            raise AttributeError(key) from None

    def __getattr__(self, key: str) -> Any:
        try:
            return self[key]
        except KeyError:
            raise AttributeError(key) from None
