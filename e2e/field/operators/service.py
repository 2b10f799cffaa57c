"""A web service with an operator in a thread of it, as in many articles."""

import asyncio
import contextlib
import http.server
import os
import sys
import threading
import urllib.request

from kubernetes import client, config

import kopf

NAMESPACE = sys.argv[1]
COUNTS = {}
HANDLED = threading.Event()


@kopf.on.startup()
async def startup(settings: kopf.OperatorSettings, **_):
    settings.posting.enabled = False
    settings.watching.server_timeout = 600


@kopf.on.create("configmaps", labels={"counted": "yes"})
async def count(name, body, **_):
    await asyncio.sleep(0)
    COUNTS[name] = len(body["data"])
    HANDLED.set()


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(repr(COUNTS).encode())

    def log_message(self, *_):
        pass


def run_operator(ready: threading.Event, stop: threading.Event):
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    with contextlib.closing(loop):
        kopf.configure(verbose=True)
        loop.run_until_complete(
            kopf.operator(
                ready_flag=ready,
                stop_flag=stop,
                namespaces=[NAMESPACE],
                priority=1,
                standalone=True,
            )
        )


def main():
    config.load_kube_config(os.environ["KUBECONFIG"])
    ready, stop = threading.Event(), threading.Event()
    thread = threading.Thread(target=run_operator, args=(ready, stop))
    thread.start()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    try:
        assert ready.wait(30), "The operator is not ready."
        body = {"metadata": {"name": "cm", "labels": {"counted": "yes"}}, "data": {"x": "1"}}
        client.CoreV1Api().create_namespaced_config_map(NAMESPACE, body)
        assert HANDLED.wait(30), "The object is not handled."
        url = f"http://127.0.0.1:{server.server_port}/"
        with urllib.request.urlopen(url) as page:
            print(f"SERVED: {page.read().decode()}")  # at once: logs come meanwhile
    finally:
        stop.set()
        thread.join()
        server.shutdown()
        server.server_close()
    print(f"THREADS: {threading.active_count()}")


if __name__ == "__main__":
    main()
