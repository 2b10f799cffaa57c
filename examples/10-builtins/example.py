import asyncio

import kopf

tasks = {}  # dict{namespace: dict{name: asyncio.Task}}


async def pod_killer(namespace, name, timeout, logger):
    await asyncio.sleep(timeout)
    logger.info(f"=== The pod {namespace}/{name} would be killed now. ===")


@kopf.on.event("", "v1", "pods", when=lambda name, **_: name.startswith("victim-"))
async def pod_in_sight(namespace, name, type, logger, **kwargs):
    killers = tasks.setdefault(namespace, {})
    if type == "DELETED":
        if name in killers:
            killers.pop(name).cancel()
    elif name not in killers:
        logger.info(f"=== The pod {namespace}/{name} is found. ===")
        killers[name] = asyncio.create_task(pod_killer(namespace, name, 1, logger))


@kopf.on.create("configmaps", labels={"somelabel": kopf.PRESENT})
def configmap_created(name, body, logger, **kwargs):
    logger.info(f"=== The config map {name} has the keys: {', '.join(body.get('data', {}))}. ===")


@kopf.on.cleanup()
async def stop_killers(**kwargs):
    for killers in tasks.values():
        for task in killers.values():
            task.cancel()
