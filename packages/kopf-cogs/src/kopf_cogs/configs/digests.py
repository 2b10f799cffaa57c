"""The storage of digests: for operators that only want to know what has changed."""

from collections.abc import Iterable

from kopf_cogs.configs.diffbase import AnnotationsDiffBaseStorage
from kopf_cogs.configs.healing import encode_json
from kopf_cogs.configs.packing import make_digests
from kopf_cogs.structs.bodies import Body, BodyEssence
from kopf_cogs.structs.dicts import FieldPath, FieldSpec, parse_field


class DigestDiffBaseStorage(AnnotationsDiffBaseStorage):
    """The storage in an annotation, where only digests are kept: it is small for large objects.

    It is for operators that use neither ``old`` nor ``diff`` of their handlers. The changes are
    detected as usual, for the whole object, and for each field that has handlers of its own.
    The changed values are digests in ``old`` and in ``diff``; ``new`` has all the values.

    It can be switched on and off at any time: no handlers are called because of that.
    """

    def __init__(
        self,
        *,
        prefix: str = "kopf.zalando.org",
        key: str = "last-handled-configuration",
        ignored_fields: Iterable[FieldSpec] | None = None,
        v1: bool = True,
    ) -> None:
        super().__init__(prefix=prefix, key=key, ignored_fields=ignored_fields, v1=v1)
        self._fields: frozenset[FieldPath] = frozenset()

    def build(self, *, body: Body, extra_fields: Iterable[FieldSpec] | None = None) -> BodyEssence:
        fields = frozenset(map(parse_field, extra_fields or ()))
        if not fields <= self._fields:  # once for the handlers of each kind
            self._fields |= fields
        return super().build(body=body, extra_fields=fields)

    def encode(self, body: Body, essence: BodyEssence) -> str:
        return encode_json(make_digests(body, essence, self._fields))
