"""Requests, as the authorizer sees them."""

from __future__ import annotations

from dataclasses import dataclass

from kopf_kits.sandbox.base.statuses import StatusError, qualified

from .users import User


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The action that a user wants: on a resource, or on a path that belongs to no resource."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @property
    def combined(self) -> str:
        """The resource with its subresource, as in the rules."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource

    def refuse(self, user: User, reason: str = "") -> StatusError:
        """The failure for the user, as servers put it."""
        text = f'User "{user.name}" cannot {self.verb} {self._describe()}'
        text = f"{text}: {reason}" if reason else text
        if not self.resource:
            return StatusError(403, "Forbidden", f"forbidden: {text}", details={})
        title = qualified(self.group, self.resource) + (f' "{self.name}"' if self.name else "")
        details = {"name": self.name, "group": self.group, "kind": self.resource}
        details = {key: value for key, value in details.items() if value}
        return StatusError(403, "Forbidden", f"{title} is forbidden: {text}", details=details)

    def _describe(self) -> str:
        if not self.resource:
            return f'path "{self.path}"'
        where = f'in the namespace "{self.namespace}"' if self.namespace else "at the cluster scope"
        return f'resource "{self.combined}" in API group "{self.group}" {where}'
