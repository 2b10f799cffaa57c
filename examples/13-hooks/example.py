"""React to the events in the life of the operator itself."""

import asyncio

import kopf


@kopf.on.startup()
async def startup_fn_simple(logger, **kwargs):
    logger.info("Starting in 1s...")
    await asyncio.sleep(1)


@kopf.on.startup()
async def startup_fn_retried(retry, logger, **kwargs):
    if retry < 3:
        raise kopf.TemporaryError(f"Going to succeed in {3 - retry}s", delay=1)
    logger.info("Starting retried...")


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **kwargs):
    settings.posting.enabled = False


@kopf.on.login()
def login_fn(**kwargs):
    print("Logging in...")
    return kopf.login_with_kubeconfig(**kwargs) or kopf.login_with_service_account(**kwargs)


@kopf.on.probe()
async def tasks_count(**kwargs):
    return len(asyncio.all_tasks())


@kopf.on.cleanup()
async def cleanup_fn(logger, **kwargs):
    logger.info("Cleaning up...")


@kopf.on.create("kopfexamples")
def create_fn(**kwargs):
    print("Created.")
