import asyncio
import logging
from functools import partial

import pytest

from kopf_cogs.structs.bodies import Body
from kopf_core.actions.loggers import (
    LocalObjectLogger,
    ObjectLogger,
    _describe_place,
    objects_logger,
)

BODY = Body(
    {
        "apiVersion": "kopf.dev/v1",
        "kind": "KopfExample",
        "metadata": {"name": "obj", "namespace": "ns", "uid": "uid1"},
    }
)
REF = {
    "apiVersion": "kopf.dev/v1",
    "kind": "KopfExample",
    "name": "obj",
    "namespace": "ns",
    "uid": "uid1",
}


@pytest.mark.parametrize(("cls", "is_local"), [(ObjectLogger, False), (LocalObjectLogger, True)])
def test_records_refer_to_the_object(caplog, settings, cls, is_local):
    logger = cls(body=BODY, settings=settings)
    with caplog.at_level(logging.INFO):
        logger.info("first %s", 1)
        logger.warning("second", extra={"key": "val"})
    first, second = caplog.records
    assert (first.getMessage(), first.levelno) == ("first 1", logging.INFO)
    assert first.k8s_ref == second.k8s_ref == REF
    assert first.k8s_skip is second.k8s_skip is is_local
    assert first.settings is settings
    assert second.key == "val"


def test_records_point_to_the_caller(caplog, settings):
    logger = ObjectLogger(body=BODY, settings=settings)
    with caplog.at_level(logging.INFO):
        logger.info("indirectly")
        logger.log(logging.INFO, "directly")
        (lambda: logger.info("from above", stacklevel=2))()
    assert {(rec.filename, rec.funcName) for rec in caplog.records} == {
        ("test_loggers.py", "test_records_point_to_the_caller")
    }


@pytest.fixture
def records():
    """What gets to the handlers of the logger, as it is."""
    found = []
    handler = logging.Handler()
    handler.handle = found.append
    objects_logger.addHandler(handler)
    yield found
    objects_logger.removeHandler(handler)


def compare_with_usual(settings, records):
    """Log the same in both ways from one line; get the names of what differs in the records."""
    logger, level = ObjectLogger(body=BODY, settings=settings), logging.WARNING
    extra = {"k8s_ref": REF, "k8s_skip": False, "settings": settings}
    for log in (partial(logger.log, level), partial(objects_logger.log, level, extra=extra)) * 2:
        log("the text")
    usual, ours = (vars(record) for record in records[-2:][::-1])
    assert ours["created"] <= usual["created"]
    assert ours["relativeCreated"] == pytest.approx(
        usual["relativeCreated"] - (usual["created"] - ours["created"]) * 1000, abs=0.1
    )
    assert ours["msecs"] == int(ours["created"] % 1 * 1000)
    names = {*ours, *usual} - {"created", "relativeCreated", "msecs"}
    return {name for name in names if ours.get(name, ...) != usual.get(name, ...)}


async def test_records_have_all_that_usual_records_have(settings, records):
    assert compare_with_usual(settings, records) == set()
    await asyncio.to_thread(compare_with_usual, settings, records)
    ids = {record.thread for record in records}
    assert len(ids) == 2
    assert compare_with_usual(settings, records) == set()


@pytest.mark.parametrize("flag", ["logThreads", "logProcesses", "logMultiprocessing"])
def test_records_have_nothing_that_is_switched_off(settings, records, monkeypatch, flag):
    _describe_place.cache_clear()
    monkeypatch.setattr(logging, flag, False)
    assert compare_with_usual(settings, records) == set()
    _describe_place.cache_clear()


def test_records_are_made_by_the_factory_of_the_application(settings, records):
    class Record(logging.LogRecord):
        pass

    logging.setLogRecordFactory(Record)
    try:
        ObjectLogger(body=BODY, settings=settings).warning("the text")
    finally:
        logging.setLogRecordFactory(logging.LogRecord)
    assert [type(record) for record in records] == [Record]


def test_silenced_records_cost_nothing(caplog, settings, monkeypatch):
    logger = ObjectLogger(body=BODY, settings=settings)
    monkeypatch.setattr(logger, "process", None)  # would fail if called
    with caplog.at_level(logging.INFO):
        logger.debug("silenced")
    assert not caplog.records
