"""Run the load server alone: ``python -m bench.loadserver --port 8080 --objects 1000``."""

from __future__ import annotations

import argparse
import asyncio
import gc
import ssl

from bench.loadserver.api import Api
from bench.loadserver.http import Connection
from bench.loadserver.store import Store


async def serve(port: int, objects: int, certificate: str | None) -> None:
    store = Store()
    store.reset(objects)
    api = Api(store)
    gc.freeze()  # thousands of templates must not be walked by the collector
    loop = asyncio.get_running_loop()
    # With the default backlog of 100, thousands of simultaneous connections lose their SYNs,
    # and come back in a second: the operator looks idle meanwhile, but it is not done.
    context = None
    if certificate is not None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate)
    server = await loop.create_server(
        lambda: Connection(api), "127.0.0.1", port, ssl=context, backlog=4096
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--objects", type=int, default=0)
    parser.add_argument("--certificate", help="with its key, in one file of PEM: serve TLS")
    args = parser.parse_args()
    try:
        import uvloop
    except ImportError:
        runner = asyncio.run
    else:
        runner = uvloop.run
    try:
        runner(serve(args.port, args.objects, args.certificate))
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
