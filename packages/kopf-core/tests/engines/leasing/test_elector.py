"""The elector against a server in memory, whose replies are late, wrong, or do not come at all."""

import asyncio
import copy
import logging
from typing import Any

import pytest

from kopf_cogs.clients.errors import (
    APIConnectionError,
    APIForbiddenError,
    APIServerError,
    make_status_error,
)
from kopf_core.engines.leasing import elector
from kopf_core.engines.leasing.elector import LeaseLostError


async def test_i_a_late_reply_is_not_counted_as_seen_when_it_was_requested(server, clock, join):
    # The leader writes after the request is sent, and is seen in its reply: it acts since then.
    server.write(holderIdentity="other", leaseDurationSeconds=15)

    async def delay(method: str) -> None:
        if method == "GET" and clock.monotonic() < 12:
            clock.advance(12)
            server.write(holderIdentity="other", leaseDurationSeconds=15, renewTime="late")

    server.before = delay
    async with join() as me:
        await server.until(lambda: len(server.requests) > 3)
        clock.advance(10)  # 22 since the request, but 10 since the leader's sign of life
        count = len(server.requests)
        await server.until(lambda: len(server.requests) > count + 3)
        assert not me.led.is_set()
        clock.advance(5)
        await me.led.wait()


async def test_i_no_renewal_is_tried_when_it_is_too_late(server, clock, join):
    async with join() as me:
        await me.led.wait()
        count: list[int] = []

        async def delay(method: str) -> None:
            if not count:
                count.append(len(server.requests))
                clock.advance(10)  # the reply is that late

        server.after = delay
        await me.lost.wait()  # not after one more request, which can last till others lead
    assert me.requested == count[0]


async def test_k7_a_lease_that_has_lapsed_is_lost_though_it_is_renewed_then(server, clock, join):
    advances, lapsed = [9, 2], []
    async with join() as me:
        await me.led.wait()

        async def delay(method: str) -> None:
            if advances:  # one renewal is in time; the next one begins in time, and ends too late
                clock.advance(advances.pop(0))
                lapsed.append(not me.fence.is_open)

        server.after = delay
        await me.lost.wait()
        assert server.holder == "me"
        me.led.clear()
        await me.led.wait()  # in a new term
    assert lapsed == [False, True]


async def test_i_a_stuck_connection_leaves_time_to_renew_by_another_one(server, clock, join):
    stuck: list[str] = []
    async with join(renew_deadline=0.5, duration=1) as me:
        await me.led.wait()

        async def hang(method: str) -> None:
            if not stuck:
                stuck.append(method)
                await asyncio.Event().wait()

        server.before = hang
        await server.until(lambda: stuck)
        count = len(server.requests)
        await server.until(lambda: len(server.requests) > count + 3)
        assert me.elector.is_leading
        assert not me.lost.is_set()


async def test_i_nothing_of_others_is_lost_from_the_object(server, clock, join):
    server.write(holderIdentity="", strategy="OldestEmulationVersion")
    server.stored["metadata"] |= {"labels": {"app": "x"}, "ownerReferences": [{"uid": "u"}]}
    async with join() as me:
        await me.led.wait()
        version = server.version
        await server.until(lambda: server.version > version + 2)
    assert server.stored["metadata"]["labels"] == {"app": "x"}
    assert server.stored["metadata"]["ownerReferences"] == [{"uid": "u"}]
    assert server.stored["spec"]["strategy"] == "OldestEmulationVersion"
    assert server.holder == "me"


async def test_i_a_deleted_lease_is_made_anew_by_its_holder_at_once(server, clock, join):
    async with join() as me:
        await me.led.wait()
        transitions = server.stored["spec"]["leaseTransitions"]
        server.stored = None
        await server.until(lambda: server.stored is not None)
        assert not me.lost.is_set()
        assert server.stored["spec"]["leaseTransitions"] == transitions


async def test_i_a_deleted_lease_is_not_taken_from_who_has_held_it(server, clock, join):
    server.write(holderIdentity="other", leaseDurationSeconds=15)
    async with join() as me:
        await server.until(lambda: len(server.requests) > 2)
        server.stored = None  # by people; the holder does not know yet, and acts
        count = len(server.requests)
        await server.until(lambda: len(server.requests) > count + 3)
        assert not me.led.is_set()
        clock.advance(15)
        await me.led.wait()
    assert server.holder == "me"


async def test_i_another_holder_is_noticed_by_the_first_renewal(server, clock, join):
    async with join() as me:
        await me.led.wait()
        count = len(server.requests)
        server.write(holderIdentity="other", leaseDurationSeconds=15)
        await me.lost.wait()
        methods = [method for method, _ in server.requests[count:]]
        assert methods.index("PUT") == methods.index("GET") - 1  # at once, not a period later
    assert server.holder == "other"


async def test_i_junk_in_the_lease_is_replaced(server, clock, join):
    server.write(holderIdentity="", leaseTransitions=2**31 - 1, leaseDurationSeconds=-5)
    async with join() as me:
        await me.led.wait()
    assert server.stored["spec"]["leaseTransitions"] == 2**31 - 1
    assert server.stored["spec"]["leaseDurationSeconds"] == 15


@pytest.mark.parametrize("reply", [[], None, "x", {}, {"metadata": None}])
async def test_i_replies_that_are_no_leases_do_no_harm(server, clock, join, reply, logged):
    server._read = lambda _: reply
    async with join() as me:
        await server.until(lambda: len(server.requests) > 2)
        assert not me.led.is_set()
    assert sum("the reply is not a lease" in text for text in logged(logging.WARNING)) == 1


@pytest.mark.parametrize("error", [APIForbiddenError(status=403), APIServerError(status=500)])
async def test_i_failing_renewals_do_not_matter_until_the_deadline(
    server, clock, join, error, logged
):
    async with join() as me:
        await me.led.wait()

        async def fail(method: str) -> None:
            raise error

        server.before = fail
        count = len(server.requests)
        await server.until(lambda: len(server.requests) > count + 3)
        assert me.elector.is_leading
        clock.advance(10)
        await me.lost.wait()
        count = len(server.requests)
        await server.until(lambda: len(server.requests) > count + 3)
        server.before = None
        me.led.clear()
        await me.led.wait()
    assert not [text for text in logged() if text.startswith("Following: ")]  # it was its own one


async def test_i_a_missing_reply_is_named_so(server, clock, join, logged):
    async def hang(method: str) -> None:
        await asyncio.Event().wait()

    server.before = hang
    async with join(renew_deadline=0.01, duration=1):
        await server.until(lambda: len(server.requests) > 1)
    assert "The lease ns/lease is out of reach: there is no reply in time" in logged()


async def test_i_a_conflict_of_our_own_lost_reply_does_not_lose_the_lease(server, clock, join):
    async with join() as me:
        await me.led.wait()
        server.version += 1
        server.stored["metadata"]["resourceVersion"] = str(server.version)
        version = server.version
        await server.until(lambda: server.version > version + 2)
        assert not me.lost.is_set()


async def test_i_the_release_survives_an_interrupted_renewal(server, clock, join):
    hangs = asyncio.Event()

    async def hang(method: str) -> None:
        hangs.set()
        await asyncio.Event().wait()

    async with join() as me:
        await me.led.wait()
        server.after = hang
        await hangs.wait()  # it is renewed there, but it is not known here
    server.after = None
    await me.elector.release()
    assert server.holder == ""


@pytest.mark.parametrize("stage", ["before", "after"])
@pytest.mark.parametrize("method", ["GET", "PUT"])
@pytest.mark.parametrize("status", [409, 429, 500, 503, None])
async def test_k8_temporary_errors_at_the_exit_do_not_keep_the_lease(
    server, clock, join, monkeypatch, status, method, stage
):
    """Otherwise, the followers wait for its whole duration."""
    monkeypatch.setattr(elector, "RELEASE_DELAY", 0.0)
    errors = [APIConnectionError("cut") if status is None else make_status_error(status)] * 3

    async def fail(called: str) -> None:
        if called == method and errors:
            raise errors.pop()

    async with join() as me:
        await me.led.wait()
    setattr(server, stage, fail)
    await me.elector.release()
    assert server.holder == ""


async def test_k8_refused_releases_are_not_repeated(server, clock, join, logged):
    async def refuse(_: str) -> None:
        raise APIForbiddenError(status=403, message="You may not.")

    async with join() as me:
        await me.led.wait()
    server.before = refuse
    count = len(server.requests)
    await me.elector.release()
    assert len(server.requests) == count + 1
    assert "The lease ns/lease cannot be released: 403: You may not." in logged(logging.WARNING)


async def test_i_the_lease_of_another_one_is_not_released(server, clock, join):
    async with join() as me:
        await me.led.wait()
    server.write(holderIdentity="other", leaseDurationSeconds=15)
    await me.elector.release()
    assert server.holder == "other"


async def test_i_exit_on_loss_is_an_error(server, clock, join):
    async def lose() -> None:
        async with join(exit_on_loss=True) as me:
            await me.led.wait()
            server.write(holderIdentity="other", leaseDurationSeconds=15)
            await me.lost.wait()

    with pytest.raises(LeaseLostError, match="The lease ns/lease is lost"):
        await lose()


async def test_i_wrong_wall_clocks_do_no_harm(server, clock, join):
    async with join() as me:
        await me.led.wait()
        for shift in (300, -600):
            clock.set_wall_time(clock.now().replace(year=2021 if shift > 0 else 2019))
            version = server.version
            await server.until(lambda version=version: server.version > version + 2)
        async with join("you") as you:
            count = len(server.requests)
            await server.until(lambda: len(server.requests) > count + 8)
            assert me.elector.is_leading
            assert not you.led.is_set()


async def test_i_the_fence_is_closed_before_the_leading_handlers_are_waited_for(
    server, clock, join
):
    begun, fences = asyncio.Event(), []

    async def stubborn(me: Any) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            fences.append(me.fence.is_open)

    async with join(on_leading=stubborn) as me:
        await begun.wait()
        server.write(holderIdentity="other", leaseDurationSeconds=15)
        await me.lost.wait()
    assert fences == [False]


class Cargo:
    """A number in an annotation of the lease."""

    def __init__(self) -> None:
        self.wanted = "1"
        self.seen: list[Any] = []

    def load(self, metadata: Any) -> None:
        self.seen.append(metadata.get("annotations", {}).get("number"))

    def stow(self, metadata: Any) -> Any:
        annotations = {**metadata.get("annotations", {}), "number": self.wanted}
        return {**metadata, "annotations": annotations}


async def test_o_cargo_is_stored_with_the_lease_and_can_be_in_a_hurry(server, clock, join):
    cargo = Cargo()
    async with join(cargo=cargo, retry_period=1, renew_deadline=10) as me:
        await me.led.wait()
        assert server.stored["metadata"]["annotations"] == {"number": "1"}
        assert cargo.seen == [None, "1"]
        cargo.wanted = "2"
        count = len(server.requests)
        me.elector.hasten()
        await server.until(lambda: len(server.requests) > count)
        await server.until(lambda: server.stored["metadata"]["annotations"] == {"number": "2"})
        assert [method for method, _ in server.requests[count:]] == ["PUT"]
    assert cargo.seen == [None, "1", "2"]


async def test_o_cargo_is_read_by_those_who_do_not_lead(server, clock, join):
    server.write(holderIdentity="other", leaseDurationSeconds=15)
    server.stored["metadata"]["annotations"] = {"number": "7"}
    cargo = Cargo()
    async with join(cargo=cargo):
        await server.until(lambda: len(server.requests) > 2)
    assert cargo.seen[:2] == ["7", "7"]
    assert all(method == "GET" for method, _ in server.requests)


async def test_o_a_follower_reads_the_lease_at_once_if_a_stream_says_that_it_is_released(
    server, clock, join
):
    server.write(holderIdentity="other", leaseDurationSeconds=15)
    async with join(cargo=Cargo(), retry_period=999) as me:
        await server.until(lambda: server.requests)
        server.write(holderIdentity="", leaseDurationSeconds=1)
        me.elector.announce(server.stored)
        await me.led.wait()


async def test_o_a_holder_is_silent_since_its_last_renewal_was_announced(server, clock, join):
    server.write(holderIdentity="other", leaseDurationSeconds=15, renewTime="1")
    async with join(cargo=Cargo(), retry_period=999, renew_deadline=10) as me:
        await server.until(lambda: server.requests)
        await asyncio.sleep(0)
        old = copy.deepcopy(server.stored)
        clock.advance(10)
        server.write(holderIdentity="other", leaseDurationSeconds=15, renewTime="2")
        assert me.elector.announce(server.stored)
        clock.advance(14)
        assert not me.elector.announce(old)
        me.elector.hasten()
        await server.until(lambda: len(server.requests) > 1)
        assert not me.led.is_set()
        clock.advance(1)
        me.elector.hasten()
        await me.led.wait()
