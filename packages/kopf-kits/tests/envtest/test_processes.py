import os
import pathlib
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kopf_kits.envtest import EnvtestError
from kopf_kits.envtest.processes import Servers

Watch = Callable[[int], Any]


@pytest.fixture
def servers(tmp_path: pathlib.Path) -> Iterator[Servers]:
    folder = tmp_path / "run"
    folder.mkdir()
    servers = Servers(folder)
    yield servers
    servers.close()
    assert not folder.exists()


def check_until(servers: Servers, name: str) -> int:
    while name not in servers.pids:
        servers.check(timeout=20)
    return servers.pids[name]


def check_until_error(servers: Servers) -> str:
    try:
        for _ in range(10):
            servers.check(timeout=20)
    except EnvtestError as e:
        return str(e)
    pytest.fail("the server has not failed")


def test_started_server_runs_in_the_folder(servers: Servers, tmp_path: pathlib.Path) -> None:
    code = "import os; print(os.getcwd(), flush=True); input()"
    servers.start("one", [sys.executable, "-c", code])
    message = check_until_error(servers)  # since there is no input
    assert message.startswith("one exited (1); the end of its log:\n")
    assert servers.read_log("one").splitlines()[0] == str(tmp_path / "run")


def test_closing_stops_the_servers_in_the_reverse_order(
    servers: Servers, tmp_path: pathlib.Path, watch: Watch
) -> None:
    trace = tmp_path / "trace"
    code = (
        "import signal, sys; "
        "signal.signal(signal.SIGTERM, lambda *_: (open(sys.argv[1], 'a').write(sys.argv[2]), "
        "exit(0))); print('up', flush=True); signal.pause()"
    )
    for name in ["a", "b", "c"]:
        servers.start(name, [sys.executable, "-c", code, trace, name])
    processes = [watch(check_until(servers, name)) for name in ["a", "b", "c"]]
    while not all(servers.read_log(name) for name in ["a", "b", "c"]):
        servers.check(timeout=0.01)
    servers.close()
    assert trace.read_text() == "cba"
    assert all(process.wait() for process in processes)


def test_program_that_does_not_exist(servers: Servers) -> None:
    servers.start("one", ["/nonexistent/one"])
    assert check_until_error(servers) == "one cannot be started: No such file or directory."


def test_server_that_is_killed(servers: Servers) -> None:
    servers.start("one", [sys.executable, "-c", "import signal; signal.pause()"])
    os.kill(check_until(servers, "one"), signal.SIGKILL)
    assert check_until_error(servers) == "one was killed by signal 9 and said nothing."


def test_only_the_end_of_a_long_log_is_shown(servers: Servers) -> None:
    servers.start("one", [sys.executable, "-c", "[print('line', i) for i in range(99)]; exit(3)"])
    message = check_until_error(servers)
    assert message.startswith("one exited (3); the end of its log:\n  line 91\n")
    assert message.endswith("\n  line 98")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux can do so")
def test_servers_die_with_their_supervisor(servers: Servers, watch: Watch) -> None:
    servers.start("one", [sys.executable, "-c", "import signal; signal.pause()"])
    process = watch(check_until(servers, "one"))
    servers._supervisor.kill()
    assert process.wait()
    assert "supervisor has been killed" in check_until_error(servers)
    servers._supervisor.wait()
    with pytest.raises(EnvtestError, match="two is not started: its supervisor has been killed"):
        servers.start("two", ["two"])
    shutil.rmtree(servers.folder)  # there is nobody else to do this


def test_supervisor_that_is_asked_to_stop_stops_the_servers(servers: Servers, watch: Watch) -> None:
    servers.start("one", [sys.executable, "-c", "import signal; signal.pause()"])
    process = watch(check_until(servers, "one"))
    servers._supervisor.terminate()
    assert process.wait()
    assert servers._supervisor.wait() == 0
