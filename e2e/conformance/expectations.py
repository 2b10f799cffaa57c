"""What the real server does: recorded from it once, compared to on every cluster since."""

from __future__ import annotations

import json
import pathlib
from typing import Any, Self

from e2e.clusters import Cluster

from .normal import without_messages
from .registry import Behaviour

HERE = pathlib.Path(__file__).parent
EXPECTED = HERE / "expected"
DIFFERENCES = HERE / "differences.json"
REFERENCE = "envtest"


class Expectations:
    """The recorded behaviours, a file an area.

    On the cluster that they are recorded from, and on the emulator, everything has to be the same.
    Other clusters can be of other versions, which can put the messages differently, or have other
    storages and admission: what differs there is not ours, and is shown but not required.
    """

    def __init__(self, cluster: Cluster | None, *, recording: bool = False) -> None:
        super().__init__()
        self.recording = recording
        self.exact = cluster is None or cluster.name in (REFERENCE, "emulator")
        self._areas: dict[str, dict[str, Any]] = {}

    @classmethod
    def load(cls, cluster: Cluster | None = None, *, recording: bool = False) -> Self:
        if recording and (cluster is None or cluster.name != REFERENCE):
            raise ValueError(f"Only the real server is recorded: use --cluster {REFERENCE}.")
        self = cls(cluster, recording=recording)
        for path in sorted(EXPECTED.glob("*.json")):
            self._areas[path.stem] = json.loads(path.read_text(encoding="utf-8"))
        return self

    def compare(self, behaviour: Behaviour, observation: Any) -> tuple[Any, Any]:
        """Prepare both the observation and the expectation to be compared."""
        expected = self._areas.get(behaviour.area, {}).get(behaviour.name, "(not recorded)")
        if self.exact:
            return observation, expected
        return without_messages(observation), without_messages(expected)

    def agree(self, behaviour: Behaviour, observation: Any) -> bool:
        shown, expected = self.compare(behaviour, observation)
        return bool(shown == expected)

    def record(self, behaviour: Behaviour, observation: Any) -> None:
        """Rewrite the expectation; the file is kept in order, for the sake of the differences."""
        area = self._areas.setdefault(behaviour.area, {})
        area[behaviour.name] = observation
        EXPECTED.mkdir(exist_ok=True)
        text = json.dumps(area, indent=2, sort_keys=True, ensure_ascii=False)
        (EXPECTED / f"{behaviour.area}.json").write_text(f"{text}\n", encoding="utf-8")


def load_differences() -> dict[str, str]:
    """Load the known differences of the emulator: why each is there, in one line."""
    differences: dict[str, str] = json.loads(DIFFERENCES.read_text(encoding="utf-8"))
    return differences
