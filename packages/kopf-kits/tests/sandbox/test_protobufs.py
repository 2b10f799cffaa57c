"""Bodies in protocol buffers, as typed clients in Go send them."""

from kopf_kits.sandbox.http.protobufs import decode_body


def field(number: int, payload: bytes) -> bytes:
    tag = number << 3 | 2
    head = bytes([tag]) if tag < 0x80 else bytes([tag & 0x7F | 0x80, tag >> 7])
    return head + bytes([len(payload)]) + payload


def test_i_managed_fields_are_decoded_as_they_are_in_json() -> None:
    fields = b'{"f:spec":{"f:holderIdentity":{}}}'
    entry = field(1, b"me") + field(6, b"FieldsV1") + field(7, field(1, fields))
    meta = field(1, b"lease") + field(17, entry)
    kind = field(1, b"coordination.k8s.io/v1") + field(2, b"Lease")
    body = decode_body(b"k8s\0" + field(1, kind) + field(2, field(1, meta)))
    assert body["metadata"]["managedFields"] == [
        {
            "manager": "me",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:spec": {"f:holderIdentity": {}}},
        }
    ]
