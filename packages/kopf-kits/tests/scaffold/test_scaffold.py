"""Projects to begin with: what they are made of, and how they are updated."""

import ast
import pathlib
import tomllib

import click.testing
import pytest
import yaml

from kopf_kits.cli.groups import main
from kopf_kits.cli.initing import render_project
from kopf_kits.scaffold.merging import merge_texts
from kopf_kits.scaffold.projects import LOCK, Answers, ProjectError, create, load, update

ANSWERS = Answers(name="my-site", group="acme.org", version="1.46.0")


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "merged"),
    [
        ("a\nb\nc\n", "a\nb\nc\n", "a\nB\nc\n", "a\nB\nc\n"),
        ("a\nb\nc\n", "A\nb\nc\n", "a\nb\nC\n", "A\nb\nC\n"),
        ("a\nb\nc\n", "a\nb\nc\nd\n", "z\na\nb\nc\n", "z\na\nb\nc\nd\n"),
        ("a\nb\nc\n", "a\nc\n", "a\nb\nc\nd\n", "a\nc\nd\n"),
        ("a\nb\nc\n", "a\nX\nc\n", "a\nX\nc\n", "a\nX\nc\n"),
        ("", "a\n", "", "a\n"),
        ("a\nb", "a\nb", "a\nb\nc", "a\nb\nc"),
        ("x\ny\nx\ny\n", "x\ny\nx\ny\nz\n", "w\nx\ny\nx\ny\n", "w\nx\ny\nx\ny\nz\n"),
    ],
)
def test_n_texts_are_merged(base: str, ours: str, theirs: str, merged: str) -> None:
    assert merge_texts(base, ours, theirs) == (merged, False)


def test_n_conflicts_are_marked_as_git_does() -> None:
    text, has_conflicts = merge_texts("a\nb\nc\n", "a\nours\nc\n", "a\ntheirs\nc\n")
    assert has_conflicts
    assert text == ("a\n<<<<<<< this project\nours\n=======\ntheirs\n>>>>>>> the new scaffold\nc\n")


@pytest.mark.parametrize("is_namespaced", [False, True])
def test_n_projects_are_consistent(is_namespaced: bool) -> None:
    answers = Answers(
        name="my-site", group="acme.org", version="1.46.0", is_namespaced=is_namespaced
    )
    files = render_project(answers)
    assert not [path for path, text in files.items() if "~~" in text or "PACKAGE" in path]
    for path, text in files.items():
        if path.endswith(".py"):
            ast.parse(text)
    assert tomllib.loads(files["pyproject.toml"])["project"]["name"] == "my-site"
    crd = yaml.safe_load(files["manifests/crd.yaml"])
    assert crd["metadata"]["name"] == "mysites.acme.org"
    assert crd["spec"]["names"]["kind"] == "MySite"
    roles = list(yaml.safe_load_all(files["deploy/kustomize/permissions.yaml"]))
    assert ("Role" in {role["kind"] for role in roles}) is is_namespaced
    values = yaml.safe_load(files["deploy/chart/values.yaml"])
    assert values["args"] == ["-m", "my_site_operator.handlers"]
    assert values["namespaces"] == (["default"] if is_namespaced else [])
    scope = "--namespace=default" if is_namespaced else "--all-namespaces"
    for path in ("Dockerfile", "Makefile", "README.md", "tests/test_handlers.py"):
        assert scope in files[path], path


@pytest.mark.parametrize("name", ["", "My", "1st", "a_b", "a" * 41, "a-"])
def test_n_odd_names_are_refused(name: str) -> None:
    with pytest.raises(ProjectError, match="does not fit"):
        Answers(name=name, version="1.46.0")


def test_n_projects_are_not_put_over_others(tmp_path: pathlib.Path) -> None:
    (tmp_path / "precious").touch()
    with pytest.raises(ProjectError, match="not empty"):
        create(tmp_path, ANSWERS, {})


def test_n_projects_are_put_into_new_repositories(tmp_path: pathlib.Path) -> None:
    (tmp_path / ".git").mkdir()
    create(tmp_path, ANSWERS, {"a.txt": "a"})
    assert (tmp_path / "a.txt").read_text() == "a"


def test_n_projects_are_not_put_over_files(tmp_path: pathlib.Path) -> None:
    (tmp_path / "x").write_text("a file")
    with pytest.raises(ProjectError, match="x is a file"):
        create(tmp_path / "x", ANSWERS, {"a.txt": "a"})


@pytest.mark.parametrize("name", ["kopf", "kopf-core"])
def test_n_projects_do_not_replace_the_framework_that_they_need(name: str) -> None:
    with pytest.raises(ProjectError, match=f"The name '{name}' is taken"):
        Answers(name=name, version="1.46.0")


@pytest.mark.parametrize("name", ["yes", "true", "null", "off", "y"])
def test_n_names_are_texts_in_the_manifests(name: str) -> None:
    with pytest.raises(ProjectError, match="it is no text in YAML"):
        Answers(name=name, version="1.46.0")


def test_n_updates_keep_the_changes(tmp_path: pathlib.Path) -> None:
    old = {"same": "a\nb\nc\n", "removed": "x\n", "unused": "u\n", "kept": "k\n", "both": "1\n"}
    create(tmp_path, ANSWERS, old)
    (tmp_path / "same").write_text("a\nb\nc\nmine\n")
    (tmp_path / "removed").unlink()
    (tmp_path / "kept").write_text("mine\n")
    (tmp_path / "both").write_text("2\n")
    new = {"same": "A\nb\nc\n", "removed": "y\n", "added": "n\n", "both": "3\n"}
    answers, base = load(tmp_path)
    assert (answers, base) == (ANSWERS, old)
    changed = update(tmp_path, answers, new, base)
    assert changed == {"same": False, "unused": False, "added": False, "both": True}
    assert (tmp_path / "same").read_text() == "A\nb\nc\nmine\n"
    assert (tmp_path / "kept").read_text() == "mine\n"
    assert (tmp_path / "added").read_text() == "n\n"
    assert not (tmp_path / "removed").exists()
    assert not (tmp_path / "unused").exists()
    assert load(tmp_path)[1] == new


def test_n_init_and_update_as_commands(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "website"
    runner = click.testing.CliRunner()
    result = runner.invoke(main, ["init", "website", f"--directory={folder}"])
    assert result.exit_code == 0, result.output
    assert (folder / LOCK).exists()
    result = runner.invoke(main, ["init", "--update", f"--directory={folder}"])
    assert (result.exit_code, result.output) == (0, "Everything is up to date.\n")
    lock = (folder / LOCK).read_text()
    makefile = (folder / "Makefile").read_text()
    older = makefile.replace("Build the image", "Make the image")
    (folder / LOCK).write_text(lock.replace("Build the image", "Make the image"))
    (folder / "Makefile").write_text(older + "\nmine:\n\techo\n")
    result = runner.invoke(main, ["init", "--update", f"--directory={folder}"])
    assert (result.exit_code, result.output) == (0, "Updated Makefile\n")
    assert (folder / "Makefile").read_text() == makefile + "\nmine:\n\techo\n"


OLDER = {"a.txt": "1\n2\n3\n", "b.txt": "b\n", "c.txt": "c\n"}
NEWER = {"a.txt": "1\n2\n3\n4\n", "b.txt": "B\n", "c.txt": "C\n"}


@pytest.fixture
def project(tmp_path: pathlib.Path) -> pathlib.Path:
    create(tmp_path / "project", ANSWERS, OLDER)
    return tmp_path / "project"


@pytest.mark.parametrize(
    ("ours", "merged"),
    [
        (b"0\r\n1\r\n2\r\n3\r\n", b"0\r\n1\r\n2\r\n3\r\n4\r\n"),
        (b"0\r\n1\n2\n3\n", b"0\r\n1\n2\n3\n4\n"),
    ],
)
def test_n_ends_of_lines_stay_as_they_are_in_the_project(
    project: pathlib.Path, ours: bytes, merged: bytes
) -> None:
    (project / "a.txt").write_bytes(ours)
    assert update(project, ANSWERS, NEWER, OLDER)["a.txt"] is False
    assert (project / "a.txt").read_bytes() == merged


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\x82\xff", "b.txt is not a text in UTF-8"),
        (b"<<<<<<< HEAD\na\n=======\nb\n>>>>>>> x\n", "b.txt has conflicts"),
    ],
)
def test_n_nothing_is_updated_if_something_cannot_be_merged(
    project: pathlib.Path, content: bytes, reason: str
) -> None:
    (project / "b.txt").write_bytes(content)
    before = {path: path.read_bytes() for path in project.iterdir() if path.is_file()}
    with pytest.raises(ProjectError, match=reason):
        update(project, ANSWERS, NEWER, OLDER)
    assert {path: path.read_bytes() for path in project.iterdir() if path.is_file()} == before


def test_n_folders_in_place_of_files_are_left_alone(project: pathlib.Path) -> None:
    (project / "b.txt").unlink()
    (project / "b.txt").mkdir()
    with pytest.raises(ProjectError, match=r"b\.txt is a folder"):
        update(project, ANSWERS, NEWER, {"a.txt": OLDER["a.txt"]})
    assert (project / "a.txt").read_text() == OLDER["a.txt"]
    assert update(project, ANSWERS, NEWER, OLDER) == {"a.txt": False, "c.txt": False}


def test_n_files_are_replaced_as_a_whole(project: pathlib.Path) -> None:
    """A kill in the middle of writing must not leave a half of a file of the user."""
    (project / "a.txt").rename(project / "real.txt")
    (project / "a.txt").symlink_to("real.txt")
    (project / "real.txt").chmod(0o755)
    (project / "a.txt").write_text("0\n1\n2\n3\n")
    with (project / "a.txt").open() as file:
        update(project, ANSWERS, NEWER, OLDER)
        assert file.read() == "0\n1\n2\n3\n"  # the previous file is still what it was
    assert (project / "a.txt").is_symlink()
    assert (project / "real.txt").read_text() == "0\n1\n2\n3\n4\n"
    assert (project / "real.txt").stat().st_mode & 0o777 == 0o755
    assert {path.name for path in project.iterdir()} == {*NEWER, "real.txt", LOCK}


@pytest.mark.parametrize("files", ['{"Makefile": 5}', '["a"]', '{"../x": "a"}', '{"/x": "a"}'])
def test_n_broken_memories_of_projects_are_named(tmp_path: pathlib.Path, files: str) -> None:
    answers = '{"name": "web", "version": "1.46"}'
    (tmp_path / LOCK).write_text(f'{{"answers": {answers}, "files": {files}}}')
    with pytest.raises(ProjectError, match=rf"{LOCK} is broken"):
        load(tmp_path)
