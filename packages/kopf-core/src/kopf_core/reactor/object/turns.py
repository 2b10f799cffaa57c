"""Turns: one object while it is processed."""

from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.structs.bodies import Body, RawEvent
from kopf_cogs.structs.dicts import is_view_of
from kopf_cogs.structs.patches import Patch
from kopf_core.actions.effects import Applied
from kopf_core.actions.execution import Execution
from kopf_core.actions.loggers import LocalObjectLogger
from kopf_core.actions.marks import Marks
from kopf_core.actions.states import State
from kopf_core.engines.memories import ObjectMemory
from kopf_core.engines.records.stages import UNHANDLED, Stage
from kopf_core.intents.causes import ChangingCause
from kopf_core.reactor.streams.work import WorkItem

NO_BODY = Body({})


class Turn:
    """One object while it is processed. Parts that few turns need are made when needed."""

    __slots__ = (
        "_body",
        "_logger",
        "_marks",
        "_patch",
        "applied",
        "cause",
        "clock_offset",
        "echoes",
        "essence",
        "execution",
        "is_finished",
        "item",
        "memory",
        "settings",
        "state",
        "term",
    )

    def __init__(self, item: WorkItem, memory: ObjectMemory, settings: OperatorSettings) -> None:
        self.item = item
        self.memory = memory
        self.settings = settings
        self._body = NO_BODY

        self.cause: ChangingCause
        """The cause: the change of the object; this attribute is absent until the detection."""

        self.term: int | None = None
        """The term of the leadership in which the object was verified, if there is a lease."""

        self.essence: Patch | None = None
        """The patch with the last handled state, to be sent when the handling cycle is over."""

        self.clock_offset: float | None = None
        """How far the wall clock is ahead of the monotonic one, if handlers run in this turn."""

        self.execution: Execution | None = None
        """The execution of the handlers of changes in this turn, if any are run."""

        self.is_finished = False
        """Whether the handling cycle is over in this turn, with nothing left to do."""

        self.state: State | None = None
        """The state of the handlers after this step, if the cycle goes on."""

        self.applied: Applied | None = None
        """The outcome of the latest patch, if there was one."""

        self.echoes: tuple[RawEvent, ...] = ()
        """The echoes of our own patches that are left to a later turn."""

        self._patch: Patch | None = memory.owed.patch
        self._marks: Marks | None = memory.owed.marks
        self._logger: LocalObjectLogger | None = None
        if memory.cycle.stage is Stage.UNSEEN:
            memory.cycle = UNHANDLED
        if memory.namespace is None:
            memory.namespace = item.namespace

    @property
    def body(self) -> Body:
        """The newest known state of the object, which can be newer than its latest event."""
        latest = self.item.latest
        if latest is not None and not is_view_of(self._body, latest):
            self._body = Body(latest)
        return self._body

    @property
    def is_outdated(self) -> bool:
        """Whether the newest state that has come is older than our own latest patch or request."""
        write, latest = self.memory.write, self.item.latest
        return write.floor is not None and latest is not None and write.outdates(latest)

    @property
    def is_own(self) -> bool:
        """Whether the newest known state is surely not later than our latest patch or request."""
        latest = self.item.latest
        return latest is not None and self.memory.write.includes(latest)

    def take_owed(self) -> None:
        """Take over the changes that earlier turns have made, but could not send."""
        self._marks, self._patch = self.memory.owed.marks, self.memory.owed.patch

    @property
    def patch(self) -> Patch:
        """The changes made by the handlers."""
        if self._patch is None:
            self._patch = Patch()
        return self._patch

    @property
    def marks(self) -> Marks:
        """The changes made by the framework itself."""
        if self._marks is None:
            self._marks = Marks()
        return self._marks

    @property
    def is_changing(self) -> bool:
        """Whether there are changes to send to the API."""
        return bool(self._patch or self._marks)

    @property
    def logger(self) -> LocalObjectLogger:
        """The logger of details: they never become Kubernetes events of the object."""
        if self._logger is not None:
            return self._logger
        latest = self.item.latest
        if latest is None:
            return LocalObjectLogger(body=NO_BODY, settings=self.settings)
        self._logger = LocalObjectLogger(body=Body(latest), settings=self.settings)
        return self._logger
