"""Claims: which children are surely of this operator, if it has no name.

All operators with no name leave the same marks. So, if two of them have reconcilers of the same id
for the same kind, the children of one look as if they were forgotten by the other one.
"""

from kopf_core.actions.loggers import AnyLogger
from kopf_core.engines.desired.ownership import AnyBody, is_leaving, show


class Claims:
    """What was wanted by an operator with no name since its start; only that is pruned by it."""

    def __init__(self, *, is_named: bool) -> None:
        self._is_named = is_named
        self._uids: dict[str, set[str]] = {}
        self._is_told = False

    def add(self, owner: str, child: AnyBody) -> None:
        """The object is wanted, so it is ours."""
        if not self._is_named:
            self._uids.setdefault(owner, set()).add(_get_uid(child))

    def cover(self, owner: str, child: AnyBody) -> bool:
        """Whether the object, which bears our marks, cannot be of another operator."""
        return self._is_named or _get_uid(child) in self._uids.get(owner, ())

    def forget(self, owner: str) -> None:
        """The owner is gone, or everything is to be seen anew."""
        self._uids.pop(owner, None)

    def tell_of_left(self, child: AnyBody, logger: AnyLogger) -> None:
        """Say why the object is left, and what is to be done; once, as it is the same for all."""
        if not self._is_told and not is_leaving(child):
            self._is_told = True
            logger.warning(
                f"{show(child)} is not wanted anymore, but it is left, and so are others: "
                "it can be of another operator with no name. Name this one: set `settings.name`."
            )


def _get_uid(body: AnyBody) -> str:
    return str((body.get("metadata") or {}).get("uid"))
