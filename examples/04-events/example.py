"""Send Kubernetes events about objects: they are seen in ``kubectl describe``."""

import kopf


@kopf.on.create("kopfexamples")
def create_fn(body, logger, **kwargs):
    # The all-purpose function for all cases.
    kopf.event(body, type="SomeType", reason="SomeReason", message="Some message")

    # The shortcuts for the conventional types and common cases.
    kopf.info(body, reason="SomeReason", message="Some message")
    kopf.warn(body, reason="SomeReason", message="Some message")
    try:
        raise RuntimeError("Exception text.")
    except RuntimeError:
        kopf.exception(body, reason="SomeReason", message="Some exception:")

    # These messages are only in the log of the operator, unless `settings.posting.loggers` is set.
    logger.info("This is not in the events.")
