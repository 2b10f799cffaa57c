"""Admission: policies in CEL, and webhooks, really called, as their configurations say."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import aiohttp

from kopf_kits.sandbox.store.resources import Endpoint, Registry
from kopf_kits.sandbox.store.writeoptions import WriteOptions

from .policies import Policies
from .webhooks import Review, Webhook

Obj = dict[str, Any]
_GROUP = "admissionregistration.k8s.io"


class Admission:
    """Evaluates the policies and calls the webhooks for an operation on a resource."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._mutating = registry.find("mutatingwebhookconfigurations").resource.store
        self._validating = registry.find("validatingwebhookconfigurations").resource.store
        self._mutations = Policies(registry, "MutatingAdmissionPolicy")
        self._validations = Policies(registry, "ValidatingAdmissionPolicy")
        self._spaces = registry.find("namespaces").resource.store
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close the connections to the webhooks."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def applies(self, endpoint: Endpoint) -> bool:
        """Whether any policy or webhook can be for this resource: a quick check before a write."""
        found = self._mutating.objects or self._validating.objects
        return bool(found or self._mutations or self._validations) and endpoint.group != _GROUP

    async def mutate(
        self,
        endpoint: Endpoint,
        operation: str,
        new: Obj | None,
        old: Obj | None,
        options: WriteOptions,
        sub: str = "",
    ) -> Obj | None:
        """Make the mutations one after another; returns the object as they changed it."""
        review = self._review(endpoint, operation, new, old, options, sub)
        review = self._mutations.mutate(review, options)
        hooks = self._hooks(options, mutating=True)
        changed_by: int | None = None
        for index, hook in enumerate(hooks):
            changed = await self._call(hook, review)
            if changed is not None and changed != review.new:
                review, changed_by = replace(review, new=changed), index
        for hook in hooks[: changed_by or 0]:
            if hook.spec.get("reinvocationPolicy") == "IfNeeded":
                changed = await self._call(hook, review)
                review = review if changed is None else replace(review, new=changed)
        return review.new

    async def check(
        self,
        endpoint: Endpoint,
        operation: str,
        new: Obj | None,
        old: Obj | None,
        options: WriteOptions,
        sub: str = "",
    ) -> None:
        """Call the validating webhooks, all at once; the first denial is raised."""
        review = self._review(endpoint, operation, new, old, options, sub)
        self._validations.check(review, options)
        calls = (self._call(hook, review) for hook in self._hooks(options, mutating=False))
        results = await asyncio.gather(*calls, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def _call(self, hook: Webhook, review: Review) -> Obj | None:
        version = hook.find_version(review)
        if version is None:
            return None
        if self._session is None:
            self._session = aiohttp.ClientSession()
        return await hook.call(self._session, review, version)

    def _hooks(self, options: WriteOptions, *, mutating: bool) -> list[Webhook]:
        store = self._mutating if mutating else self._validating
        return [
            Webhook(spec, mutating, options)
            for stored in store.select(None)
            for spec in stored.obj.get("webhooks") or ()
        ]

    def _review(
        self,
        endpoint: Endpoint,
        operation: str,
        new: Obj | None,
        old: Obj | None,
        options: WriteOptions,
        sub: str,
    ) -> Review:
        subject = new if new is not None else old or {}
        space: Obj | None = None
        if endpoint.resource.qualified == "namespaces":
            space = subject
        elif endpoint.resource.namespaced:
            found = self._spaces.get(("", subject["metadata"].get("namespace", "")))
            space = found.obj if found is not None else None
        return Review(
            endpoint,
            operation,
            new,
            old,
            sub,
            options.dry_run,
            options.manager,
            options.named,
            space,
        )
