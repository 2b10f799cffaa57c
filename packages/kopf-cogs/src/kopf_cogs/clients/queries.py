"""The requests of one reflector: which objects are listed and watched, and in which way."""

import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TYPE_CHECKING, Any

from kopf_cogs.clients import errors, listing, session, watching
from kopf_cogs.configs.forms import Form
from kopf_cogs.structs import parts, resources

if TYPE_CHECKING:
    from kopf_cogs.configs.settings import WatchingSettings


class Query:
    """The objects that a reflector requests, and the features that the server has refused."""

    def __init__(
        self,
        client: session.Client,
        resource: resources.Resource,
        namespace: str | None,
        *,
        settings: "WatchingSettings",
        form: Form,
        selector: str | None,
        name: str | None,
        choose_part: Callable[[], parts.Part],
    ) -> None:
        super().__init__()
        title = f"{resource} {name!r}" if name else f"{resource}"
        self.title = f"{title} in {namespace!r}" if namespace else f"{title} cluster-wide"
        self._client = client
        self._resource = resource
        self._namespace = namespace
        self._settings = settings
        self._form = form
        self._selector = selector
        self._name = name
        self._choose_part = choose_part
        self._requested: parts.Part | None = None
        self._shards_refused = False
        self._streaming_refused = False

    @property
    def is_streaming(self) -> bool:
        """Whether the initial list is requested as a stream."""
        return self._settings.initial_streaming and not self._streaming_refused

    @property
    def filter(self) -> parts.Filter | None:
        """The filter of objects of the last requested part; ``None`` if it takes all objects."""
        return None if self._requested is None else self._requested.has

    @property
    def is_outdated(self) -> bool:
        """Whether the last requested part differs from the part to request now."""
        return self._requested not in (None, self._get_part())

    def list_pages(self) -> AsyncGenerator[listing.Page, None]:
        """Request all objects, page by page."""
        return listing.list_objects(
            self._client,
            self._resource,
            self._namespace,
            chunk_size=self._settings.chunk_size,
            params=self._make_selectors(),
            accept=self._form.accept_list,
        )

    async def find_version(self) -> str | None:
        """Request the version that the server has now, with one of the objects at most."""
        pages = listing.list_objects(
            self._client,
            self._resource,
            self._namespace,
            chunk_size=1,
            accept=self._form.accept_list,
        )
        async with contextlib.aclosing(pages):
            async for page in pages:
                return page.resource_version
        return None

    async def watch(
        self,
        version: str | None,
        on_open: Callable[[], None],
        on_batch: Callable[[list[Any]], Awaitable[None]],
        *,
        is_initial: bool = False,
    ) -> None:
        """Request the changes since that version until the stream ends; initially, all objects."""
        params = self._make_selectors() | {"watch": "true", "allowWatchBookmarks": "true"}
        if version is not None:
            params["resourceVersion"] = version
        if self._settings.server_timeout is not None and self._settings.server_timeout >= 1:
            params["timeoutSeconds"] = str(int(self._settings.server_timeout))
        if is_initial:
            params |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        await watching.watch(
            self._client,
            self._resource.get_url(namespace=self._namespace),
            params=params,
            accept=self._form.accept,
            settings=self._settings,
            on_open=on_open,
            on_batch=on_batch,
        )

    def give_up(self, exc: errors.APIStatusError) -> str | None:
        """Stop requesting a feature that this server does not support; get the reason, if any."""
        shards = "" if self._requested is None else self._requested.shards
        if shards and "shard selector" in (exc.message or ""):
            self._shards_refused = True
            return f"{self.title} cannot be selected by shards: {exc}"
        if self.is_streaming and exc.status in (400, 422):
            self.give_up_streaming()
            return f"The initial streaming is not supported for {self.title}: {exc}"
        return None

    def give_up_streaming(self) -> None:
        """Request the initial lists by pages from now on."""
        self._streaming_refused = True

    def _make_selectors(self) -> dict[str, str]:
        part = self._requested = self._get_part()
        return listing.collect_selectors(
            self._settings, self._resource, self._selector, self._name, part
        )

    def _get_part(self) -> parts.Part:
        part = self._choose_part()
        return part._replace(shards="") if self._shards_refused else part
