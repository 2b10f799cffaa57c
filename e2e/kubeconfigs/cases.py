"""The whole table."""

from e2e.kubeconfigs.case_files import FILES
from e2e.kubeconfigs.case_logins import LOGINS
from e2e.kubeconfigs.case_plugins import PLUGINS

CASES = [*FILES, *LOGINS, *PLUGINS]
