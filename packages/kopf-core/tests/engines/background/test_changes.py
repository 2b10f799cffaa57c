"""Which changes reset the idling."""

import copy

import pytest

from kopf_cogs.configs.diffbase import AnnotationsDiffBaseStorage, StatusDiffBaseStorage
from kopf_cogs.configs.progress import AnnotationsProgressStorage, StatusProgressStorage
from kopf_cogs.structs.bodies import Body
from kopf_core.engines.background.relevance import is_changed


@pytest.fixture
def check(settings, make_body):
    def check(**changes):
        old = make_body({"field": "v1"}, labels={"l": "v"}, annotations={"a": "v"})
        old["status"] = {"x": 1}
        new = copy.deepcopy(old)
        new["metadata"] |= {"resourceVersion": "2", "generation": 3, "managedFields": [{}]}
        for key, val in changes.items():
            new.setdefault(key, {}).update(val)
        untouched = copy.deepcopy((old, new))
        result = is_changed(Body(old), Body(new), settings.persistence)
        assert (old, new) == untouched
        return result

    return check


@pytest.mark.docs("timers/idling")
@pytest.mark.parametrize(
    "changes",
    [
        {"spec": {"field": "v2"}},
        {"status": {"x": 2}},
        {"status": {"handler": "result"}},
        {"data": {"key": "value"}},
        {"metadata": {"labels": {"l": "v2"}}},
        {"metadata": {"labels": {}}},
        {"metadata": {"annotations": {"a": "v2"}}},
        {"metadata": {"annotations": {"a": "v", "b": "v"}}},
    ],
)
def test_real_changes(check, changes):
    assert check(**changes)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"metadata": {"finalizers": ["any"]}},
        {"metadata": {"annotations": {"a": "v", "kopf.zalando.org/fn": "{}"}}},
        {
            "metadata": {
                "annotations": {"a": "v", "kopf.zalando.org/last-handled-configuration": "{}"}
            }
        },
        {"status": {"kopf": {"progress": {"fn": {}}}}},
    ],
)
def test_marks_of_the_framework_are_not_changes(check, changes):
    assert not check(**changes)


def test_marks_in_other_places(check, settings):
    settings.persistence.progress_storage = AnnotationsProgressStorage(prefix="my.domain")
    settings.persistence.diffbase_storage = AnnotationsDiffBaseStorage(prefix="my.domain")
    assert not check(metadata={"annotations": {"a": "v", "my.domain/fn": "{}"}})
    settings.persistence.progress_storage = StatusProgressStorage(field="status.mine.progress")
    settings.persistence.diffbase_storage = StatusDiffBaseStorage(field="status.kopf.handled")
    assert not check(status={"mine": {"progress": {"fn": {}}}, "kopf": {"handled": "{}"}})
    assert check(status={"mine": {"progress": {"fn": {}}, "other": 1}})
