"""The syntax of label selectors, as in ``kubectl get -l``.

API servers refuse wrong selectors when these are used, which is late: operators would begin their
work, and watch nothing.
"""

import re

_KEY, _VALUE = r"[\w./-]+", r"[\w.-]*"
_VALUES = rf"\(\s*{_VALUE}(?:\s*,\s*{_VALUE})*\s*\)"
_REQUIREMENT = "|".join(
    (
        rf"!?\s*{_KEY}",
        rf"{_KEY}\s*(?:==?|!=)\s*{_VALUE}",
        rf"{_KEY}\s+(?:in|notin)\s*{_VALUES}",
        rf"{_KEY}\s*[<>]\s*-?\d+",
    )
)
_SELECTOR = re.compile(rf"\s*(?:{_REQUIREMENT})\s*(?:,\s*(?:{_REQUIREMENT})\s*)*")


def is_label_selector(text: str) -> bool:
    """Whether API servers can understand this as a label selector; an empty one has no labels."""
    return not text.strip() or _SELECTOR.fullmatch(text) is not None
