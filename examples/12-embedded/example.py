"""An operator inside of another application: in a thread with an event loop of its own.

It is started as any other script: ``python example.py``.
"""

import asyncio
import contextlib
import threading

import kopf


@kopf.on.create("kopfexamples")
def create_fn(memo: kopf.Memo, name, **kwargs):
    memo.created.append(name)
    print(f"Created: {name}")


def kopf_thread(ready_flag: threading.Event, stop_flag: threading.Event, memo: kopf.Memo):
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    with contextlib.closing(loop):
        kopf.configure(verbose=True)  # log formatting
        loop.run_until_complete(
            kopf.operator(ready_flag=ready_flag, stop_flag=stop_flag, memo=memo, clusterwide=True)
        )


def main(steps=3, interval=1.0):
    ready_flag = threading.Event()
    stop_flag = threading.Event()
    memo = kopf.Memo(created=[])
    thread = threading.Thread(target=kopf_thread, args=(ready_flag, stop_flag, memo))
    thread.start()
    ready_flag.wait()

    print("Do the main job of the application here. Meanwhile, the operator works.")
    for _ in range(steps):
        stop_flag.wait(interval)
    print(f"Stopping the operator. Created objects: {memo.created}")

    stop_flag.set()
    thread.join()


if __name__ == "__main__":
    main()
