import copy
import pickle

import pytest

from kopf_cogs.structs.memos import Memo


def test_keys_are_attributes_and_vice_versa():
    memo = Memo(a=1)
    memo.b = 2
    memo["c"] = 3
    assert memo == {"a": 1, "b": 2, "c": 3}
    assert (memo.a, memo["b"], memo.c) == (1, 2, 3)
    assert vars(memo) == {}


def test_absent_keys():
    memo = Memo()
    assert not hasattr(memo, "x")
    assert memo.get("x") is None
    with pytest.raises(AttributeError, match="x"):
        memo.x  # noqa: B018
    with pytest.raises(KeyError, match="x"):
        memo["x"]
    with pytest.raises(AttributeError, match="x"):
        del memo.x


def test_deletion():
    memo = Memo(a=1, b=2)
    del memo.a
    del memo["b"]
    assert memo == {}


def test_methods_remain_methods():
    memo = Memo()
    memo.keys = 5
    assert memo["keys"] == 5
    assert list(memo.keys()) == ["keys"]


def test_copies_are_shallow_and_of_the_same_type():
    memo = Memo(items=[1])
    copied = copy.copy(memo)
    assert type(copied) is Memo
    copied.x = 1
    assert "x" not in memo
    assert copied["items"] is memo["items"]
    assert type(pickle.loads(pickle.dumps(memo))) is Memo
