"""Admission policies in CEL, as far as their expressions can be evaluated here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from kopf_kits.sandbox.base.remarks import Unsupported
from kopf_kits.sandbox.base.statuses import StatusError, internal, qualified
from kopf_kits.sandbox.cel.errors import EvaluationError
from kopf_kits.sandbox.cel.expressions import compile_expression
from kopf_kits.sandbox.fields.patches import apply_json_patch
from kopf_kits.sandbox.store.resources import Registry
from kopf_kits.sandbox.store.storage import Store
from kopf_kits.sandbox.store.writeoptions import WriteOptions

from .webhooks import Review, Webhook

Obj = dict[str, Any]
_CODES = {"Unauthorized": 401, "Forbidden": 403, "Invalid": 422, "RequestEntityTooLarge": 413}
_UNKNOWN = re.compile(r"\b(authorizer|params|variables|userInfo)\b")
"""The variables that expressions have only in real clusters."""


class Policies:
    """The policies of one type, with their bindings."""

    def __init__(self, registry: Registry, kind: str) -> None:
        self._kind = kind
        group = "admissionregistration.k8s.io"
        prefix = kind.removesuffix("Policy").lower()
        self._policies: Store = registry.find(f"{prefix}policies.{group}").resource.store
        self._bindings: Store = registry.find(f"{prefix}policybindings.{group}").resource.store

    def __bool__(self) -> bool:
        return bool(self._bindings.objects)

    def check(self, review: Review, options: WriteOptions) -> None:
        """Evaluate the validations; the first denial is raised."""
        for policy, binding in self._select(review, options):
            for validation in policy["spec"].get("validations") or ():
                verdict = self._evaluate(policy, validation["expression"], review, options)
                if verdict is False:
                    _apply_actions(policy, binding, validation, review, options)

    def mutate(self, review: Review, options: WriteOptions) -> Review:
        """Make the mutations that are JSON patches, one after another."""
        for policy, _ in self._select(review, options):
            for mutation in policy["spec"].get("mutations") or ():
                if mutation.get("patchType") != "JSONPatch":
                    options.doubt(f"{self._name(policy)}: only JSON patches are made")
                    continue
                expression = mutation["jsonPatch"]["expression"]
                patch = self._evaluate(policy, expression, review, options)
                if patch and review.new is not None:
                    review = replace(review, new=_patch(self._name(policy), review.new, patch))
        return review

    def _select(self, review: Review, options: WriteOptions) -> Iterator[tuple[Obj, Obj]]:
        for stored in self._bindings.select(None):
            binding = stored.obj
            found = self._policies.get(("", str(binding["spec"].get("policyName"))))
            if found is None:
                continue
            if binding["spec"].get("matchResources") or binding["spec"].get("paramRef"):
                options.doubt(f"{self._name(found.obj)}: its binding has limits of its own")
                continue
            if _match(found.obj, options).find_version(review) is not None:
                yield found.obj, binding

    def _evaluate(self, policy: Obj, expression: str, review: Review, options: WriteOptions) -> Any:
        """The value; ``None`` if the sandbox cannot know it, or if the policy ignores its error."""
        unknown = _UNKNOWN.search(expression)
        if unknown is not None:
            options.doubt(f"{self._name(policy)}: {expression}: {unknown[0]} is not known here")
            return None
        try:
            return compile_expression(expression)(_make_scope(review))
        except Unsupported as error:
            options.doubt(f"{self._name(policy)}: {expression}: {error}")
            return None
        except EvaluationError as error:
            if policy["spec"].get("failurePolicy", "Fail") == "Ignore":
                return None
            text = f"{self._name(policy)} failed: expression '{expression}' resulted in error: "
            raise _deny(review, "Invalid", f"{text}{error}") from None

    def _name(self, policy: Obj) -> str:
        return f"{self._kind} '{policy['metadata']['name']}'"


def _match(policy: Obj, options: WriteOptions) -> Webhook:
    """Make a webhook with the same rules: policies select requests as webhooks do."""
    constraints = policy["spec"].get("matchConstraints") or {}
    rules = constraints.get("resourceRules") or ()
    conditions = policy["spec"].get("matchConditions") or ()
    name = policy["metadata"]["name"]
    spec = {**constraints, "name": name, "rules": rules, "matchConditions": conditions}
    return Webhook(spec, mutating=False, options=options)


def _make_scope(review: Review) -> Obj:
    endpoint, metadata = review.endpoint, review.subject.get("metadata") or {}
    request = {
        "operation": review.operation,
        "dryRun": review.dry_run,
        "name": metadata.get("name") or "",
        "namespace": metadata.get("namespace") or "",
        "subResource": review.sub,
        "kind": {
            "group": endpoint.group,
            "version": endpoint.served.name,
            "kind": endpoint.resource.kind,
        },
    }
    return {
        "object": review.new,
        "oldObject": review.old,
        "request": request,
        "namespaceObject": review.space,
    }


def _apply_actions(
    policy: Obj, binding: Obj, validation: Obj, review: Review, options: WriteOptions
) -> None:
    message = str(validation.get("message") or f"failed expression: {validation['expression']}")
    if validation.get("messageExpression"):
        try:
            message = str(compile_expression(validation["messageExpression"])(_make_scope(review)))
        except (Unsupported, EvaluationError):
            pass
    names = f"'{policy['metadata']['name']}' with binding '{binding['metadata']['name']}'"
    actions = binding["spec"].get("validationActions") or ()
    if "Deny" in actions:
        text = f"ValidatingAdmissionPolicy {names} denied request: {message.strip()}"
        raise _deny(review, str(validation.get("reason") or "Invalid"), text)
    if "Warn" in actions:
        text = f"Validation failed for ValidatingAdmissionPolicy {names}: {message.strip()}"
        options.warnings.append(text)


def _deny(review: Review, reason: str, text: str) -> StatusError:
    group, plural = review.endpoint.group, review.endpoint.resource.plural
    name = (review.subject.get("metadata") or {}).get("name") or ""
    details = {"name": name, "group": group, "kind": plural, "causes": [{"message": text}]}
    message = f'{qualified(group, plural)} "{name}" is forbidden: {text}'
    return StatusError(_CODES[reason], reason, message, details=details)


def _patch(name: str, obj: Obj, patch: list[Obj]) -> Obj:
    try:
        return apply_json_patch(obj, patch)
    except (ValueError, StatusError) as error:
        raise internal(f"{name} failed: {error}") from None
