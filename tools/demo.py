"""The demo: a local cluster, the minimal operator on it, and the life of one object.

No cluster is needed. It ends by itself; Ctrl+C ends it earlier.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kopf_kits.sandbox import SandboxThread

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
NAME = "kopf-example-1"
WIDTH = 40  # characters of an annotation: what the framework remembers there is long
TIMEOUT = 30.0  # seconds for each step; all of them take milliseconds


class Demo:
    """The steps of the demo, on a running sandbox with a running operator."""

    def __init__(self, sandbox: SandboxThread, operator: subprocess.Popen[bytes]) -> None:
        self.sandbox = sandbox
        self.operator = operator

    def run(self) -> None:
        say("Create an object:")
        self.sandbox.apply(EXAMPLES / "obj.yaml")
        self.wait_for(lambda: "create_fn" in self.get().get("status", {}))
        self.wait_for(lambda: bool(self.get_events()))

        say("Change the object:")
        self.sandbox.patch("kopfexamples", NAME, {"spec": {"field": "changed"}})
        handled = "kopf.zalando.org/last-handled-configuration"
        self.wait_for(lambda: "changed" in self.get()["metadata"]["annotations"][handled])

        say("What the object looks like now:")
        obj = self.get()
        obj["metadata"].pop("managedFields", None)
        annotations = obj["metadata"]["annotations"]
        for name, value in annotations.items():
            annotations[name] = value if len(value) <= WIDTH else f"{value[:WIDTH]}..."
        import yaml

        print(yaml.safe_dump(obj, sort_keys=False), flush=True)
        say("What has been told about it (as in `kubectl describe`):")
        for event in self.get_events():
            print(f"{event['type']}  {event['reason']}  {event['message']}", flush=True)

        say("Delete the object:")
        self.sandbox.delete("kopfexamples", NAME)
        self.wait_for(lambda: not self.sandbox.list("kopfexamples"))

    def get(self) -> dict[str, Any]:
        return self.sandbox.get("kopfexamples", NAME)

    def get_events(self) -> list[dict[str, Any]]:
        events = self.sandbox.list("events", namespace="default")
        return [event for event in events if event["involvedObject"].get("name") == NAME]

    def wait_for(self, check: Callable[[], bool]) -> None:
        deadline = time.monotonic() + TIMEOUT
        while not check():
            if self.operator.poll() is not None:
                raise SystemExit("The demo has failed: the operator has exited.")
            if time.monotonic() > deadline:
                raise SystemExit("The demo has failed: the object is not handled in time.")
            time.sleep(0.05)
        time.sleep(0.2)  # for people: the operator's last log lines go first


def say(text: str) -> None:
    print(f"\n\033[1m=== {text}\033[0m" if sys.stdout.isatty() else f"\n=== {text}", flush=True)


def main() -> int:
    """Run as a command; returns the exit code."""
    from kopf_kits.sandbox import SandboxThread  # it takes time, and can be interrupted

    with tempfile.TemporaryDirectory() as folder, SandboxThread() as sandbox:
        say("Start a local cluster, and define a resource in it:")
        kubeconfig = sandbox.write_kubeconfig(Path(folder) / "kubeconfig")
        sandbox.apply(EXAMPLES / "crd.yaml")
        print(f"The cluster is at {sandbox.url}", flush=True)

        handlers = "examples/01-minimal/example.py"
        say(f"Start the operator: kopf run -A --log-format plain {handlers}")
        path = str(EXAMPLES.parent / handlers)
        options = ["-A", "--log-format", "plain"]  # the lines are short enough for any terminal
        command = [sys.executable, "-m", "kopf", "run", *options, path]
        env = {**os.environ, "KUBECONFIG": str(kubeconfig), "PYTHONUNBUFFERED": "1"}
        interrupted = False
        # In a session of its own, it is not interrupted directly, but is stopped properly by us.
        with subprocess.Popen(command, env=env, start_new_session=True) as operator:
            try:
                Demo(sandbox, operator).run()
            except KeyboardInterrupt:
                interrupted = True
                say("Interrupted.")
            finally:
                if operator.poll() is None:
                    operator.terminate()
                operator.wait()
    say("That is all. See examples/ and docs/ for more.")
    return 0 if interrupted else operator.returncode


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:  # outside of the steps, e.g. while it is starting
        sys.exit(0)
