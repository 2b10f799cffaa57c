"""Protocol buffers of the questions about access and of tokens, which are never stored."""

from __future__ import annotations

_META = "k8s.io.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_ACCESS = "k8s.io.api.authorization.v1"
_IDENTITY = "k8s.io.api.authentication.v1"

Field = list[str]


def _message(**fields: tuple[int, str] | tuple[int, str, str]) -> dict[str, Field]:
    """Fields by their numbers: each is given as the number, the type, and the mode, if any."""
    return {
        str(number): [*(mode or ["optional"]), kind, name]
        for name, (number, kind, *mode) in fields.items()
    }


def _review(spec: str) -> dict[str, Field]:
    return _message(metadata=(1, _META), spec=(2, spec))


KINDS = {
    f"{package.removeprefix('k8s.io.api.').split('.')[0]}.k8s.io/v1/{kind}": f"{package}.{kind}"
    for package, kinds in {
        _ACCESS: (
            "SelfSubjectAccessReview",
            "SelfSubjectRulesReview",
            "SubjectAccessReview",
            "LocalSubjectAccessReview",
        ),
        _IDENTITY: ("SelfSubjectReview", "TokenReview", "TokenRequest"),
    }.items()
    for kind in kinds
}

MESSAGES = {
    f"{_ACCESS}.SelfSubjectAccessReview": _review(f"{_ACCESS}.SelfSubjectAccessReviewSpec"),
    f"{_ACCESS}.SelfSubjectRulesReview": _review(f"{_ACCESS}.SelfSubjectRulesReviewSpec"),
    f"{_ACCESS}.SubjectAccessReview": _review(f"{_ACCESS}.SubjectAccessReviewSpec"),
    f"{_ACCESS}.LocalSubjectAccessReview": _review(f"{_ACCESS}.SubjectAccessReviewSpec"),
    f"{_ACCESS}.SelfSubjectAccessReviewSpec": _message(
        resourceAttributes=(1, f"{_ACCESS}.ResourceAttributes"),
        nonResourceAttributes=(2, f"{_ACCESS}.NonResourceAttributes"),
    ),
    f"{_ACCESS}.SubjectAccessReviewSpec": _message(
        resourceAttributes=(1, f"{_ACCESS}.ResourceAttributes"),
        nonResourceAttributes=(2, f"{_ACCESS}.NonResourceAttributes"),
        user=(3, "string"),
        groups=(4, "string", "repeated"),
        uid=(6, "string"),
    ),
    f"{_ACCESS}.SelfSubjectRulesReviewSpec": _message(namespace=(1, "string")),
    f"{_ACCESS}.NonResourceAttributes": _message(path=(1, "string"), verb=(2, "string")),
    f"{_ACCESS}.ResourceAttributes": _message(
        namespace=(1, "string"),
        verb=(2, "string"),
        group=(3, "string"),
        version=(4, "string"),
        resource=(5, "string"),
        subresource=(6, "string"),
        name=(7, "string"),
    ),
    f"{_IDENTITY}.SelfSubjectReview": _message(metadata=(1, _META)),
    f"{_IDENTITY}.TokenReview": _review(f"{_IDENTITY}.TokenReviewSpec"),
    f"{_IDENTITY}.TokenReviewSpec": _message(
        token=(1, "string"), audiences=(2, "string", "repeated")
    ),
    f"{_IDENTITY}.TokenRequest": _review(f"{_IDENTITY}.TokenRequestSpec"),
    f"{_IDENTITY}.TokenRequestSpec": _message(
        audiences=(1, "string", "repeated"), expirationSeconds=(4, "int64")
    ),
}
