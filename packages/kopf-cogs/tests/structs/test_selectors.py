import pytest

from kopf_cogs.structs.resources import Resource
from kopf_cogs.structs.selectors import EVERYTHING, Marker, Selector


def make(group, version, plural, kind, short=(), cats=(), *, preferred=True):
    return Resource(
        group,
        version,
        plural,
        kind=kind,
        singular=kind.lower(),
        shortcuts=frozenset(short),
        categories=frozenset(cats),
        preferred=preferred,
    )


KEX = make("kopf.dev", "v1", "kopfexamples", "KopfExample", ["kex"], ["all"])
KEX_OLD = make("kopf.dev", "v1beta1", "kopfexamples", "KopfExample", ["kex"], preferred=False)
PODS = make("", "v1", "pods", "Pod", ["po"], ["all"])
POD_METRICS = make("metrics.k8s.io", "v1beta1", "pods", "PodMetrics")
DEPLOYMENTS = make("apps", "v1", "deployments", "Deployment", ["deploy"], ["all"])
RIVALS = make("example.com", "v1", "deployments", "Deployment", ["deploy"])
EVENTS = make("", "v1", "events", "Event", ["ev"])
NEW_EVENTS = make("events.k8s.io", "v1", "events", "Event", ["ev"])
OTHER_EVENTS = make("example.com", "v1", "events", "Event")
ALL = [KEX, KEX_OLD, PODS, POD_METRICS, DEPLOYMENTS, EVENTS, NEW_EVENTS, OTHER_EVENTS]


@pytest.mark.parametrize(
    ("args", "group", "version", "name"),
    [
        (["kopf.dev", "v1", "kopfexamples"], "kopf.dev", "v1", "kopfexamples"),
        (["kopf.dev/v1", "kopfexamples"], "kopf.dev", "v1", "kopfexamples"),
        (["kopf.dev", "kopfexamples"], "kopf.dev", None, "kopfexamples"),
        (["apps", "v1", "deployments"], "apps", "v1", "deployments"),
        (["apps/v1", "deployments"], "apps", "v1", "deployments"),
        (["", "v1", "pods"], "", "v1", "pods"),
        (["v1", "pods"], "", "v1", "pods"),
        (["/v1", "pods"], "", "v1", "pods"),
        (["", "pods"], "", None, "pods"),
        (["v1/pods"], "", "v1", "pods"),
        (["kopf.dev/v1/kopfexamples"], "kopf.dev", "v1", "kopfexamples"),
        (["kopf.dev/kopfexamples"], "kopf.dev", None, "kopfexamples"),
        (["kopfexamples.kopf.dev"], "kopf.dev", None, "kopfexamples"),
        (["kopfexamples.v1.kopf.dev"], "kopf.dev", "v1", "kopfexamples"),
        (["kopfexamples.v1beta1.kopf.dev"], "kopf.dev", "v1beta1", "kopfexamples"),
        (["deployments.apps"], "apps", None, "deployments"),
        (["pods.v1"], None, "v1", "pods"),
        (["pods.v1x"], "v1x", None, "pods"),
        (["KopfExample"], None, None, "KopfExample"),
        ([EVERYTHING], None, None, EVERYTHING),
        (["kopf.dev", EVERYTHING], "kopf.dev", None, EVERYTHING),
        (["kopf.dev/v1", EVERYTHING], "kopf.dev", "v1", EVERYTHING),
        (["kopf.dev", "v1", EVERYTHING], "kopf.dev", "v1", EVERYTHING),
        ([None, "kopf.dev", "kopfexamples"], "kopf.dev", None, "kopfexamples"),
        ([callable], None, None, callable),
    ],
)
def test_positional_notations(args, group, version, name):
    selector = Selector.of(*args)
    assert (selector.group, selector.version, selector.any_name) == (group, version, name)


@pytest.mark.parametrize(
    ("args", "kwargs", "error"),
    [
        ([], {}, "not specified"),
        ([], {"group": "kopf.dev"}, "not specified"),
        ([], {"version": "v1"}, "not specified"),
        ([""], {}, "must not be empty"),
        ([], {"kind": ""}, "must not be empty"),
        (["pods"], {"kind": "Pod"}, "ambiguously"),
        ([], {"kind": "Pod", "plural": "pods"}, "ambiguously"),
        ([EVERYTHING], {"kind": "Pod"}, "ambiguously"),
        ([EVERYTHING], {"category": "all"}, "ambiguously"),
        (["g1", "pods"], {"group": "g2"}, "group is ambiguous"),
        (["v1", "pods"], {"version": "v2"}, "version is ambiguous"),
        ([EVERYTHING, "pods"], {}, "Only the last"),
        ([callable, "pods"], {}, "Only the last"),
        ([123], {}, "must be specified by a string"),
        (["a/b", "v1", "pods"], {}, "unknown notation"),
        (["a", "b/c"], {}, "unknown notation"),
        (["a", "v1", "pods", "x"], {}, "three words at most, not by 4"),
    ],
)
def test_senseless_specifications(args, kwargs, error):
    with pytest.raises(TypeError, match=error):
        Selector.of(*args, **kwargs)


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        (["kopfexamples"], {}),
        (["kopfexample"], {}),
        (["KopfExample"], {}),
        (["kex"], {}),
        (["kopf.dev", "kex"], {}),
        ([], {"kind": "KopfExample"}),
        ([], {"plural": "kopfexamples"}),
        ([], {"singular": "kopfexample"}),
        ([], {"shortcut": "kex"}),
        ([], {"group": "kopf.dev", "plural": "kopfexamples"}),
        ([], {"group": "kopf.dev", "version": "v1", "plural": "kopfexamples"}),
        (["kopf.dev", "kex"], {"group": "kopf.dev"}),
        (["kex"], {"version": "v1"}),
    ],
)
def test_all_names_select_the_preferred_version(args, kwargs):
    selector = Selector.of(*args, **kwargs)
    assert selector.is_specific
    assert set(selector.select(ALL)) == {KEX}
    assert selector.resolve(ALL).resources == {KEX}


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        (["kopfexampl"], {}),
        (["kopf.de", "kex"], {}),
        (["kopf.dev", "v2", "kex"], {}),
        ([], {"kind": "kex"}),
        ([], {"plural": "kex"}),
        ([], {"singular": "kex"}),
        ([], {"shortcut": "kopfexamples"}),
        ([], {"category": "kex"}),
    ],
)
def test_wrong_names_select_nothing(args, kwargs):
    resolution = Selector.of(*args, **kwargs).resolve(ALL)
    assert resolution.resources == frozenset()
    assert not resolution.ambiguous


def test_versions_are_selected_explicitly_even_if_not_preferred():
    assert set(Selector.of("kopf.dev/v1beta1", "kex").select(ALL)) == {KEX_OLD}


def test_categories_are_not_specific():
    selector = Selector.of(category="all")
    assert not selector.is_specific
    assert set(selector.select(ALL)) == {KEX, PODS, DEPLOYMENTS}


def test_everything_selects_all_but_events_and_not_preferred():
    selector = Selector.of(EVERYTHING)
    assert not selector.is_specific
    assert set(selector.select(ALL)) == {KEX, PODS, POD_METRICS, DEPLOYMENTS, OTHER_EVENTS}
    assert set(Selector.of("kopf.dev", EVERYTHING).select(ALL)) == {KEX}
    assert set(Selector.of("v1", EVERYTHING).select(ALL)) == {PODS}


@pytest.mark.parametrize("keyword", ["kind", "plural", "singular"])
def test_everything_by_keywords(keyword):
    selector = Selector.of(**{keyword: EVERYTHING})
    assert not selector.is_specific
    assert set(selector.select(ALL)) == {KEX, PODS, POD_METRICS, DEPLOYMENTS, OTHER_EVENTS}


def test_callables_see_all_versions_but_get_no_events():
    selector = Selector.of(lambda resource: True)
    assert not selector.is_specific
    assert set(selector.select(ALL)) == set(ALL) - {EVENTS, NEW_EVENTS}


def test_callables_are_combined_with_keywords():
    selector = Selector.of(lambda resource: resource.preferred, group="kopf.dev")
    assert set(selector.select(ALL)) == {KEX}
    selector = Selector.of(lambda resource: resource.version == "v1", kind="KopfExample")
    assert set(selector.select(ALL)) == {KEX}


def test_e4_events_are_selected_only_when_named():
    assert set(Selector.of("v1", "events").select(ALL)) == {EVENTS}
    assert set(Selector.of("events.v1").select(ALL)) == {EVENTS}
    assert set(Selector.of("events").select(ALL)) == {EVENTS}
    assert set(Selector.of("events.k8s.io", "events").select(ALL)) == {NEW_EVENTS}
    assert set(Selector.of(kind="Event").select(ALL)) == {EVENTS}


@pytest.mark.parametrize("name", ["pods", "pods.v1"])
def test_core_v1_takes_precedence(name):
    assert set(Selector.of(name).select(ALL)) == {PODS}
    assert Selector.of(name).resolve(ALL).resources == {PODS}


def test_other_groups_are_available_by_their_names():
    assert set(Selector.of("pods.metrics.k8s.io").select(ALL)) == {POD_METRICS}


def test_ambiguous_resources_are_not_served():
    selector = Selector.of("deployments")
    resolution = selector.resolve([*ALL, RIVALS])
    assert resolution.ambiguous
    assert resolution.resources == frozenset()
    assert resolution.rivals == {DEPLOYMENTS, RIVALS}
    assert set(selector.select([*ALL, RIVALS])) == {DEPLOYMENTS, RIVALS}


def test_intentionally_multiple_resources_are_not_ambiguous():
    resolution = Selector.of(category="all").resolve(ALL)
    assert not resolution.ambiguous
    assert resolution.resources == {KEX, PODS, DEPLOYMENTS}


def test_selectors_are_hashable_values_with_short_representations():
    assert Selector.of("kopf.dev/v1", "kex") == Selector.of("kopf.dev", "v1", "kex")
    assert hash(Selector.of("kex.kopf.dev")) == hash(Selector.of("kopf.dev", "kex"))
    assert repr(Selector.of("kopf.dev", "kex")) == "Selector(group='kopf.dev', any_name='kex')"


def test_marker():
    assert EVERYTHING is Marker.EVERYTHING
    assert repr(EVERYTHING) == "<Marker.EVERYTHING: 1>"
