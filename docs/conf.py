"""Sphinx: Markdown pages (MyST), the furo theme, the API reference read from the sources."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

project = "Kopf"
author = "The Kopf team"
project_copyright = "2026, The Kopf team"
config = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
release = str(config["tool"]["kopf"]["version"])
version = release.rpartition(".")[0]

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
myst_enable_extensions = ["colon_fence", "deflist", "fieldlist"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
autodoc_typehints = "description"
autodoc_member_order = "bysource"

html_theme = "furo"
html_title = f"Kopf {release}"
html_show_sourcelink = False
nitpicky = False
