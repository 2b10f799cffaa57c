"""Write the page of the documentation."""

from e2e.kubeconfigs.report import OUTPUT, render

OUTPUT.write_text(render(), encoding="utf-8")
