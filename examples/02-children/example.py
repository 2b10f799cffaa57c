import pykube

import kopf


@kopf.on.create("kopfexamples")
def create_fn(spec, **kwargs):
    # Describe the child as it would be in YAML. The name is generated from the parent's name.
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "spec": {
            "containers": [
                {
                    "name": "the-only-one",
                    "image": "busybox",
                    "command": ["sh", "-x", "-c", f"sleep {spec.get('duration', '1m')}"],
                }
            ]
        },
    }

    # Name it, label it, put it into the namespace of the parent, and make the parent own it.
    kopf.adopt(pod)

    # Kubernetes deletes the child together with its owner: there is no need in a handler for that.
    api = pykube.HTTPClient(pykube.KubeConfig.from_env())
    child = pykube.Pod(api, pod)
    child.create()
    return {"children": [child.name]}


@kopf.on.event("pods", labels={"somelabel": "somevalue"})
def pod_event_fn(name, type, logger, **kwargs):
    logger.info(f"Pod {name}: {type}")
