"""Background tasks that live as long as their objects do."""

import asyncio
import time

import kopf


# A sync daemon runs in a thread, and checks for its stopping every now and then.
@kopf.daemon("kopfexamples", initial_delay=1, labels={"somelabel": "somevalue"})
def background_sync(spec, logger, retry, stopped, **kwargs):
    logger.info(f"=> Ping from a sync daemon: field={spec.get('field')!r}, retry={retry}")
    while not stopped:
        stopped.wait(0.5)
    logger.info(f"=> Stopped: {stopped.reason}")


# An async daemon runs in the event loop, and can be cancelled at any `await`.
@kopf.daemon("kopfexamples", cancellation_backoff=1.0, cancellation_timeout=0.5)
async def background_async(spec, logger, stopped, **kwargs):
    while not stopped:
        logger.info(f"=> Ping from an async daemon: field={spec.get('field')!r}")
        await stopped.wait(1.0)


# Errors are retried as in all handlers; it is restarted after the delay.
@kopf.daemon("kopfexamples", annotations={"restarting": "yes"})
async def background_restarted(logger, retry, **kwargs):
    await asyncio.sleep(0.5)
    logger.info(f"=> Restarting at {time.strftime('%X')}, attempt {retry}")
    raise kopf.TemporaryError("Go on.", delay=0.5)
