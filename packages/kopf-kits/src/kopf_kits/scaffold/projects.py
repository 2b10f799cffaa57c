"""Projects: what they are made of, what is remembered of that, and how they are updated."""

from __future__ import annotations

import dataclasses
import importlib.resources
import json
import pathlib
import re
import string
from collections.abc import Iterator, Mapping
from importlib.resources.abc import Traversable

from kopf_kits.scaffold.merging import merge_texts

Files = Mapping[str, str]

LOCK = ".kopf-scaffold.json"
"""Where it is remembered of what the project was made: it is to be committed with the project."""

_NAME = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")
_GROUP = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+")
FOLDER = importlib.resources.files("kopf_kits.scaffold") / "files"


class ProjectError(Exception):
    """The project cannot be made or updated."""

    expected = True


@dataclasses.dataclass(frozen=True, kw_only=True)
class Answers:
    """What is known of the project; everything else follows from that."""

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
        if not _GROUP.fullmatch(self.group):
            raise ProjectError(f"The group {self.group!r} does not fit: it is to be as a domain.")

    @property
    def image(self) -> str:
        return f"registry.example.com/{self.name}:0.1.0"

    @property
    def namespaces(self) -> tuple[str, ...]:
        """Those that are served; none is for all."""
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
    """Dollars are for makefiles and workflows."""

    delimiter = "~~"


def render(answers: Answers) -> dict[str, str]:
    """The files of the scaffold, by their paths in the project."""
    words = answers.as_words()
    return {
        _place(path, answers): _Template(text).substitute(words) for path, text in _read(FOLDER, "")
    }


def _place(path: str, answers: Answers) -> str:
    """Where the file is in the project: the names here are for those tools that look into all."""
    path = path.removesuffix(".tmpl").replace("PACKAGE", answers.package)
    return path.replace("dot-", ".")


def _read(folder: Traversable, prefix: str) -> Iterator[tuple[str, str]]:
    for one in sorted(folder.iterdir(), key=lambda one: one.name):
        if one.is_dir() and one.name != "__pycache__":
            yield from _read(one, f"{prefix}{one.name}/")
        elif one.is_file():
            yield f"{prefix}{one.name}", one.read_text("utf-8")


def create(folder: pathlib.Path, answers: Answers, files: Files) -> None:
    """Write the project to a new or empty folder. Raises :class:`ProjectError` if it is not."""
    if folder.exists() and any(folder.iterdir()):
        raise ProjectError(f"The folder {folder} is not empty. To update a project, use --update.")
    for path, text in files.items():
        _write(folder / path, text)
    _write(folder / LOCK, _dump(answers, files))


def load(folder: pathlib.Path) -> tuple[Answers, dict[str, str]]:
    """What the project was made of: the answers, and the files as they were then."""
    try:
        data = json.loads((folder / LOCK).read_text("utf-8"))
        return Answers(**data["answers"]), dict(data["files"])
    except FileNotFoundError:
        text = f"There is no {LOCK} in {folder}: it is not a project of 'kopf init'."
        raise ProjectError(text) from None
    except (ValueError, KeyError, TypeError) as e:
        raise ProjectError(f"The file {folder / LOCK} is broken: {e}") from e


def update(folder: pathlib.Path, answers: Answers, files: Files, base: Files) -> dict[str, bool]:
    """Merge the files of the newer scaffold into the project; get which ones are changed.

    The value says if there are conflicts, to be resolved by people. What was removed from the
    project stays so; what is not in the scaffold anymore is removed if it was never changed.
    """
    changed: dict[str, bool] = {}
    for path in sorted(files.keys() | base.keys()):
        target = folder / path
        ours = target.read_text("utf-8") if target.is_file() else None
        old, new = base.get(path), files.get(path)
        if new is None:
            if ours is not None and ours == old:
                target.unlink()
                changed[path] = False
        elif ours is None:
            if old is None:
                _write(target, new)
                changed[path] = False
        else:
            merged = merge_texts(old or "", ours, new)
            if merged.text != ours:
                _write(target, merged.text)
                changed[path] = merged.has_conflicts
    _write(folder / LOCK, _dump(answers, files))
    return changed


def _dump(answers: Answers, files: Files) -> str:
    data = {"answers": dataclasses.asdict(answers), "files": dict(sorted(files.items()))}
    return json.dumps(data, indent=1) + "\n"


def _write(path: pathlib.Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
