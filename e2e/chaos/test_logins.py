"""Credentials that come, go, and are there only by halves."""

from __future__ import annotations

import time

from e2e.chaos.driver.notes import at

OPERATOR = """
@kopf.on.create(*KEXES)
@noted
def a(**_):
    pass
"""


async def test_r21_an_empty_token_file_is_read_again_as_soon_as_it_is_whole(world):
    path = world.folder / "token"
    path.write_text("first")
    world.api.token = "first"
    async with world.operator(OPERATOR, user={"tokenFile": str(path)}) as process:
        world.api.create("one", spec={"x": 1})
        await world.until_handled("one")
        path.write_text("")
        world.api.token = "second"
        for stream in world.api.get_streams():
            stream.reset()
        await world.api.journal.until(lambda entry: entry.status == 401)
        world.api.create("two", spec={"x": 1})
        await process.until_logged("e-authentication has been initiated")
        path.write_text("second")
        whole = time.monotonic()
        await world.until_handled("two")
        [note] = world.notebook.find(at("end", "a", name="two"))
        assert note.at - whole < 30
    tokens = {entry.request.headers.get("authorization") for entry in world.api.journal}
    assert tokens == {"Bearer first", "Bearer second"}
