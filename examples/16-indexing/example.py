"""Overviews of many objects in memory: filled and kept up to date by the framework."""

import pprint

import kopf


@kopf.index("pods")
def is_running(namespace, name, status, **kwargs):
    return {(namespace, name): status.get("phase") == "Running"}


@kopf.index("pods")
def by_label(labels, name, **kwargs):
    return dict.fromkeys(labels.items(), name)


@kopf.index("kopfexamples")
def known_names(name, **kwargs):
    return name  # all in one collection: under the key of None


@kopf.timer("kopfexamples", interval=2)
def show(is_running: kopf.Index, by_label: kopf.Index, known_names: kopf.Index, **kwargs):
    pprint.pprint({key: list(values) for key, values in by_label.items()})
    running = {key for key, values in is_running.items() if any(values)}
    print(f"Running pods: {running}; known examples: {sorted(known_names.get(None, []))}")


@kopf.on.probe()
def pod_count(is_running: kopf.Index, **kwargs):
    return len(is_running)
