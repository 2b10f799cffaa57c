"""On PYTHONPATH, it hides the faster JSON parser, as if it were not installed."""

import sys

sys.modules["orjson"] = None  # type: ignore[assignment]
