import re

import pytest

from kopf_cogs.configs.conventions import StorageStanzaCleaner
from kopf_cogs.configs.diffbase import AnnotationsDiffBaseStorage
from kopf_cogs.configs.progress import AnnotationsProgressStorage
from kopf_cogs.structs.bodies import Body

LONG = (
    "a-very-long-handler-id-that-goes-far-beyond-the-limit-of-sixty-three-characters/with-a-slash"
)
KOPF = "kopf.zalando.org"
MINE = "my-op.example.com"

VALID_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")


# Recorded from Kopf 1.45: the progress kept in these annotations must be found after upgrades.
@pytest.mark.parametrize(
    ("prefix", "key", "names"),
    [
        (KOPF, "fn", ["fn"]),
        (KOPF, "a/b", ["a.b"]),
        (KOPF, "create_fn/spec.field", ["create_fn.spec.field"]),
        (KOPF, "fn/spec.a/spec.b", ["fn.spec.a.spec.b"]),
        (KOPF, "fn.<locals>.x", ["fn._locals_.x"]),
        (KOPF, "UPPER", ["UPPER"]),
        (KOPF, "a" * 46, ["a" * 46]),
        (KOPF, "a" * 47, ["a" * 47, "a" * 39 + "-L2I79Q"]),
        (KOPF, "a" * 62, ["a" * 62, "a" * 39 + "-HfIj5Q"]),
        (KOPF, "a" * 63, ["a" * 63, "a" * 39 + "-LcrRHA"]),
        (KOPF, "a" * 64, ["a" * 56 + "-5Keq3A", "a" * 39 + "-5Keq3A"]),
        (KOPF, "f" * 64, ["f" * 56 + "-PUfAvQ", "f" * 39 + "-PUfAvQ"]),
        (KOPF, "a." * 31 + "b", ["a." * 31 + "b", "a." * 19 + "a-.pjq3Q"]),
        (KOPF, "x/" * 40, ["x." * 28 + "-f4wfgw", "x." * 19 + "x-DRcV3w"]),
        (
            KOPF,
            LONG,
            [
                "a-very-long-handler-id-that-goes-far-beyond-the-limit-of-8VXrUA",
                "a-very-long-handler-id-that-goes-far-be-utSSbw",
            ],
        ),
        (
            KOPF,
            LONG + "2",
            [
                "a-very-long-handler-id-that-goes-far-beyond-the-limit-of-nz5Z9Q",
                "a-very-long-handler-id-that-goes-far-be--6gOrg",
            ],
        ),
        (MINE, "a" * 45, ["a" * 45]),
        (MINE, "a" * 46, ["a" * 46, "a" * 38 + "-RrGn4Q"]),
        (MINE, "x/" * 40, ["x." * 28 + "-f4wfgw", "x." * 19 + "-DRcV3w"]),
        ("p", "a" * 48, ["a" * 48]),
        ("p", "a" * 63, ["a" * 63, "a" * 54 + "-LcrRHA"]),
        (
            "x." * 30 + "com",
            "create_fn/spec.field",
            ["create_fn.spec.field", "create_fn.sp-D6h79Q"],
        ),
        ("a" * 70, "create_fn/spec.field", ["create_fn.spec.field", "creat-D6h79Q"]),
        ("a" * 70, "fn/spec.a/spec.b", ["fn.spec.a.spec.b", "f-gVPaaA"]),
    ],
)
def test_c9_names_are_the_same_as_in_the_predecessor(prefix, key, names):
    storage = AnnotationsProgressStorage(prefix=prefix)
    assert list(storage.make_keys(key)) == [f"{prefix}/{name}" for name in names]
    storage = AnnotationsProgressStorage(prefix=prefix, v1=False)
    assert list(storage.make_keys(key)) == [f"{prefix}/{names[0]}"]


# Recorded from Kopf 1.45, too.
@pytest.mark.parametrize(
    ("key", "suffix"),
    [
        ("fn", "-wkLEjw"),
        ("a/b", "-grrfZw"),
        ("", "-EnHPJQ"),
        ("/", "-cHPkRg"),
        ("UPPER", "-6-.iLw"),
        ("тест", "-QYl-xQ"),
        ("é", "-lUVEwg"),
        ("a\\b", "-q.uoXQ"),
        (LONG, "-8VXrUA"),
    ],
)
def test_c9_suffixes_are_the_same_as_in_the_predecessor(key, suffix):
    assert AnnotationsProgressStorage().make_suffix(key) == suffix


def test_names_with_other_limits():
    storage = AnnotationsProgressStorage()
    assert storage.make_v1_key("f" * 60, max_length=50) == f"{KOPF}/{'f' * 26}-5-MhMg"
    assert storage.make_v2_key("f" * 60, max_length=50) == f"{KOPF}/{'f' * 43}-5-MhMg"
    assert storage.make_safe_key("a/<b>") == "a._b_"


# The predecessor makes names which are refused by Kubernetes, so they can be on no objects.
@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("a b", "a_b-f6rkfA"),
        ("a:b", "a_b-eNbbqw"),
        (".lead", "lead-4hIyuQ"),
        ("-lead", "lead-BuWOYw"),
        ("trail.", "trail-xXFf6Q"),
        ("<lambda>", "lambda-trguFg"),
        ("тест", "id-QYl-xQ"),
        ("тест" * 20, "id-LpQnVw"),
        ("a\nb", "a_b-WZAMQw"),
        ("", "id-EnHPJQ"),
        ("/", "id-cHPkRg"),
        ("." * 70, "id-3CdbRQ"),
    ],
)
def test_c9_impossible_names_are_replaced(key, name):
    assert list(AnnotationsProgressStorage().make_keys(key)) == [f"{KOPF}/{name}"]


def test_c9_names_are_valid_unique_stable():
    ids = ["fn", "f n", "f_n", "f:n", "f\tn", ".fn", "fn.", "-fn-", "é", "è", "日本", "", "/", "//"]
    ids += ["x" * n for n in range(40, 140)]
    ids += [
        "x" * 63 + "y",
        "x" * 63 + "z",
        "x y" * 30,
        "x:y" * 30,
        "\ud800",
        "fn/<lambda>",
        "<lambda>",
    ]
    for prefix in [KOPF, MINE, "p", "p" * 60, "p" * 63]:
        storage1 = AnnotationsProgressStorage(prefix=prefix)
        storage2 = AnnotationsProgressStorage(prefix=prefix)
        seen = {}
        for key in ids:
            names = list(storage1.make_keys(key))
            assert names == list(storage1.make_keys(key)) == list(storage2.make_keys(key))
            for full_name in names:
                name = full_name.removeprefix(f"{prefix}/")
                assert len(name) <= 63
                assert VALID_NAME.fullmatch(name), name
                assert seen.setdefault(name, key) == key


def test_many_different_keys_are_not_remembered_forever():
    storage = AnnotationsProgressStorage()
    for n in range(5000):
        storage.make_keys(f"fn{n}")
    assert len(storage._known_keys) <= 1000


@pytest.mark.parametrize("prefix", ["", None])
@pytest.mark.parametrize("cls", [AnnotationsProgressStorage, AnnotationsDiffBaseStorage])
def test_prefixes_are_required(cls, prefix):
    with pytest.raises(ValueError, match="must have a prefix"):
        cls(prefix=prefix)


def replicaset(*owners, kind="ReplicaSet"):
    return Body({"kind": kind, "metadata": {"ownerReferences": list(owners)}})


# Recorded from Kopf 1.45, except for nulls.
@pytest.mark.parametrize(
    ("body", "name"),
    [
        (replicaset({"kind": "Deployment", "controller": True}), "fn-ofDRS"),
        (replicaset({"kind": "Deployment", "controller": False}), "fn-ofDRS"),
        (replicaset({"kind": "Deployment", "apiVersion": "foo/v1"}), "fn-ofDRS"),
        (replicaset({"kind": "Other"}, {"kind": "Deployment"}), "fn-ofDRS"),
        (replicaset({"kind": "Other"}), "fn"),
        (replicaset(), "fn"),
        (replicaset(None, {}), "fn"),
        (replicaset({"kind": "Deployment"}, kind="Pod"), "fn"),
        (Body({"kind": "ReplicaSet"}), "fn"),
        (Body({"kind": "ReplicaSet", "metadata": {"ownerReferences": None}}), "fn"),
        (Body({}), "fn"),
    ],
)
def test_replicasets_of_deployments_have_keys_of_their_own(body, name):
    storage = AnnotationsProgressStorage()
    assert storage.mark_key("fn", body=body) == name
    assert list(storage.make_keys("fn", body=body)) == [f"{KOPF}/{name}"]


def test_marks_are_put_before_cutting():
    body = replicaset({"kind": "Deployment"})
    storage = AnnotationsProgressStorage()
    assert list(storage.make_keys("f" * 64, body=body)) == [
        f"{KOPF}/{'f' * 56}-soz6Vw",
        f"{KOPF}/{'f' * 39}-soz6Vw",
    ]


@pytest.mark.parametrize(
    ("essence", "keys", "result"),
    [
        (
            {"metadata": {"annotations": {"a": "1", "b": "2"}}},
            ["a", "x"],
            {"metadata": {"annotations": {"b": "2"}}},
        ),
        ({"metadata": {"annotations": {"a": "1"}}}, ["a"], {"metadata": {"annotations": {}}}),
        ({"metadata": {"annotations": None}}, ["a"], {"metadata": {"annotations": None}}),
        ({}, ["a"], {}),
    ],
)
def test_removing_annotations(essence, keys, result):
    StorageStanzaCleaner.remove_annotations(essence, keys)
    assert essence == result


@pytest.mark.parametrize(
    ("essence", "result"),
    [
        (
            {
                "metadata": {"annotations": {}, "labels": {}, "x": {}},
                "status": {},
                "spec": {},
                "z": {},
            },
            {"metadata": {"x": {}}, "spec": {}, "z": {}},
        ),
        ({"metadata": {"annotations": {}}, "status": {"a": {}}}, {"status": {"a": {}}}),
        ({"metadata": {"labels": {"a": "b"}}}, {"metadata": {"labels": {"a": "b"}}}),
        ({"metadata": None, "status": None}, {}),
        ({}, {}),
    ],
)
def test_removing_empty_stanzas(essence, result):
    StorageStanzaCleaner.remove_empty_stanzas(essence)
    assert essence == result


@pytest.mark.parametrize("cls", [AnnotationsDiffBaseStorage, AnnotationsProgressStorage])
def test_r35_too_long_prefixes_are_warned_of(cls):
    cls(prefix="x" * 189)  # 189 + "/" + 63 is the limit of Kubernetes
    with pytest.warns(UserWarning, match="annotations prefix is too long: 190 characters"):
        cls(prefix="x" * 190)


# As the predecessor: the names & hashes are the same, but Kubernetes refuses such names with 422.
# Ours are accepted; there can be nothing stored under the old ones.
@pytest.mark.parametrize(
    ("key", "before", "now"),
    [(".", "kopf.dev/.", "kopf.dev/id-2KcSig"), ("..", "kopf.dev/..", "kopf.dev/id-5vxbuQ")],
)
def test_r35_keys_of_dots_only_are_hashed(key, before, now):
    storage = AnnotationsProgressStorage(prefix="kopf.dev")
    assert storage.make_v1_key(key) == storage.make_v2_key(key) == before
    assert not VALID_NAME.fullmatch(before.partition("/")[2])
    assert storage.make_keys(key) == [now]
