"""Sphinx: Markdown pages (MyST), the furo theme, the API reference read from the sources."""

import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "docs" / "_extensions"), str(ROOT / "tools")]

import coverage_table  # noqa: E402

coverage_table.write()

project = "Kopf"
author = "The Kopf team"
project_copyright = "2026, The Kopf team"
config = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
release = str(config["tool"]["kopf"]["version"])
version = release.rpartition(".")[0]

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "kubernetes_terms",
    "public_names",
    "site_pages",
    "spelled_options",
]
myst_enable_extensions = ["attrs_block", "attrs_inline", "colon_fence", "deflist", "fieldlist"]
myst_heading_anchors = 3
exclude_patterns = [
    "_build",
    "_playground",
    "_extensions",
    "_diagrams",
    "_casts",
    "_templates",
    "AGENTS.md",
]

# The reference. Names in single backticks of docstrings are links, and dead links are errors.
default_role = "py:obj"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
python_maximum_signature_line_length = 90
python_use_unqualified_type_names = True
nitpicky = True

copybutton_prompt_text = "$ "
copybutton_exclude = ".linenos, .gp, .go"

html_theme = "furo"
html_title = f"Kopf {release}"
html_show_sourcelink = False
html_copy_source = False
html_static_path = ["_static", "_build/assets"]
html_css_files = ["kopf.css"]
html_js_files = ["versions.js", "pages.js"]
templates_path = ["_templates"]
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "versions.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}
html_extra_path = ["AGENTS.md"]
html_logo = "_static/logo.svg"
html_favicon = "_static/logo.svg"
html_theme_options = {
    "source_repository": "https://github.com/nolar/kopf/",
    "source_branch": "main",
    "source_directory": "docs/",
    "light_css_variables": {"color-brand-primary": "#2f6fde", "color-brand-content": "#2459b8"},
    "dark_css_variables": {"color-brand-primary": "#6ea0ff", "color-brand-content": "#8ab4ff"},
}
suppress_warnings = ["myst.header"]
