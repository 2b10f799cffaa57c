import base64
import json
import os
import pathlib

import pytest
import yaml

from kopf_cogs.clients.kubeconfig import login_with_kubeconfig, read_kubeconfig
from kopf_cogs.structs.credentials import ConnectionInfo, Impersonation, LoginError

SERVER = "https://hostname:1234"


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    return home


@pytest.fixture
def write(tmp_path):
    def write(content, name="config"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
        return path

    return write


def config(cluster=None, user=None, context=None, **fields):
    refs = {"cluster": "clu", "user": "usr"}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "ctx",
        "contexts": [{"name": "ctx", "context": refs | (context or {})}],
        "clusters": [{"name": "clu", "cluster": {"server": SERVER} | (cluster or {})}],
        "users": [{"name": "usr", "user": user or {}}],
        **fields,
    }


def read(path, **kwargs):
    return read_kubeconfig([path], **kwargs)


def test_no_files():
    assert login_with_kubeconfig() is None


def test_default_file(home, settings):
    (home / ".kube").mkdir()
    (home / ".kube" / "config").write_text(yaml.safe_dump(config()))
    info = login_with_kubeconfig(settings=settings, logger=None, anything="else")
    assert info == ConnectionInfo(server=SERVER, priority=10)


def test_b17_several_files_are_merged_and_absent_ones_are_ignored(write, monkeypatch, tmp_path):
    first = write(
        {
            "clusters": [{"name": "clu", "cluster": {"server": "https://first"}}],
            "current-context": "",
        },
        "1",
    )
    second = write(config(user={"token": "tok"}), "2")
    third = write(config(user={"token": "wrong"}, **{"current-context": "wrong"}), "3")
    paths = ["", str(first), str(tmp_path / "absent"), str(second), str(third)]
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(paths))
    assert login_with_kubeconfig() == ConnectionInfo(
        server="https://first", token="tok", priority=10
    )


def test_only_absent_files(monkeypatch):
    monkeypatch.setenv("KUBECONFIG", "/does/not/exist")
    with pytest.raises(LoginError, match=r"No kubeconfig files exist.*/does/not/exist"):
        login_with_kubeconfig()


def test_home_is_expanded(home, monkeypatch):
    (home / "cfg").write_text(yaml.safe_dump(config()))
    monkeypatch.setenv("KUBECONFIG", "~/cfg")
    assert login_with_kubeconfig().server == SERVER


@pytest.mark.parametrize("value", [True, False])
def test_trust_env(write, monkeypatch, settings, value):
    settings.networking.trust_env = value
    monkeypatch.setenv("KUBECONFIG", str(write(config())))
    assert login_with_kubeconfig(settings=settings).trust_env is value


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ({}, {}),
        ({"context": {"namespace": "ns"}}, {"default_namespace": "ns"}),
        ({"context": {"namespace": ""}}, {}),
        ({"cluster": {"insecure-skip-tls-verify": True}}, {"insecure": True}),
        ({"cluster": {"insecure-skip-tls-verify": False}}, {"insecure": False}),
        ({"cluster": {"certificate-authority-data": "Y2E="}}, {"ca_data": "Y2E="}),
        ({"cluster": {"certificate-authority": "/ca.crt"}}, {"ca_path": "/ca.crt"}),
        (
            {"cluster": {"certificate-authority": "/x", "certificate-authority-data": "Y2E="}},
            {"ca_data": "Y2E="},
        ),
        ({"cluster": {"proxy-url": "http://proxy"}}, {"proxy_url": "http://proxy"}),
        ({"cluster": {"tls-server-name": "name"}}, {"tls_server_name": "name"}),
        ({"user": {"token": "tok"}}, {"token": "tok"}),
        ({"user": {"username": "u", "password": "p"}}, {"username": "u", "password": "p"}),
        (
            {"user": {"client-certificate": "/c", "client-key": "/k"}},
            {"certificate_path": "/c", "private_key_path": "/k"},
        ),
        (
            {"user": {"client-certificate-data": "Yw==", "client-key-data": "aw=="}},
            {"certificate_data": "Yw==", "private_key_data": "aw=="},
        ),
        (
            {
                "user": {
                    "client-certificate": "/c",
                    "client-certificate-data": "Yw==",
                    "client-key": "/k",
                }
            },
            {"certificate_data": "Yw==", "private_key_path": "/k"},
        ),
        ({"user": {"token": "tok", "auth-provider": {"name": "x"}}}, {"token": "tok"}),
        (
            {"user": {"as": "me"}},
            {"impersonation": Impersonation(user="me")},
        ),
        (
            {
                "user": {
                    "as": "me",
                    "as-uid": "u",
                    "as-groups": ["g"],
                    "as-user-extra": {"k": ["1", "2"]},
                }
            },
            {
                "impersonation": Impersonation(
                    user="me", uid="u", groups=("g",), extra=(("k", "1"), ("k", "2"))
                )
            },
        ),
        ({"user": {"exec": None, "as": "", "token": "tok"}}, {"token": "tok"}),
        ({"preferences": {}, "extensions": [{"name": "x", "extension": {}}]}, {}),
    ],
)
def test_fields(write, parts, expected):
    assert read(write(config(**parts))) == ConnectionInfo(server=SERVER, priority=10, **expected)


def test_b17_relative_paths_are_relative_to_their_files(write, tmp_path):
    cluster = write(
        {
            "clusters": [
                {"name": "clu", "cluster": {"server": SERVER, "certificate-authority": "ca.crt"}}
            ]
        },
        "a/1",
    )
    rest = write(config(user={"client-certificate": "../x/c.crt", "client-key": "k"}), "b/2")
    info = read_kubeconfig([cluster, rest])
    assert info.ca_path == str(tmp_path / "a" / "ca.crt")
    assert info.certificate_path == str(tmp_path / "b" / "../x/c.crt")
    assert info.private_key_path == str(tmp_path / "b" / "k")


def test_b17_relative_paths_of_relative_files(write, tmp_path, monkeypatch):
    write(config(cluster={"certificate-authority": "ca.crt"}), "a/cfg")
    monkeypatch.chdir(tmp_path)
    info = read(pathlib.Path("a/cfg"))
    monkeypatch.chdir("/")
    assert info.ca_path == str(tmp_path / "a" / "ca.crt")


def test_b17_token_files(write, tmp_path):
    (tmp_path / "tok").write_text("  from-file\n")
    path = write(config(user={"tokenFile": "tok", "token": "wrong"}))
    assert read(path).token == "from-file"
    (tmp_path / "tok").write_text("rotated")
    assert read(path).token == "rotated"
    assert read(path).token_path == str(tmp_path / "tok")


@pytest.mark.parametrize("content", [b"", b" \n", b"\xff"])
def test_b6_empty_tokens_are_never_used(write, tmp_path, content):
    (tmp_path / "tok").write_bytes(content)
    with pytest.raises(LoginError, match=r"token.*tok"):
        read(write(config(user={"tokenFile": "tok"})))


def test_absent_token_files(write):
    with pytest.raises(LoginError, match="cannot be read from '/absent'"):
        read(write(config(user={"tokenFile": "/absent"})))


def test_specific_contexts(write):
    contexts = [{"name": "other", "context": {"cluster": "clu", "namespace": "other-ns"}}]
    info = read(write(config(contexts=contexts)), context="other")
    assert info == ConnectionInfo(server=SERVER, priority=10, default_namespace="other-ns")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "current context is not set"),
        ("null", "current context is not set"),
        ("{}", "current context is not set"),
        ("[]", "is not a mapping"),
        ("text", "is not a mapping"),
        ("{", "not YAML.* in line 1"),
        ("a: b: c", "not YAML"),
        ("a: !!python/object:os.system x", "not YAML"),
        ("\x00", "not YAML"),
        (config(contexts=None), "no context 'ctx'"),
        (config(clusters=None), "no cluster 'clu'"),
        (config(users=None), "no user 'usr'"),
        (config(contexts={}), "no context 'ctx'"),
        (config(contexts={"a": "b"}), "contexts are wrong"),
        (config(contexts=["a"]), "wrong context"),
        (config(contexts=[{"name": "ctx", "context": "x"}]), "wrong context"),
        (config(contexts=[{"name": 1, "context": {}}]), "wrong context"),
        (config(contexts=[{"name": "ctx"}]), "no cluster ''"),
        (config(cluster={"server": None}), "cluster 'clu' has no server"),
        (config(cluster={"server": 123}), "cluster 'clu' has a wrong server"),
        (config(user={"token": 123}), "user 'usr' has a wrong token"),
        (config(user={"exec": {"command": "x"}}), "exec plugin of 'usr' has an unsupported api"),
        (config(user={"exec": {"apiVersion": "x"}}), "exec plugin of 'usr' has no command"),
        (config(user={"exec": "x"}), "user 'usr' has a wrong exec"),
        (config(user={"exec": {"x": 1}, "auth-provider": {"x": 1}}), "both an auth-provider and"),
        (config(user={"as": ["x"]}), "user 'usr' has a wrong as"),
        (config(user={"as": "x\r\nX-Evil: 1"}), "user 'usr' has control characters"),
        (config(user={"as-groups": ["x"]}), "user 'usr' has .*, but nobody to act as"),
        (config(user={"as": "x", "as-groups": "y"}), "user 'usr' has a wrong as-groups"),
        (config(user={"as": "x", "as-groups": [1]}), "user 'usr' has a wrong as-groups"),
        (config(user={"as": "x", "as-user-extra": ["y"]}), "has a wrong as-user-extra"),
        (config(user={"as": "x", "as-user-extra": {"k": "v"}}), "user 'usr' has a wrong k"),
        (config(user={"auth-provider": {"name": "oidc"}}), "the auth-provider 'oidc': .* exec"),
        (config(user={"token": "t", "username": "u"}), "both a password and a token"),
        (config(user={"client-certificate": "/c"}), "a client certificate, but no key"),
        (config(cluster={"insecure-skip-tls-verify": "false"}), "wrong insecure-skip-tls-verify"),
        (
            config(cluster={"insecure-skip-tls-verify": True, "certificate-authority": "/ca"}),
            "both a CA and insecure-skip-tls-verify",
        ),
        (
            config(cluster={"certificate-authority-data": "%%%"}),
            "cluster 'clu' has a wrong certificate-authority-data: it is not base64",
        ),
        (config(users=[{"name": "usr"}, {"name": "usr"}]), "several users of the same name"),
        (config(apiVersion="v2"), "not a kubeconfig by its apiVersion"),
        (config(kind="Pod"), "not a kubeconfig by its kind"),
        ("current-context: [x]", "current context is wrong"),
    ],
)
def test_b17_bad_files_are_refused_loudly(write, content, message):
    with pytest.raises(LoginError, match=message):
        read(write(content))


def test_unreadable_files(tmp_path):
    with pytest.raises(LoginError, match=r"cannot be read.*directory"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("cluster", "user", "expected"),
    [
        ({}, {}, "http://hostname:1"),
        ({"insecure-skip-tls-verify": True}, {}, "https://hostname:1"),
        ({"certificate-authority": "/ca"}, {}, "https://hostname:1"),
        ({}, {"client-certificate": "/c", "client-key": "/k"}, "https://hostname:1"),
    ],
)
def test_b17_servers_without_schemes(write, cluster, user, expected):
    info = read(write(config(cluster={"server": "hostname:1", **cluster}, user=user)))
    assert info.server == expected


def test_b17_json_with_tabs(write):
    assert read(write(json.dumps(config(), indent="\t"))).server == SERVER


def test_e5_errors_do_not_quote_the_files(write):
    secret = base64.b64encode(b"secret").decode()
    with pytest.raises(LoginError) as err:
        read(write(f"users:\n- name: x\n  user: {{token: {secret}\nx"))
    assert secret not in str(err.value)
