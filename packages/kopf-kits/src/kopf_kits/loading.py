"""Loading the files and modules with handlers: the handlers are registered when imported."""

from __future__ import annotations

import errno
import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Callable, Iterable
from types import ModuleType

from kopf_cogs.helpers.similar import find_similar

_FRAMEWORK = frozenset({"kopf", "kopf_cogs", "kopf_core", "kopf_kits"})


class LoadingError(ImportError):
    """A file or a module with handlers cannot be loaded; the message is one line for the user.

    The original exception, if there was any, is the cause. ``details`` is its traceback
    in the user's code only.
    """

    expected = True

    def __init__(self, message: str, details: str = "") -> None:
        super().__init__(message)
        self.details = details


def refuse_operator(_place: str) -> None:
    """Refuse operators in files loaded for another purpose: they would block this purpose."""
    raise RuntimeError(
        "An operator is run when the file is only loaded: put it under `if __name__ == '__main__':`"
    )


def preload(
    paths: Iterable[str] = (),
    modules: Iterable[str] = (),
    on_operator: Callable[[str], None] = refuse_operator,
) -> list[ModuleType]:
    """Import the files and then the modules, in order; get them as modules.

    As with Python itself, files can import other files from their own folders,
    modules can be in the current folder, too. A file that is imported already (e.g. by a test,
    or by another file), with its handlers registered, is not imported once more.
    Raises :class:`LoadingError` if something is absent or broken.

    If they run operators (``kopf.run()`` with no condition around), ``on_operator`` is called with
    the place in the code before each of them; it can refuse them by its errors.
    """
    from kopf_core.actions.context import loading_var  # short answers do not need it

    token = loading_var.set(lambda: on_operator(_find_caller()))
    try:
        files = [_load_file(path, name=_make_name(num, path)) for num, path in enumerate(paths)]
        return [*files, *(_load_module(name) for name in modules)]
    finally:
        loading_var.reset(token)


def _find_caller() -> str:
    """The place in the user's code that is being executed now."""
    frame = [f for f in traceback.extract_stack() if not _is_machinery(f.filename)][-1]
    return f"{_shorten(frame.filename)}:{frame.lineno}"


def _make_name(number: int, path: str) -> str:
    """Name the modules uniquely, also for files of the same name in different folders."""
    stem = os.path.splitext(os.path.basename(path))[0]
    safe = "".join(char if char.isalnum() else "_" for char in stem)
    return f"kopf_handlers_{number}_{safe}"


def _load_file(path: str, name: str) -> ModuleType:
    if not os.path.exists(path):
        original = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.path.abspath(path))
        raise LoadingError(f"The file {path!r} does not exist.") from original
    if os.path.isdir(path):
        raise LoadingError(f"{path!r} is a folder, not a file; use -m for packages.")
    folder = os.path.dirname(os.path.abspath(path))
    if folder not in sys.path:
        sys.path.insert(0, folder)
    if (known := _find_registered(path)) is not None:
        return known
    spec = importlib.util.spec_from_file_location(name, os.path.abspath(path))
    if spec is None or spec.loader is None:
        raise LoadingError(f"{path!r} is not a Python file: the name must end with '.py'.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as e:
        del sys.modules[name]
        raise _explain(e, path) from e
    except SystemExit as e:
        del sys.modules[name]
        raise LoadingError(f"{path}: it has exited when loaded (code {e.code}).") from e
    return module


def _find_registered(path: str) -> ModuleType | None:
    """The module of this file if its handlers are registered: an import would add them twice."""
    from kopf_core.intents.registries import get_default_registry  # short answers do not need it

    handlers = get_default_registry().resource_handlers
    for name in {getattr(handler.fn, "__module__", "") for handler in handlers}:
        file = getattr(sys.modules.get(name), "__file__", None)
        if file is not None and os.path.realpath(file) == os.path.realpath(path):
            return sys.modules[name]
    return None


def _load_module(name: str) -> ModuleType:
    if not all(name.split(".")) or "/" in name or "\\" in name:
        raise LoadingError(f"{name!r} is not a name of a module; paths go without -m.")
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as e:
        if e.name is not None and (e.name == name or name.startswith(f"{e.name}.")):
            hint = "; paths go without -m" if os.path.isfile(name) else ""
            raise LoadingError(f"The module {name!r} is not found{hint}.") from e
        raise _explain(e, name) from e
    except Exception as e:
        raise _explain(e, name) from e
    except SystemExit as e:
        raise LoadingError(f"{name}: it has exited when loaded (code {e.code}).") from e


def _explain(exc: Exception, title: str) -> LoadingError:
    """Say in one line what is wrong and where; keep the traceback of the user's code aside."""
    lines = traceback.format_exception_only(exc)
    reason = lines[-1].strip() + _suggest(exc, lines[-1])
    if isinstance(exc, SyntaxError) and exc.filename and os.path.exists(exc.filename):
        # The frames are of the importing code, and the lines have the place already.
        return LoadingError(f"{_shorten(exc.filename)}:{exc.lineno}: {reason}", "".join(lines))
    frames = _get_user_frames(exc)
    if not frames:
        return LoadingError(f"{title}: {reason}", "".join(lines))
    place = f"{_shorten(frames[-1].filename)}:{frames[-1].lineno}"
    header = "Traceback (most recent call last):\n"
    details = "".join([header, *traceback.format_list(frames), *lines])
    return LoadingError(f"{place}: {reason}", details)


def _suggest(exc: Exception, line: str) -> str:
    """A hint for the user. For an absent attribute, older Pythons hint only in tracebacks."""
    if isinstance(exc, ImportError) and "relative import with no known parent" in line:
        return "; load it by its full name: kopf run -m PACKAGE.MODULE"
    if not isinstance(exc, AttributeError) or "Did you mean" in line:
        return ""
    name, title = exc.name or "", getattr(exc.obj, "__name__", "")
    above = title.rpartition(".")[0] if isinstance(exc.obj, ModuleType) else ""
    if name in dir(sys.modules.get(above)):
        return f". Did you mean: '{above}.{name}'?"  # e.g. in `kopf.on` instead of `kopf`
    close = find_similar(name, dir(exc.obj))
    return f". Did you mean: {close!r}?" if close else ""


def _shorten(filename: str) -> str:
    """The path relative to the current folder if it is inside, or absolute if not."""
    path = os.path.abspath(filename)
    return os.path.relpath(path) if path.startswith(os.getcwd() + os.sep) else path


def _get_user_frames(exc: Exception) -> list[traceback.FrameSummary]:
    """The frames in the user's files; or in installed packages, if all frames are there."""
    frames = [
        frame
        for frame in traceback.extract_tb(exc.__traceback__)
        if not _is_machinery(frame.filename)
    ]
    return [frame for frame in frames if not _is_installed(frame.filename)] or frames


def _is_installed(filename: str) -> bool:
    return f"{os.sep}site-packages{os.sep}" in os.path.abspath(filename)


def _is_machinery(filename: str) -> bool:
    """Whether the file is of the framework or the standard library, which import other files."""
    path = os.path.abspath(filename)
    is_standard = filename.startswith("<") or path.startswith(os.path.dirname(os.__file__) + os.sep)
    is_framework = any(
        f"{os.sep}{folder}{os.sep}{name}{os.sep}" in path
        for folder in ("src", "site-packages")
        for name in _FRAMEWORK
    )
    return is_framework or (is_standard and not _is_installed(path))
