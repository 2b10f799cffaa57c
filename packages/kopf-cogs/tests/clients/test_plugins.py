"""Exec plugins: real programs, tiny and quick, that behave well and badly."""

import asyncio
import contextvars
import datetime
import json
import os
import stat
import subprocess
import sys
import textwrap

import pytest

from kopf_cogs.aiokits.clocks import FakeClock
from kopf_cogs.clients import plugins
from kopf_cogs.clients.kubeconfig import login_with_kubeconfig, read_kubeconfig
from kopf_cogs.clients.leashes import leashed
from kopf_cogs.clients.renewals import Renewer
from kopf_cogs.clients.vault import Vault
from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.structs.credentials import ConnectionInfo, LoginError

V1, V1BETA1 = plugins.VERSIONS
FUTURE = "2999-01-01T00:00:00Z"


@pytest.fixture
def script(tmp_path):
    """Write a program in Python; `report` prints its credentials, `doc` is what it was told."""

    def write(code, name="plugin"):
        path = tmp_path / name
        lines = [
            f"#!{sys.executable} -IS",
            "import json, os, sys",
            "doc = json.loads(os.environ['KUBERNETES_EXEC_INFO'])",
            "def report(**status):",
            "    print(json.dumps({'apiVersion': doc['apiVersion'],",
            "        'kind': 'ExecCredential', 'status': status}))",
            textwrap.dedent(code),
        ]
        path.write_text("\n".join(lines))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    return write


@pytest.fixture
def login(tmp_path):
    """Log in with a kubeconfig that has the exec plugin."""

    def login(command, cluster=None, user=None, **fields):
        fields = {"apiVersion": V1, "interactiveMode": "Never"} | fields
        config = {
            "current-context": "ctx",
            "contexts": [{"name": "ctx", "context": {"cluster": "clu", "user": "usr"}}],
            "clusters": [{"name": "clu", "cluster": {"server": "https://s"} | (cluster or {})}],
            "users": [{"name": "usr", "user": {"exec": {"command": str(command), **fields}}}],
        }
        config["users"][0]["user"] |= user or {}
        path = tmp_path / "kubeconfig"
        path.write_text(json.dumps(config))
        return read_kubeconfig([path])

    return login


@pytest.mark.parametrize("version", plugins.VERSIONS)
def test_b17_tokens(script, login, version):
    path = script(f"report(token='T', expirationTimestamp='{FUTURE}')")
    info = login(path, apiVersion=version)
    assert info.token == "T"
    assert info.expiration == datetime.datetime(2999, 1, 1, tzinfo=datetime.UTC)
    assert info.server == "https://s"


def test_b17_certificates(script, login):
    info = login(script("report(clientCertificateData='C', clientKeyData='K')"))
    assert (info.certificate_data, info.private_key_data) == ("C", "K")
    assert (info.token, info.expiration) == (None, None)


def test_b17_arguments_and_environment(script, login, monkeypatch):
    monkeypatch.setenv("INHERITED", "i")
    monkeypatch.setenv("OVERRIDDEN", "wrong")
    path = script(
        "report(token=' '.join([*sys.argv[1:], os.environ['INHERITED'], os.environ['OVERRIDDEN']]))"
    )
    env = [{"name": "OVERRIDDEN", "value": "o"}]
    assert login(path, args=["a b", "$c"], env=env).token == "a b $c i o"


def test_b17_relative_commands_are_relative_to_the_file(script, login, monkeypatch):
    script("report(token='T')")
    monkeypatch.chdir("/")
    assert login("./plugin").token == "T"


def test_b17_other_commands_are_found_in_the_path(script, login, tmp_path, monkeypatch):
    script("report(token='T')", name="some-plugin")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert login("some-plugin").token == "T"


def test_b17_there_is_no_terminal_and_no_input(script, login):
    code = """
        try:
            os.open("/dev/tty", os.O_RDWR)
        except OSError:
            tty = False
        else:
            tty = True
        report(token=repr((sys.stdin.read(), tty, doc["spec"])))
    """
    token = login(script(code), interactiveMode="IfAvailable").token
    assert token == repr(("", False, {"interactive": False}))


@pytest.mark.parametrize("mode", ["Always", "Whatever"])
def test_b17_interactive_plugins_are_refused(script, login, mode):
    with pytest.raises(LoginError, match=f"exec plugin of 'usr' has interactiveMode: {mode}"):
        login(script("raise SystemExit"), interactiveMode=mode)


def test_b17_clusters_are_described_if_requested(script, login, tmp_path):
    (tmp_path / "ca.crt").write_bytes(b"PEM")
    cluster = {
        "certificate-authority": "ca.crt",
        "tls-server-name": "name",
        "proxy-url": "http://p",
        "extensions": [
            {"name": "other", "extension": {"x": 0}},
            {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "a"}},
        ],
    }
    path = script("report(token=json.dumps(doc['spec']['cluster']))")
    assert json.loads(login(path, cluster, provideClusterInfo=True).token) == {
        "server": "https://s",
        "certificate-authority-data": "UEVN",
        "tls-server-name": "name",
        "proxy-url": "http://p",
        "config": {"audience": "a"},
    }
    script("report(token=repr('cluster' in doc['spec']))")
    assert login(path, cluster).token == "False"


def test_b17_absent_commands_with_hints(login):
    with pytest.raises(LoginError) as err:
        login("no-such-command", installHint="See https://example.com")
    assert str(err.value) == (
        "The kubeconfig's user 'usr' needs 'no-such-command', which is not found. "
        "See https://example.com"
    )


def test_b17_plugins_are_not_run_if_there_is_something_else(login):
    assert login("no-such-command", user={"token": "T"}).token == "T"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("sys.exit(3)", "has failed with exit code 3; run it manually"),
        ("report(token='T'); sys.exit(1)", "has failed with exit code 1"),
        ("pass", "something that is not JSON"),
        ("print('[' * 100_000)", "something that is not JSON"),
        ("print('[]')", "not printed an ExecCredential"),
        ("print('{}')", "not printed an ExecCredential"),
        ("doc['apiVersion'] = 'v2'; report(token='T')", "not printed an ExecCredential"),
        ("report()", "neither a token nor a certificate"),
        ("report(token='')", "neither a token nor a certificate"),
        ("report(token=1)", "wrong types"),
        ("report(clientKeyData='K')", "but not both"),
        ("report(clientCertificateData='C', token='T')", "but not both"),
        ("report(token='T', expirationTimestamp='soon')", "a wrong time of expiration"),
        ("report(token='T', expirationTimestamp='2020-01-01T00:00:00Z')", "expired already"),
        ("print('x' * (1024 * 1024 + 1))", "has printed more than 1048576 bytes"),
        ("while True: print('x' * 65536)", "has printed more than 1048576 bytes"),
    ],
)
def test_b17_bad_plugins(script, login, code, message):
    with pytest.raises(LoginError, match=message) as err:
        login(script(code))
    assert str(err.value).startswith("The kubeconfig's user 'usr': the plugin '")
    assert len(str(err.value)) < 500


def test_b17_unrunnable_plugins(login, tmp_path):
    path = tmp_path / "plugin"
    path.write_text("#!/does/not/exist\n")
    path.chmod(0o700)
    with pytest.raises(LoginError, match="cannot be run: No such file"):
        login(path)


def test_b17_slow_plugins_are_killed_with_all_they_have_started(script, tmp_path):
    """The child holds the pipe: it is not over until the whole group is killed."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    path = script(
        f"os.fork(); lock = open({str(fifo)!r}, 'w'); sys.stdin = None; os.read(0, 1)\n"
        "import signal; signal.pause()"
    )
    plugin = plugins.ExecPlugin(title="It", command=str(path), api_version=V1, timeout=0.5)
    fd = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with pytest.raises(LoginError, match=r"has not finished in 0\.5 seconds"):
            plugin.renew(ConnectionInfo(server="https://s"))
        os.set_blocking(fd, True)
        assert os.read(fd, 1) == b""  # nobody has it open anymore
    finally:
        os.close(fd)


def test_b17_the_time_of_plugins_is_a_setting(script, tmp_path, monkeypatch):
    user = {"exec": {"apiVersion": V1, "command": str(script("import signal; signal.pause()"))}}
    context = {"cluster": "x", "user": "x"}
    config = {
        "clusters": [{"name": "x", "cluster": {"server": "https://s"}}],
        "contexts": [{"name": "x", "context": context}],
        "users": [{"name": "x", "user": user}],
        "current-context": "x",
    }
    (tmp_path / "kubeconfig").write_text(json.dumps(config))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    settings = OperatorSettings()
    settings.networking.plugin_timeout = 0.2
    with pytest.raises(LoginError, match=r"has not finished in 0\.2 seconds"):
        login_with_kubeconfig(settings=settings)


def test_e5_the_output_is_never_quoted(script, login, caplog):
    code = "print('SECRET'); print('SECRET', file=sys.stderr); sys.exit(1)"
    with pytest.raises(LoginError) as err:
        login(script(code))
    assert "SECRET" not in f"{err.value!r} {err.value.__cause__!r} {err.value.__context__!r}"
    assert "SECRET" not in caplog.text


def test_e5_stderr_is_not_shown(script, login, capfd):
    login(script("print('SECRET', file=sys.stderr); report(token='T')"))
    assert "SECRET" not in "".join(capfd.readouterr())


async def test_plugins_are_not_run_in_the_event_loop(script, login):
    with pytest.raises(LoginError, match="would block the event loop"):
        login(script("report(token='T')"))


def test_renewals_keep_what_users_have_changed(script, login):
    import dataclasses

    path = script("report(token='1')")
    info = dataclasses.replace(login(path), default_namespace="mine", priority=5)
    script("report(token='2')")
    renewed = info.renewal(info)
    assert renewed == dataclasses.replace(info, token="2")
    assert renewed.renewal == info.renewal


@pytest.fixture
def hanging(script, tmp_path):
    """A plugin that never ends, and a pipe: a line comes when it begins, and EOF when it ends."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    code = f"pipe = open({str(fifo)!r}, 'w'); print('begun', file=pipe, flush=True)"
    path = script(f"{code}; import signal; signal.pause()")
    return plugins.ExecPlugin(title="It", command=str(path), api_version=V1), fifo


async def test_b17_plugins_are_killed_when_nobody_needs_them(hanging):
    plugin, fifo = hanging
    with leashed():
        call = asyncio.create_task(asyncio.to_thread(plugin.renew, ConnectionInfo(server="x")))
        pipe = await asyncio.to_thread(fifo.open)
        assert await asyncio.to_thread(pipe.readline) == "begun\n"
    with pipe:
        with pytest.raises(LoginError, match="has failed with exit code -9"):
            await call
        assert pipe.read() == ""


async def test_b17_plugins_are_not_left_if_they_are_late(hanging):
    """The thread has come to it when it is not needed already."""
    plugin, _ = hanging
    with leashed():
        context = contextvars.copy_context()
    call = asyncio.to_thread(context.run, plugin.renew, ConnectionInfo(server="x"))
    with pytest.raises(LoginError, match="is not run, as the operator exits"):
        await call


async def test_b17_plugins_are_killed_with_their_renewer(hanging):
    plugin, fifo = hanging
    soon = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)
    clock = FakeClock(soon)
    info = ConnectionInfo(server="x", token="t", renewal=plugin.renew, expiration=soon)
    vault = Vault({"x": info}, clock=FakeClock(soon - datetime.timedelta(hours=1)))
    renewal = asyncio.create_task(Renewer(vault, clock=clock).run())
    with await asyncio.to_thread(fifo.open) as pipe:
        assert await asyncio.to_thread(pipe.readline) == "begun\n"
        renewal.cancel()
        await asyncio.wait([renewal])
        assert await asyncio.to_thread(pipe.read) == ""


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="It is seen by the end of a pipe.")
def test_b17_plugins_do_not_outlive_the_operator(script, tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    path = script(
        f"pipe = open({str(fifo)!r}, 'w'); print('begun', file=pipe, flush=True); "
        "import time; time.sleep(3600)"
    )
    operator = f"""
        import threading
        from kopf_cogs.clients.plugins import ExecPlugin
        from kopf_cogs.structs.credentials import ConnectionInfo

        plugin = ExecPlugin(title="It", command={str(path)!r}, api_version={V1!r})
        info = ConnectionInfo(server="https://s")
        threading.Thread(target=plugin.renew, args=[info], daemon=True).start()
        input()
    """
    code = textwrap.dedent(operator)
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as process:
        try:
            with fifo.open() as pipe:
                assert pipe.readline() == "begun\n"
                process.communicate(b"\n", timeout=60)
                assert pipe.read() == ""  # it comes to the end only when the plugin is dead
        finally:
            process.kill()


def test_b17_secrets_of_plugins_are_not_shown(script, login):
    info = login(
        script(f"report(token='T', expirationTimestamp='{FUTURE}')"),
        args=["--password=hidden1"],
        env=[{"name": "SECRET", "value": "hidden2"}],
    )
    assert "ExecPlugin" in repr(info.renewal)
    assert "hidden" not in f"{info!r} {info.renewal!r}"
