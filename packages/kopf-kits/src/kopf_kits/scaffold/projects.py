"""Projects: the answers of people, the files made of them, and their updates."""

from __future__ import annotations

import dataclasses
import importlib.resources
import json
import pathlib
import re
import shutil
import string
from collections.abc import Iterator, Mapping
from importlib.resources.abc import Traversable

import yaml

from kopf_kits.definitions.writing import Quoting
from kopf_kits.scaffold.merging import Merged, merge_texts

Files = Mapping[str, str]

LOCK = ".kopf-scaffold.json"
"""The file with the answers and the texts that made the project: users must commit it, too."""

_CONFLICTS = re.compile(r"(?ms)^<<<<<<< .*^>>>>>>> ")
_NAME = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")
_GROUP = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+")
_TAKEN = frozenset({"kopf", "kopf-cogs", "kopf-core", "kopf-kits"})
FOLDER = importlib.resources.files("kopf_kits.scaffold") / "files"


class ProjectError(Exception):
    """The project cannot be made or updated."""

    expected = True


@dataclasses.dataclass(frozen=True, kw_only=True)
class Answers:
    """The answers of a user about the project; everything else follows from them."""

    name: str
    group: str = "example.com"
    version: str
    """The version of Kopf: the least one that the project needs."""

    is_namespaced: bool = False

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ProjectError(
                f"The name {self.name!r} does not fit: it must be of 1-40 small letters, digits, "
                "and dashes between them, with a letter at its beginning."
            )
        if self.name in _TAKEN:
            raise ProjectError(f"The name {self.name!r} is taken: it is what the project needs.")
        if yaml.dump(self.name, Dumper=Quoting).startswith("'"):
            raise ProjectError(f"The name {self.name!r} does not fit: it is no text in YAML.")
        if not _GROUP.fullmatch(self.group):
            raise ProjectError(f"The group {self.group!r} does not fit: it must be a domain.")

    @property
    def image(self) -> str:
        return f"registry.example.com/{self.name}:0.1.0"

    @property
    def namespaces(self) -> tuple[str, ...]:
        """The namespaces that the operator serves; none is for all."""
        return ("default",) if self.is_namespaced else ()

    @property
    def package(self) -> str:
        return self.name.replace("-", "_") + "_operator"

    @property
    def plural(self) -> str:
        singular = self.name.replace("-", "")
        return singular + ("es" if singular.endswith(("s", "x", "z", "ch", "sh")) else "s")

    def as_words(self) -> dict[str, str]:
        """The words that are put into the files."""
        scope = [f"--namespace={one}" for one in self.namespaces]
        options = [f"--name={self.name}", f"--into={self.name}", "--image=$(IMAGE)", *scope]
        return {
            "name": self.name,
            "group": self.group,
            "version": self.version,
            "image": self.image,
            "package": self.package,
            "plural": self.plural,
            "singular": self.name.replace("-", ""),
            "kind": "".join(part.capitalize() for part in self.name.split("-")),
            "scope": " ".join(scope) or "--all-namespaces",
            "options": " ".join([*options, "--arg=-m", f"--arg={self.package}.handlers"]),
        }


class _Template(string.Template):
    """A template that leaves dollars to makefiles and workflows."""

    delimiter = "~~"


def render(answers: Answers) -> dict[str, str]:
    """The files of the scaffold, by their paths in the project."""
    words = answers.as_words()
    return {
        _place(path, answers): _Template(text).substitute(words) for path, text in _read(FOLDER, "")
    }


def _place(path: str, answers: Answers) -> str:
    """The path of the file in the project. Its name here keeps away tools that scan all files."""
    path = path.removesuffix(".tmpl").replace("PACKAGE", answers.package)
    return path.replace("dot-", ".")


def _read(folder: Traversable, prefix: str) -> Iterator[tuple[str, str]]:
    for one in sorted(folder.iterdir(), key=lambda one: one.name):
        if one.is_dir() and one.name != "__pycache__":
            yield from _read(one, f"{prefix}{one.name}/")
        elif one.is_file():
            yield f"{prefix}{one.name}", one.read_text("utf-8")


def create(folder: pathlib.Path, answers: Answers, files: Files) -> None:
    """Write the project to a new folder, or to one that has nothing but a repository.

    Raises :class:`ProjectError` if there is anything else.
    """
    if folder.exists() and not folder.is_dir():
        raise ProjectError(f"{folder} is a file: name another folder by --directory.")
    if folder.exists() and any(one.name != ".git" for one in folder.iterdir()):
        raise ProjectError(f"The folder {folder} is not empty. To update a project, use --update.")
    for path, text in files.items():
        _write(folder / path, text)
    _write(folder / LOCK, _dump(answers, files))


def load(folder: pathlib.Path) -> tuple[Answers, dict[str, str]]:
    """The origin of the project: the answers, and the files as they were then."""
    try:
        data = json.loads((folder / LOCK).read_text("utf-8"))
        answers, files = Answers(**data["answers"]), dict(data["files"])
    except FileNotFoundError:
        text = f"There is no {LOCK} in {folder}: it is not a project of 'kopf init'."
        raise ProjectError(text) from None
    except (ValueError, KeyError, TypeError) as e:
        raise ProjectError(f"The file {folder / LOCK} is broken: {e}") from e
    for path, text in files.items():
        place = pathlib.PurePosixPath(path)
        if not isinstance(text, str) or place.is_absolute() or ".." in place.parts:
            raise ProjectError(f"The file {folder / LOCK} is broken: in its file {path!r}.")
    return answers, files


def update(folder: pathlib.Path, answers: Answers, files: Files, base: Files) -> dict[str, bool]:
    """Merge the files of the newer scaffold into the project; get which ones are changed.

    The value says if there are conflicts, which users must resolve. The update does not restore
    the files that users have removed. It removes a file that the newer scaffold does not have,
    if users never changed it.

    Raises :class:`ProjectError` with nothing changed if some of the files cannot be merged.
    """
    merged = {
        path: _merge(folder / path, base.get(path), files.get(path))
        for path in sorted(files.keys() | base.keys())
        if files.get(path) != base.get(path)
    }
    changed: dict[str, bool] = {}
    for path, result in merged.items():
        if result is None:
            continue
        changed[path] = result.has_conflicts
        if path in files:
            _write(folder / path, result.text)
        else:
            (folder / path).unlink()
    _write(folder / LOCK, _dump(answers, files))
    return changed


def _merge(target: pathlib.Path, old: str | None, new: str | None) -> Merged | None:
    """The new content of the file, empty for its removal; ``None`` to leave the file alone."""
    if not target.is_file():
        if old is None and target.exists():
            raise ProjectError(f"{target} is a folder: move it away, and start again.")
        return Merged(new or "", False) if old is None else None
    ours, end = _read_text(target)
    if new is None:
        return Merged("", False) if ours == old else None
    if _CONFLICTS.search(ours):
        raise ProjectError(f"{target} has conflicts: resolve them, and start again.")
    merged = merge_texts(old or "", ours, new)
    text = merged.text.replace("\n", end)
    return None if merged.text == ours else Merged(text, merged.has_conflicts)


def _read_text(path: pathlib.Path) -> tuple[str, str]:
    """The text, and the end of its lines. If the ends of lines differ, the text keeps them."""
    try:
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError:
        problem = f"{path} is not a text in UTF-8: move it away, and start again."
        raise ProjectError(problem) from None
    unified = text.replace("\r\n", "\n")
    is_windows = len(text) - len(unified) == unified.count("\n") > 0
    return (unified, "\r\n") if is_windows else (text, "\n")


def _dump(answers: Answers, files: Files) -> str:
    data = {"answers": dataclasses.asdict(answers), "files": dict(sorted(files.items()))}
    return json.dumps(data, indent=1) + "\n"


def _write(path: pathlib.Path, text: str) -> None:
    """Replace the file as a whole: after an interruption, the previous file is still there."""
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.kopf")
    draft.write_bytes(text.encode("utf-8"))
    if path.exists():
        shutil.copymode(path, draft)
    draft.replace(path)
