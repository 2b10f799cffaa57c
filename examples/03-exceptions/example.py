import kopf


class MyException(Exception):
    pass


@kopf.on.create("kopfexamples", backoff=1)
def eventual_success_with_a_few_messages(retry, **kwargs):
    if retry < 3:  # 0, 1, 2
        raise kopf.TemporaryError("Expected recoverable error.", delay=1.0)


@kopf.on.create("kopfexamples", retries=3, backoff=1.0)
def eventual_failure_with_tracebacks(**kwargs):
    raise MyException("An error that is supposed to be recoverable.")


@kopf.on.create("kopfexamples", errors=kopf.ErrorsMode.PERMANENT)
def instant_failure_with_traceback(**kwargs):
    raise MyException("An error that is supposed to be unrecoverable.")


@kopf.on.create("kopfexamples", errors=kopf.ErrorsMode.IGNORED)
def ignored_failure_with_traceback(**kwargs):
    raise MyException("An error that is supposed to be ignored.")


@kopf.on.create("kopfexamples")
def instant_failure_with_only_a_message(**kwargs):
    raise kopf.PermanentError("Fail once and for all.")
