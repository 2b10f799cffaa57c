"""Run the load server alone: ``python -m bench.loadserver --port 8080 --objects 1000``."""

from __future__ import annotations

import argparse
import asyncio
import gc

from bench.loadserver.api import Api
from bench.loadserver.http import Connection
from bench.loadserver.store import Store


async def serve(port: int, objects: int) -> None:
    store = Store()
    store.reset(objects)
    api = Api(store)
    gc.freeze()  # thousands of templates must not be walked by the collector
    loop = asyncio.get_running_loop()
    # With the default backlog of 100, thousands of simultaneous connections lose their SYNs,
    # and come back in a second: the operator looks idle meanwhile, but it is not done.
    server = await loop.create_server(lambda: Connection(api), "127.0.0.1", port, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--objects", type=int, default=0)
    args = parser.parse_args()
    try:
        import uvloop
    except ImportError:
        runner = asyncio.run
    else:
        runner = uvloop.run
    try:
        runner(serve(args.port, args.objects))
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
