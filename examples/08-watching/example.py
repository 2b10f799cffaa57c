"""React to the raw events of objects, as they come: no retries, nothing is stored on them."""

import kopf


@kopf.on.event("kopfexamples")
def event_fn(event, **kwargs):
    print(f"Event: {event['type']} for {event['object']['metadata']['name']}")


@kopf.on.event("pods", labels={"somelabel": kopf.PRESENT})
async def pod_event_fn(name, status, **kwargs):
    print(f"Pod {name} is {status.get('phase')}")
