import logging

import pytest

from kopf_cogs.structs.bodies import Body
from kopf_core.actions.loggers import LocalObjectLogger, ObjectLogger

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


def test_silenced_records_cost_nothing(caplog, settings, monkeypatch):
    logger = ObjectLogger(body=BODY, settings=settings)
    monkeypatch.setattr(logger, "process", None)  # would fail if called
    with caplog.at_level(logging.INFO):
        logger.debug("silenced")
    assert not caplog.records
