"""Calls by the calendar, by other systems, and by changes of the status; with limits."""

import asyncio

import kopf


@kopf.on.startup()
def configure(settings, **kwargs):
    settings.execution.attempt_timeout = 60  # an attempt that hangs for a minute is retried
    settings.persistence.diffbase_storage = kopf.DigestDiffBaseStorage()  # no handler needs `old`


# Every night in Berlin; once more in the morning if the operator was down at night.
@kopf.timer("kopfexamples", schedule="0 3 * * *", timezone="Europe/Berlin", missed="one", jitter=60)
async def back_up(scheduled, logger, **kwargs):
    logger.info(f"The backup for {scheduled:%Y-%m-%d}")


# A client of a message queue would be here. This one has a message for an object every second.
@kopf.on.external()
async def messages(**kwargs):
    while True:
        await asyncio.sleep(1)
        yield kopf.Happening("kopfexamples", "kopf-example-1", reason="a message")


# A pass for every message, or for several messages at once.
@kopf.reconcile("kopfexamples")
def look(triggers, logger, **kwargs):
    for trigger in triggers:
        if trigger.kind == "external":
            logger.info(f"A look because of {trigger.subject}")


@kopf.on.create("kopfexamples")
def begin(patch, **kwargs):
    patch.status["phase"] = "Started"


@kopf.on.field("kopfexamples", field="status.phase")
def phase_changed(new, logger, **kwargs):
    logger.info(f"The phase is {new}")
