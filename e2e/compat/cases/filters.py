"""Filters by labels, annotations, fields, and callbacks."""

from __future__ import annotations

from e2e.compat.steps import Create, Delete, Patch, Settle, Start, Stop

from .cases import Case

FIELDS = """
def mk(dec, id, **options):
    @dec(K, id=id, **options)
    def fn(**kw): note(id, kw)
A, P = kopf.ABSENT, kopf.PRESENT
mk(kopf.on.create, 'c-absent', field='spec.nofield', value=A)
mk(kopf.on.create, 'c-present', field='spec.nofield', value=P)
mk(kopf.on.create, 'c-nofield', field='spec.nofield')
mk(kopf.on.create, 'c-val', field='spec.field', value='v1')
mk(kopf.on.create, 'c-none', field='spec.field', value=None)
mk(kopf.on.field, 'f-plain', field='spec.field')
mk(kopf.on.field, 'f-old-absent', field='spec.field', old=A)
mk(kopf.on.field, 'f-old-v1', field='spec.field', old='v1')
mk(kopf.on.field, 'f-new-v1', field='spec.field', new='v1')
mk(kopf.on.field, 'f-new-absent', field='spec.field', new=A)
mk(kopf.on.field, 'f-value-v1', field='spec.field', value='v1')
mk(kopf.on.field, 'f-value-v2', field='spec.field', value='v2')
mk(kopf.on.field, 'f-value-absent', field='spec.field', value=A)
mk(kopf.on.field, 'f-nofield', field='spec.nofield')
mk(kopf.on.field, 'f-nofield-absent', field='spec.nofield', value=A)
mk(kopf.on.update, 'u-plain', field='spec.field')
mk(kopf.on.update, 'u-other', field='spec.other')
mk(kopf.on.update, 'u-old-v1', field='spec.field', old='v1')
mk(kopf.on.update, 'u-new-v2', field='spec.field', new='v2')
mk(kopf.on.update, 'u-value-v1', field='spec.field', value='v1')
mk(kopf.on.update, 'u-value-v2', field='spec.field', value='v2')
mk(kopf.on.update, 'u-value-absent', field='spec.field', value=A)
mk(kopf.on.update, 'u-label', labels={'l': 'new'})
mk(kopf.on.update, 'u-label-old', labels={'l': 'lv'})
mk(kopf.on.resume, 'r-val', field='spec.field', value='v2')
mk(kopf.on.resume, 'r-f', field='spec.field')
mk(kopf.on.resume, 'r-nofield', field='spec.nofield')
mk(kopf.on.delete, 'd-f', field='spec.field')
mk(kopf.on.delete, 'd-val', field='spec.field', value='v3')
mk(kopf.on.delete, 'd-nofield', field='spec.nofield')
"""

CALLBACKS = """
seen = set()
def cb(tag):
    def callback(*args, **kw):
        if tag not in seen:
            seen.add(tag)
            note('cb ' + tag, kw, args=[str(arg) for arg in args])
        return True
    return callback
@kopf.on.event(K, when=cb('e.when'), field='spec.field', value=cb('e.value'),
               labels={'l': cb('e.label')}, annotations={'a': cb('e.annotation')})
def e(**kw): note('e', kw)
@kopf.on.create(K, when=cb('c.when'), field='spec.field', value=cb('c.value'),
                labels={'l': cb('c.label')})
def c(**kw): note('c', kw)
@kopf.on.update(K, when=cb('u.when'), field='spec.field', old=cb('u.old'), new=cb('u.new'),
                labels={'l': cb('u.label')})
def u(**kw): note('u', kw)
@kopf.on.field(K, when=cb('f.when'), field='spec.field', new=cb('f.new'))
def f(**kw): note('f', kw)
@kopf.on.resume(K, when=cb('r.when'), field='spec.field', value=cb('r.value'))
def r(**kw): note('r', kw)
@kopf.on.delete(K, when=cb('d.when'), field='spec.field', value=cb('d.value'))
def d(**kw): note('d', kw)
@kopf.index(K, when=cb('i.when'), field='spec.field', value=cb('i.value'))
def ix(**kw): note('ix', kw); return 1
"""

LABELS = {"metadata": {"labels": {"l": "new"}}}


def make_stealth(name: str, decorator: str) -> Case:
    """The objects that the operator must not touch or mention in any way."""
    return Case(
        f"stealth-{name}",
        f"{decorator}\ndef a(**kw): note('a', kw)",
        [
            Create(),
            Settle(),
            Patch({"spec": {"field": "v2"}}),
            Settle(),
            Stop(),
            Start(),
            Settle(),
            Delete(),
            Settle(),
        ],
    )


CASES = (
    Case(
        "filters-fields",
        FIELDS,
        [
            Create(metadata={"labels": {"l": "lv"}}),
            Settle(),
            Patch({"spec": {"field": "v2"}, **LABELS}),
            Settle(),
            Patch({"spec": {"field": None}}),
            Settle(),
            Patch({"spec": {"field": "v3"}}),
            Settle(),
            Stop(),
            Start(),
            Settle(),
            Delete(),
            Settle(),
        ],
    ),
    Case(
        "filters-callbacks",
        CALLBACKS,
        [
            Create(metadata={"labels": {"l": "lv"}, "annotations": {"a": "av"}}),
            Settle(),
            Patch({"spec": {"field": "v2"}}),
            Settle(),
            Stop(),
            Start(),
            Settle(),
            Delete(),
            Settle(),
        ],
    ),
    Case(
        "filters-metadata",
        """
A, P = kopf.ABSENT, kopf.PRESENT
def mk(id, **options):
    @kopf.on.event(K, id='e-' + id, **options)
    def e(**kw): note('e-' + id, kw)
    @kopf.on.create(K, id='c-' + id, **options)
    @kopf.on.update(K, id='c-' + id, **options)
    def c(**kw): note('c-' + id, kw)
mk('present', labels={'l': P})
mk('absent', labels={'l': A})
mk('value', labels={'l': 'v'}, annotations={'a': P})
mk('both', labels={'l': 'v', 'm': A})
mk('callback', labels={'l': lambda value, **_: value == 'v'})
mk('annotation', annotations={'a': 'x'})
mk('any', when=kopf.any_([lambda name, **_: name == 'x', lambda name, **_: name == 'y']))
mk('none', when=kopf.none_([lambda name, **_: name == 'x', lambda name, **_: name == 'y']))
mk('all-not', when=kopf.all_([kopf.not_(lambda name, **_: name == 'x')]))
""",
        [
            Create("x"),
            Create("y", metadata={"labels": {"l": "v"}, "annotations": {"a": "x"}}),
            Create("z", metadata={"labels": {"l": "w", "m": "1"}}),
            Settle(),
            Patch({"metadata": {"labels": {"l": "v", "m": None}}}, "z"),
            Settle(),
        ],
    ),
    Case(
        "selectors",
        """
def mk(id, *args, **options):
    @kopf.on.create(*args, id=id, **options)
    def fn(**kw): note(id, kw)
mk('plural', 'compatexamples')
mk('singular', 'compatexample')
mk('kind', 'CompatExample')
mk('group-plural', 'compat.kopf.dev', 'compatexamples')
mk('group-version-plural', 'compat.kopf.dev', 'v1', 'compatexamples')
mk('group-slash-version', 'compat.kopf.dev/v1', 'compatexamples')
mk('plural-dot-group', 'compatexamples.compat.kopf.dev')
mk('plural-dot-version-dot-group', 'compatexamples.v1.compat.kopf.dev')
mk('kw-plural', plural='compatexamples')
mk('kw-kind', kind='CompatExample')
mk('kw-singular', 'compat.kopf.dev', singular='compatexample')
mk('kw-group-version', group='compat.kopf.dev', version='v1', plural='compatexamples')
mk('everything', 'compat.kopf.dev', kopf.EVERYTHING)
mk('callable', lambda resource, **_: resource.plural == 'compatexamples')
mk('other-version', 'compat.kopf.dev', 'v2', 'compatexamples')
mk('other-group', 'kopf.dev', 'compatexamples')
mk('absent', 'absentexamples')
""",
        [Create(), Settle()],
    ),
    make_stealth("create", "@kopf.on.create(K, labels={'nolabel': 'x'})"),
    make_stealth("delete", "@kopf.on.delete(K, annotations={'none': kopf.PRESENT})"),
    make_stealth("resume", "@kopf.on.resume(K, when=lambda **_: False)"),
    make_stealth("field", "@kopf.on.field(K, field='spec.nofield')"),
    make_stealth("create-field", "@kopf.on.create(K, field='spec.nofield')"),
    make_stealth("daemon", "@kopf.daemon(K, labels={'nolabel': 'x'})"),
    Case(
        "ids",
        """
import functools
class Methods:
    def m(self, **kw): note('m', kw)
    @staticmethod
    def s(**kw): note('s', kw)
    @classmethod
    def c(cls, **kw): note('c', kw)
    def __call__(self, **kw): note('call', kw)
methods = Methods()
kopf.on.create(K)(methods.m)
kopf.on.create(K)(Methods.s)
kopf.on.create(K)(Methods.c)
kopf.on.create(K, id='called')(methods)
def inner(x, **kw): note('inner', kw, x=x); raise kopf.TemporaryError("t", delay=0.5) \\
    if not kw['retry'] else kopf.PermanentError("p")
kopf.on.create(K)(functools.partial(inner, 1))
kopf.on.create(K, id='lambda')(lambda **kw: note('lambda', kw))
LONG = 'a-very-long-handler-id-that-goes-far-beyond-the-limit-of-sixty-three-characters/x'
@kopf.on.create(K, id=LONG)
def long(**kw):
    note('long', kw)
    if not kw['retry']: raise kopf.TemporaryError("t", delay=0.5)
    return 1
@kopf.on.create(K, id='With.Dots_and/slashes')
def dots(**kw):
    note('dots', kw)
    if not kw['retry']: raise kopf.TemporaryError("t", delay=0.5)
    return 1
""",
        [Create(), Settle()],
    ),
)
