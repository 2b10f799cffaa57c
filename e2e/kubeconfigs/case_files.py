"""How kubeconfigs are written, merged, and what they refer to."""

from __future__ import annotations

import json

from e2e.kubeconfigs.case import ASKED, NOBODY, NOWHERE, OURS_ONLY, REFUSED, Case
from e2e.kubeconfigs.world import World


def _bomb(w: World) -> str:
    levels = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    for previous, current in zip("abcdefgh", "bcdefghi", strict=True):
        levels.append(f"{current}: &{current} [{', '.join([f'*{previous}'] * 9)}]")
    return "\n".join([*levels, _yaml(w)])


def _merge_bomb(w: World) -> str:
    pairs = ", ".join(f"k{n}: v" for n in range(2000))
    return "\n".join([f"a: &a {{{pairs}}}", f"b: {{<<: [{', '.join(['*a'] * 20)}]}}", _yaml(w)])


def _yaml(w: World) -> str:
    return (
        "current-context: ctx\n"
        "contexts: [{name: ctx, context: {cluster: clu, user: usr}}]\n"
        "clusters:\n- name: clu\n"
        f"  cluster: {{server: '{w.url}', certificate-authority: ca.crt}}\n"
        "users: [{name: usr, user: {token: T}}]\n"
    )


FILES = [
    # Files.
    Case("json", "JSON", lambda w: w.config(user={"token": "T"}), "Bearer T"),
    Case("yaml", "YAML", _yaml, "Bearer T"),
    Case(
        "tabs",
        "JSON with tabs",
        lambda w: json.dumps(w.config(user={"token": "T"}), indent="\t"),
        "Bearer T",
    ),
    Case("bom", "a byte order mark", lambda w: "\ufeff" + _yaml(w), "Bearer T"),
    Case("crlf", "CRLF", lambda w: _yaml(w).replace("\n", "\r\n"), "Bearer T"),
    Case("empty", "an empty file", lambda w: "", REFUSED, "current context", NOWHERE),
    Case("list", "a list instead of a mapping", lambda w: "[]", REFUSED, "not a mapping"),
    Case("text", "a text instead of a mapping", lambda w: "hello", REFUSED, "not a mapping"),
    Case("garbage", "not YAML", lambda w: "{", REFUSED, "not YAML"),
    Case(
        "documents",
        "several documents",
        lambda w: f"{_yaml(w)}---\n{_yaml(w)}",
        REFUSED,
        "not YAML",
        "Bearer T",
        "kubectl ignores all but the first one; it is not clear which one was meant.",
    ),
    Case(
        "version",
        "another `apiVersion`",
        lambda w: w.config(apiVersion="v2"),
        REFUSED,
        "not a kubeconfig by its apiVersion",
    ),
    Case("kind", "another `kind`", lambda w: w.config(kind="Pod"), REFUSED, "by its kind"),
    Case(
        "no-kind",
        "neither `apiVersion` nor `kind`",
        lambda w: w.config(user={"token": "T"}, apiVersion=None, kind=None),
        "Bearer T",
    ),
    Case(
        "unknown",
        "unknown fields",
        lambda w: w.config(user={"token": "T", "whatever": {"x": 1}}),
        "Bearer T",
    ),
    Case(
        "duplicate-keys",
        "a key twice in one mapping",
        lambda w: _yaml(w).replace("{token: T}", "{token: first, token: last}"),
        "Bearer last",
    ),
    Case(
        "duplicate-names",
        "two users of the same name in one file",
        lambda w: w.config(users=[{"name": "usr", "user": {}}] * 2),
        REFUSED,
        "several users of the same name",
    ),
    Case(
        "several",
        "several files: the first one wins",
        lambda w: [
            w.config(user={"token": "first"}) | {"current-context": "", "clusters": []},
            w.config(user={"token": "second"}),
        ],
        "Bearer first",
    ),
    Case(
        "absent",
        "an absent file in the list",
        lambda w: ["/does/not/exist", w.config(user={"token": "T"})],
        "Bearer T",
    ),
    Case(
        "all-absent",
        "only absent files in the list",
        lambda w: ["/does/not/exist"],
        REFUSED,
        "No kubeconfig files exist",
        NOWHERE,
    ),
    Case("bomb", "a YAML bomb of aliases", _bomb, "Bearer T", "", REFUSED, "It is harmless here."),
    Case(
        "merge-bomb",
        "a YAML bomb of merge keys",
        _merge_bomb,
        REFUSED,
        "too many merged keys",
        "Bearer T",
        "The limit is on the size of mappings after merging.",
    ),
    Case(
        "deep",
        "1,000 levels of nesting",
        lambda w: f"{_yaml(w)}extra: {'[' * 1000}{']' * 1000}",
        REFUSED,
        "nested too deep",
        "Bearer T",
        "The limit is of Python.",
    ),
    # Contexts.
    Case(
        "null-contexts",
        "`contexts: null`",
        lambda w: w.config(contexts=None),
        REFUSED,
        "no context 'ctx'",
    ),
    Case(
        "no-context",
        "no current context",
        lambda w: w.config() | {"current-context": ""},
        REFUSED,
        "current context is not set",
        NOWHERE,
    ),
    Case(
        "unknown-context",
        "an unknown context",
        lambda w: w.config() | {"current-context": "other"},
        REFUSED,
        "no context 'other'",
    ),
    Case(
        "unknown-cluster",
        "an unknown cluster",
        lambda w: w.config(context={"cluster": "other"}),
        REFUSED,
        "no cluster 'other'",
        NOWHERE,
    ),
    Case(
        "unknown-user",
        "an unknown user",
        lambda w: w.config(context={"user": "other"}),
        REFUSED,
        "no user 'other'",
        ASKED,
        OURS_ONLY,
    ),
    Case(
        "no-user",
        "no user",
        lambda w: w.config(context={"user": None}),
        "anonymous",
        "",
        ASKED,
        NOBODY,
    ),
    Case(
        "null-user",
        "`user: null`",
        lambda w: w.config(users=[{"name": "usr"}]),
        "anonymous",
        "",
        ASKED,
        NOBODY,
    ),
    Case(
        "dangling",
        "wrong references in unused contexts",
        lambda w: (
            w.config(user={"token": "T"})
            | {
                "contexts": [
                    {"name": "x", "context": {"cluster": "?", "user": "?"}},
                    {"name": "ctx", "context": {"cluster": "clu", "user": "usr"}},
                ]
            }
        ),
        "Bearer T",
    ),
]
