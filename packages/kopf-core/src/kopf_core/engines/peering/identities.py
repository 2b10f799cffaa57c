"""Identities: the keys of records in the peering objects."""

import datetime
import os
import string

from kopf_cogs.aiokits.surroundings import get_chance
from kopf_cogs.helpers.hostnames import get_hostname, get_username


def detect_person() -> str:
    """The identity of the person who runs this command: the same each time, so that it can be
    undone.
    """
    return f"{get_username()}@{get_hostname()}"


def detect_operator(now: datetime.datetime) -> str:
    """The identity of this run of an operator: the id of its pod, or a unique one for each start.

    The id of the pod is in ``POD_ID``, if the pod is configured so (see the downward API).
    """
    pod = os.environ.get("POD_ID")
    if pod:
        return pod
    suffix = "".join(get_chance().choices(string.hexdigits.lower()[:16], k=3))
    return f"{detect_person()}/{now:%Y%m%d%H%M%S}/{suffix}"
