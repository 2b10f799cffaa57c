"""Many features of the framework in one operator: a playground for developers."""

import asyncio

import kopf


@kopf.on.startup()
async def startup_fn(settings: kopf.OperatorSettings, logger, **kwargs):
    settings.posting.level = 30
    logger.info("Starting...")


@kopf.on.cleanup()
async def cleanup_fn(logger, **kwargs):
    logger.info("Cleaning up...")


@kopf.on.probe()
def health(**kwargs):
    return "fine"


@kopf.index("kopfexamples")
def names_by_field(spec, name, **kwargs):
    return {spec.get("field"): name}


@kopf.on.event("kopfexamples")
def event_fn(type, name, logger, **kwargs):
    logger.info(f"Event {type} of {name}")


@kopf.on.resume("kopfexamples")
@kopf.on.create("kopfexamples")
def create_fn(spec, names_by_field: kopf.Index, retry, logger, **kwargs):
    if retry == 0:
        raise kopf.TemporaryError("First time is a warm-up.", delay=0.5)
    for item in spec.get("items", []):

        @kopf.subhandler(id=item)
        async def item_fn(item=item, **kwargs):
            await asyncio.sleep(0.1)
            return f"{item} is handled"

    neighbours = sorted(names_by_field.get(spec.get("field"), []))
    return {"message": f"one of {len(neighbours)} with the same field"}


@kopf.on.field("kopfexamples", field="spec.field")
def field_fn(old, new, patch, **kwargs):
    patch.status["field"] = {"old": old, "new": new}


@kopf.on.update("kopfexamples", labels={"somelabel": kopf.PRESENT})
def update_fn(diff, body, **kwargs):
    kopf.info(body, reason="Changed", message=f"{len(diff)} changes")


@kopf.on.delete("kopfexamples", optional=True)
def delete_fn(name, logger, **kwargs):
    logger.info(f"Good bye, {name}!")


@kopf.daemon("kopfexamples")
async def daemon_fn(stopped, logger, **kwargs):
    logger.info("The daemon has started.")
    await stopped.wait()
    logger.info("The daemon is stopping.")


@kopf.timer("kopfexamples", interval=1)
def timer_fn(memo: kopf.Memo, logger, **kwargs):
    memo.ticks = memo.get("ticks", 0) + 1
    logger.info(f"Tick {memo.ticks}")
