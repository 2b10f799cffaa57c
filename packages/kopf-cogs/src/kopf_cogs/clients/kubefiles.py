"""Kubeconfig files as one, merged as kubectl does it: the first file to define something wins.

The named entries remember the files they came from: the paths in them are relative to these files.
"""

import pathlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from kopf_cogs.clients import yamls
from kopf_cogs.helpers import certificates
from kopf_cogs.structs import credentials


class Entry(NamedTuple):
    """A named entry of a kubeconfig, which remembers the file it came from."""

    kind: str
    name: str
    fields: Mapping[str, Any]
    folder: pathlib.Path

    @property
    def title(self) -> str:
        return f"{self.kind} {self.name!r}"

    def get(self, field: str) -> Any:
        return self.fields.get(field)

    def fail(self, reason: str) -> credentials.LoginError:
        return credentials.LoginError(f"The kubeconfig's {self.title} {reason}.")

    def get_str(self, field: str) -> str | None:
        value = self.fields.get(field)
        if value is None or value == "":
            return None
        if not isinstance(value, str):
            raise self.fail(f"has a wrong {field}")
        return value

    def get_bool(self, field: str) -> bool | None:
        value = self.fields.get(field)
        if value is not None and not isinstance(value, bool):
            raise self.fail(f"has a wrong {field}")  # "false" is true for Python
        return value

    def get_strs(self, field: str) -> list[str]:
        values = self.fields.get(field)
        values = [] if values is None else values
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            raise self.fail(f"has a wrong {field}")
        return values

    def get_data(self, field: str) -> str | None:
        """The content of a file instead of its path."""
        value = self.get_str(field)
        try:
            if value is not None:
                certificates.decode_pem(field, value)
        except ValueError as e:
            raise self.fail(f"has a wrong {field}: it is not base64") from e
        return value

    def get_path(self, field: str) -> str | None:
        """The path to a file. The data are used instead of the file if both are present."""
        value = self.get_str(field)
        if value is None or self.fields.get(f"{field}-data"):
            return None
        return str(self.folder / pathlib.Path(value))


class KubeFiles:
    """Several kubeconfig files as one."""

    def __init__(self) -> None:
        super().__init__()
        self._current: str | None = None
        self._entries: dict[tuple[str, str], Entry] = {}

    def add(self, path: pathlib.Path) -> None:
        """Add the entries of the file that the previous files do not have."""
        self.add_doc(_read_file(path), path)

    def add_doc(self, doc: Any, path: pathlib.Path) -> None:
        """Add the content of a kubeconfig; the path is for the texts of errors."""
        if doc is None:
            return
        if not isinstance(doc, Mapping):
            raise credentials.LoginError(f"The kubeconfig is not a mapping: {str(path)!r}.")
        for field, expected in {"apiVersion": "v1", "kind": "Config"}.items():
            if doc.get(field) not in (None, "", expected):
                raise credentials.LoginError(
                    f"It is not a kubeconfig by its {field}: {str(path)!r}."
                )
        current = doc.get("current-context") or None
        if current is not None and not isinstance(current, str):
            raise credentials.LoginError(f"The current context is wrong: {str(path)!r}.")
        self._current = self._current or current
        for kind in ("cluster", "user", "context"):
            self._add_entries(kind, doc.get(f"{kind}s") or [], path)

    def _add_entries(self, kind: str, items: Any, path: pathlib.Path) -> None:
        if not isinstance(items, list):
            raise credentials.LoginError(f"The kubeconfig's {kind}s are wrong: {str(path)!r}.")
        entries = [self._make_entry(kind, item, path) for item in items]
        if len({entry.name for entry in entries}) < len(entries):
            raise credentials.LoginError(
                f"The kubeconfig has several {kind}s of the same name: {str(path)!r}."
            )
        for entry in entries:
            self._entries.setdefault((kind, entry.name), entry)

    def _make_entry(self, kind: str, item: Any, path: pathlib.Path) -> Entry:
        fields = (item.get(kind) or {}) if isinstance(item, Mapping) else None
        if not isinstance(fields, Mapping) or not isinstance(item.get("name"), str):
            raise credentials.LoginError(f"The kubeconfig has a wrong {kind}: {str(path)!r}.")
        return Entry(kind, item["name"], fields, path.absolute().parent)

    def get_context(self, name: str | None) -> Entry:
        name = name or self._current
        if name is None:
            raise credentials.LoginError("The current context is not set in the kubeconfig.")
        return self._get("context", name)

    def get_cluster(self, context: Entry) -> Entry:
        entry = self._get("cluster", context.get_str("cluster") or "")
        if not entry.get_str("server"):
            raise entry.fail("has no server")
        return entry

    def get_user(self, context: Entry) -> Entry:
        name = context.get_str("user")
        return self._get("user", name) if name else Entry("user", "", {}, context.folder)

    def _get(self, kind: str, name: str) -> Entry:
        try:
            return self._entries[kind, name]
        except KeyError:
            raise credentials.LoginError(
                f"There is no {kind} {name!r} in the kubeconfig."
            ) from None


def _read_file(path: pathlib.Path) -> Any:
    try:
        return yamls.load(path.read_bytes())
    except OSError as e:
        raise credentials.LoginError(
            f"The kubeconfig cannot be read: {str(path)!r}: {e.strerror}."
        ) from e
    except ValueError as e:
        raise credentials.LoginError(f"The kubeconfig is not valid: {str(path)!r}: {e}") from e
