"""Regular activities for objects."""

import kopf


# Every second, while the object exists.
@kopf.timer("kopfexamples", interval=1)
def every_second(spec, logger, **kwargs):
    logger.info(f"Every second: field={spec.get('field')!r}")


# Precisely every 2 seconds, no matter how long it takes; but only when matching.
@kopf.timer("kopfexamples", interval=2, sharp=True, labels={"somelabel": "somevalue"})
async def every_2s_sharp(memo: kopf.Memo, patch, **kwargs):
    memo.counter = memo.get("counter", 0) + 1
    patch.status["counter"] = memo.counter


# Only if the object has not been changed for the last second; the counter above is a change, too.
@kopf.timer("kopfexamples", idle=1, interval=5)
def when_idle(logger, **kwargs):
    logger.info("There were no changes for a while.")
