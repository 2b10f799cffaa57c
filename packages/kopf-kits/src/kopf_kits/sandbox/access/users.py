"""Users: who they are by their tokens, and which groups they belong to."""

from __future__ import annotations

from dataclasses import dataclass

AUTHENTICATED = "system:authenticated"
MASTERS = "system:masters"
_ACCOUNT = "system:serviceaccount:"
_TOKEN = "sandbox"
"""The token of the admin. The token of a service account adds its namespace and name."""


@dataclass(frozen=True, slots=True)
class User:
    """The identity of a client that makes requests."""

    name: str
    groups: tuple[str, ...]

    @classmethod
    def impersonated(cls, name: str, groups: list[str]) -> User:
        """The user that a client acts as. Without groups, a service account gets its own ones."""
        parts = parse_account(name)
        if parts is not None and not groups:
            return make_account(*parts)
        return cls(name, (*groups, AUTHENTICATED))

    def as_dict(self) -> dict[str, object]:
        return {"username": self.name, "groups": [*self.groups]}


ADMIN = User("sandbox", (MASTERS, AUTHENTICATED))
NOBODY = User("system:anonymous", ("system:unauthenticated",))


def make_account(namespace: str, name: str) -> User:
    """A service account."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED)
    return User(f"{_ACCOUNT}{namespace}:{name}", groups)


def parse_account(user: str) -> tuple[str, str] | None:
    """The namespace and the name of the service account, if the user is one."""
    namespace, colon, name = user.removeprefix(_ACCOUNT).partition(":")
    return (namespace, name) if user.startswith(_ACCOUNT) and colon else None


def make_token(namespace: str = "", name: str = "") -> str:
    """The token of a service account; of the admin by default."""
    return f"{_TOKEN}:{namespace}:{name}" if name else _TOKEN


def parse_token(token: str) -> User | None:
    """The user of the token, anonymous without a token; none if the sandbox has no such token."""
    if not token:
        return NOBODY
    if token == _TOKEN:
        return ADMIN
    first, *rest = token.split(":")
    return make_account(*rest) if first == _TOKEN and len(rest) == 2 else None
