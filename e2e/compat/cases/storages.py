"""Where the progress and the last handled state are kept."""

from __future__ import annotations

from e2e.compat.steps import Called, Create, Delete, Patch, Settle

from .cases import Case

HANDLERS = """
@kopf.on.create(K)
def a(**kw):
    note('a', kw)
    if kw['retry'] < 2: raise kopf.TemporaryError("t", delay=1)
@kopf.on.create(K)
def b(**kw): note('b', kw); return 1
@kopf.on.update(K)
def u(**kw): note('u', kw)
@kopf.on.delete(K)
def d(**kw): note('d', kw)
"""


SIMPLE_HANDLERS = """
@kopf.on.create(K)
def a(**kw): note('a', kw)
@kopf.on.create(K)
def b(**kw): note('b', kw); return 1
@kopf.on.delete(K)
def d(**kw): note('d', kw)
"""


def make(name: str, configuration: str) -> Case:
    """The same story with some other storages."""
    startup = f"""
@kopf.on.startup()
def configure(settings, **_):
{configuration}
"""
    return Case(
        f"storage-{name}",
        startup + HANDLERS,
        [
            Create(),
            Called("a", 3),
            Settle(),
            Patch({"spec": {"field": "v2"}, "metadata": {"annotations": {"a": "b"}}}),
            Settle(),
            Delete(),
            Settle(),
        ],
    )


CASES = (
    make("finalizer", "    settings.persistence.finalizer = 'example.com/own-finalizer'"),
    make(
        "prefixes",
        """
    settings.persistence.progress_storage = \
        kopf.AnnotationsProgressStorage(prefix='my-op.example.com')
    settings.persistence.diffbase_storage = \
        kopf.AnnotationsDiffBaseStorage(prefix='my-op.example.com', key='last')
""",
    ),
    make(
        "prefix-v2",
        """
    settings.persistence.progress_storage = \
        kopf.AnnotationsProgressStorage(prefix='my-op.example.com', v1=False)
    settings.persistence.diffbase_storage = \
        kopf.AnnotationsDiffBaseStorage(prefix='my-op.example.com', v1=False)
""",
    ),
    make(
        "prefix-status",
        """
    settings.persistence.progress_storage = kopf.StatusProgressStorage(field='status.my.progress')
    settings.persistence.diffbase_storage = kopf.StatusDiffBaseStorage(field='status.my.last')
""",
    ),
    make(
        "prefix-multi",
        """
    settings.persistence.progress_storage = kopf.MultiProgressStorage([
        kopf.AnnotationsProgressStorage(prefix='my-op.example.com'),
        kopf.StatusProgressStorage(field='status.my.progress'),
    ])
    settings.persistence.diffbase_storage = kopf.MultiDiffBaseStorage([
        kopf.AnnotationsDiffBaseStorage(prefix='my-op.example.com'),
        kopf.StatusDiffBaseStorage(field='status.my.last'),
    ])
""",
    ),
    make(
        "ignored-fields",
        """
    settings.persistence.diffbase_storage = \
        kopf.AnnotationsDiffBaseStorage(ignored_fields=['spec.field', 'metadata.annotations'])
""",
    ),
    Case(
        "storage-verbose",
        """
@kopf.on.startup()
def configure(settings, **_):
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(verbose=True)
"""
        + SIMPLE_HANDLERS,
        [Create(), Settle(), Delete(), Settle()],
    ),
)
