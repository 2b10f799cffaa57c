"""Patches of objects, with and without the status subresource."""

from __future__ import annotations

from e2e.compat.steps import Create, Delete, Patch, Settle

from .cases import Case

PATCHING = """
@kopf.on.create({kind})
def a(patch, **kw):
    note('a', kw)
    patch.spec['x'] = 1
    patch.status['s'] = 1
    patch.meta.labels['l'] = 'v'
    patch.metadata.annotations['ann'] = 'v'
    patch.fns.append(lambda body: body['spec'].update(y=2))
    patch.fns.append(lambda body: body.setdefault('status', {{}}).update(t=2))
    return 'res'
@kopf.on.create({kind})
def only_status(patch, **kw): note('only_status', kw); patch.status['only'] = 1
@kopf.on.create({kind})
def only_fn(patch, **kw):
    note('only_fn', kw)
    patch.fns.append(lambda body: body.setdefault('status', {{}}).update(u=2))
@kopf.on.update({kind})
def u(**kw): note('u', kw)
@kopf.on.delete({kind})
def d(patch, **kw):
    note('d', kw)
    patch.spec['z'] = 1
    patch.status['s'] = 2
    patch.fns.append(lambda body: body['spec'].update(w=2))
"""

CASES = (
    Case(
        "patch-plain",
        PATCHING.format(kind="K"),
        [Create(), Settle(), Delete(), Settle()],
    ),
    Case(
        "patch-status",
        PATCHING.format(kind="S"),
        [
            Create(plural="compatstatuses"),
            Settle(),
            Delete(plural="compatstatuses"),
            Settle(),
        ],
        plurals=["compatstatuses"],
    ),
    Case(
        "patch-failing",
        """
@kopf.on.create(K)
def c(patch, **kw):
    note('c', kw)
    patch.status['c-%d' % kw['retry']] = 1
    patch.fns.append(lambda body: body['spec'].setdefault('list', []).append(kw['retry']))
    if kw['retry'] < 1: raise kopf.TemporaryError('x', delay=0.3)
    if kw['retry'] < 2: raise Exception('arb')
    raise kopf.PermanentError('y')
@kopf.on.startup()
def st(settings, **_): settings.execution.default_backoff = 0.3
""",
        [Create(), Settle()],
    ),
    Case(
        "patch-fn-failing",
        """
def fail(body): raise ValueError('in a function')
@kopf.on.create(K)
def c(patch, **kw): note('c', kw); patch.status['s'] = 1; patch.fns.append(fail)
@kopf.on.update(K)
def u(patch, **kw): note('u', kw)
""",
        [Create(), Settle(), Patch({"spec": {"field": "v2"}}), Settle()],
    ),
    Case(
        "patch-unserialisable",
        """
@kopf.on.create(K)
def c(patch, **kw): note('c', kw)
@kopf.on.create(K, retries=2)
def bad(patch, **kw): note('bad', kw); return {1, 2}
""",
        [Create(), Settle(pending=True)],
    ),
    Case(
        "patch-by-events",
        """
@kopf.on.event(K)
def e(patch, body, **kw):
    note('e', kw)
    if not body.get('status', {}).get('done'): patch.status['done'] = True
@kopf.on.event(K, field='spec.result')
def e2(**kw): return 'result-of-event'
""",
        [Create(), Settle(), Patch({"spec": {"result": "y"}}), Settle()],
    ),
    Case(
        "patch-removing",
        """
@kopf.on.create(K)
def c(patch, **kw): patch.spec['field'] = None; patch.metadata.labels['gone'] = None
@kopf.on.update(K, field='spec.list')
def u(patch, **kw):
    note('u', kw)
    patch.fns.append(lambda body: 2 in body['spec']['list'] and body['spec']['list'].remove(2))
    patch.fns.append(lambda body: body['metadata'].get('labels', {}).pop('stays', None))
""",
        [
            Create(metadata={"labels": {"gone": "1", "stays": "1"}}),
            Settle(),
            Patch({"spec": {"list": [1, 2, 3]}}),
            Settle(),
        ],
    ),
    Case(
        "events-posted",
        """
@kopf.on.create(K)
def c(body, logger, **kw):
    kopf.info(body, reason='R', message='m')
    kopf.warn(body, reason='W', message='w')
    kopf.event(body, type='T', reason='E', message='e')
    try: raise ValueError('exc')
    except ValueError as e:
        kopf.exception(body, reason='X', message='xm')
        kopf.exception(body, exc=e)
    kopf.info(body, reason='Long', message='a' * 600 + 'b' * 600)
    logger.info('not posted'); logger.error('not posted')
""",
        [Create(), Settle()],
    ),
    Case(
        "events-of-loggers",
        """
@kopf.on.startup()
def st(settings, **_): settings.posting.loggers = True
@kopf.on.create(K)
def c(logger, retry, **kw):
    logger.debug('d'); logger.info('i %s', 1); logger.warning('w'); logger.error('e')
    logger.critical('c')
    logger.info('local', extra=dict(local=True))
    if retry < 1: raise kopf.TemporaryError('temp', delay=0.3)
@kopf.on.event(K)
def e(logger, **_): logger.info('ev')
@kopf.daemon(K)
async def dm(stopped, logger, **_): logger.info('in daemon'); await stopped.wait()
@kopf.on.delete(K)
def d(**_): raise kopf.PermanentError('p')
""",
        [Create(), Settle(), Delete(), Settle()],
    ),
    Case(
        "events-of-loggers-debug",
        """
@kopf.on.startup()
def st(settings, **_): settings.posting.loggers = True; settings.posting.level = 0
@kopf.on.create(K)
def c(logger, retry, **kw): logger.debug('d')
@kopf.on.event(K)
def e(logger, **_): logger.info('ev')
@kopf.on.delete(K)
def d(**_): pass
""",
        [Create(), Settle(), Delete(), Settle()],
    ),
    Case(
        "owned-objects",
        """
@kopf.on.create(K)
def c(body, **kw):
    doc = {'metadata': {'name': 'given'}, 'spec': {'template': {}}}
    kopf.adopt(doc)
    kopf.label(doc, {'a': 'b'}, nested=['spec.template'])
    note('c', kw, doc=doc)
""",
        [Create(metadata={"labels": {"own": "1"}}), Settle()],
    ),
)
