"""The sandbox as kubectl sees it; kubectl is run as a user would run it."""

import asyncio
import shutil
import subprocess

import pytest
import yaml

from .conftest import make_crd

KUBECTL = shutil.which("kubectl")
pytestmark = pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed here")
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "dep"},
    "spec": {
        "selector": {"matchLabels": {"app": "x"}},
        "template": {
            "metadata": {"labels": {"app": "x"}},
            "spec": {"containers": [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}]},
        },
    },
}


@pytest.fixture
def kubectl(sandbox, tmp_path):
    config = sandbox.write_kubeconfig(tmp_path / "config")

    async def kubectl(*args, stdin=None, code=0):
        command = [KUBECTL, "--kubeconfig", config, "--cache-dir", tmp_path / "cache", *args]
        text = stdin if isinstance(stdin, str) or stdin is None else yaml.safe_dump_all(stdin)
        done = await asyncio.to_thread(
            subprocess.run, command, capture_output=True, text=True, input=text
        )
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    return kubectl


async def test_unknown_kinds_are_named(kubectl, make_object):
    output = await kubectl("apply", "-f", "-", stdin=[make_object(spec={})], code=1)
    assert 'no matches for kind "KopfExample" in version "kopf.dev/v1"' in output


async def test_custom_resources(kubectl, make_object):
    output = await kubectl("apply", "-f", "-", stdin=[make_crd(subresources={"status": {}})])
    assert output == "customresourcedefinition.apiextensions.k8s.io/kopfexamples.kopf.dev created\n"
    obj = make_object(spec={"a": 1, "b": 1})
    output = await kubectl("apply", "-f", "-", stdin=[obj])
    assert output == "kopfexample.kopf.dev/x created\n"
    output = await kubectl("apply", "-f", "-", stdin=[obj])
    assert output == "kopfexample.kopf.dev/x unchanged\n"
    output = await kubectl("apply", "-f", "-", stdin=[make_object(spec={"a": 2})])
    assert output == "kopfexample.kopf.dev/x configured\n"
    assert await kubectl("get", "kex", "x", "-o", "jsonpath={.spec}") == '{"a":2}'
    assert (await kubectl("get", "kex")).splitlines()[0].split() == ["NAME", "AGE"]
    await kubectl("label", "kex", "x", "a=b")
    assert "x" in await kubectl("get", "kex", "-l", "a=b")
    await kubectl("patch", "kex", "x", "--type=merge", "-p", '{"spec":{"c":3}}')
    await kubectl(
        "patch", "kex", "x", "--subresource=status", "--type=merge", "-p", '{"status":{"s":1}}'
    )
    assert await kubectl("get", "kex", "x", "-o", "jsonpath={.status.s}") == "1"
    output = await kubectl("delete", "kex", "x")
    assert output.startswith('kopfexample.kopf.dev "x" deleted')
    assert "NotFound" in await kubectl("get", "kex", "x", code=1)
    await kubectl("delete", "crd", "kopfexamples.kopf.dev")


async def test_strict_validation(kubectl, sandbox, make_object):
    await sandbox.apply(make_crd())
    obj = make_object(spec={}, extra=1)
    output = await kubectl("apply", "-f", "-", stdin=[obj], code=1)
    assert 'unknown field "extra"' in output


async def test_describe_shows_the_events(kubectl, sandbox, crd, make_object):
    meta = (await sandbox.create(make_object()))["metadata"]
    await sandbox.create(
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": "x.1", "namespace": "default"},
            "involvedObject": {
                "apiVersion": "kopf.dev/v1",
                "kind": "KopfExample",
                "name": "x",
                "namespace": "default",
                "uid": meta["uid"],
            },
            "type": "Normal",
            "reason": "Logging",
            "message": "Handler 'create_fn' succeeded.",
            "source": {"component": "kopf"},
            "firstTimestamp": meta["creationTimestamp"],
            "lastTimestamp": meta["creationTimestamp"],
        }
    )
    output = await kubectl("describe", "kex", "x")
    assert "Handler 'create_fn' succeeded." in output
    assert "Logging" in await kubectl("get", "events")


async def test_workloads(kubectl):
    await kubectl("apply", "-f", "-", stdin=[DEPLOYMENT])
    await kubectl("set", "image", "deployment/dep", "b=b:2")
    images = "jsonpath={.spec.template.spec.containers[*].image}"
    assert await kubectl("get", "deploy", "dep", "-o", images) == "a:1 b:2"
    await kubectl("scale", "deploy", "dep", "--replicas=3")
    assert "0/3" in await kubectl("get", "deploy")
    assert "3 desired" in await kubectl("describe", "deploy", "dep")
    await kubectl("apply", "-f", "-", stdin=[DEPLOYMENT])
    assert await kubectl("get", "deploy", "dep", "-o", images) == "a:1 b:1"


async def test_server_side_apply(kubectl, sandbox, crd, make_object):
    await kubectl("apply", "-f", "-", stdin=[make_object(spec={"a": 1})])
    output = await kubectl("apply", "--server-side", "-f", "-", stdin=[make_object(spec={"a": 2})])
    assert output == "kopfexample.kopf.dev/x serverside-applied\n"
    assert (await sandbox.get("kex", "x"))["spec"] == {"a": 2}
    await sandbox.patch("kex", "x", {"spec": {"a": 3}})
    output = await kubectl(
        "apply", "--server-side", "-f", "-", stdin=[make_object(spec={"a": 4})], code=1
    )
    assert 'conflict with "sandbox" using kopf.dev/v1: .spec.a' in output
    await kubectl("apply", "--server-side", "--force-conflicts", "-f", "-",
                  stdin=[make_object(spec={"a": 4})])  # fmt: skip
    assert (await sandbox.get("kex", "x"))["spec"] == {"a": 4}


async def test_commands_which_send_protobuf(kubectl, sandbox):
    await kubectl("create", "namespace", "space")
    await kubectl("create", "configmap", "cm", "-n", "space", "--from-literal=a=b")
    await kubectl("create", "secret", "generic", "s", "-n", "space", "--from-literal=a=b")
    await kubectl("create", "deployment", "d", "-n", "space", "--image=nginx", "--replicas=2")
    assert (await sandbox.get("cm", "cm", namespace="space"))["data"] == {"a": "b"}
    assert (await sandbox.get("secrets", "s", namespace="space"))["data"] == {"a": "Yg=="}
    spec = (await sandbox.get("deploy", "d", namespace="space"))["spec"]
    assert spec["replicas"] == 2
    assert spec["template"]["spec"]["containers"][0]["image"] == "nginx"
    await kubectl("delete", "namespace", "space")
    assert await sandbox.list("cm", namespace="space") == []


async def test_information(kubectl, crd):
    assert "Server Version: v1." in await kubectl("version")
    assert "kopfexamples" in await kubectl("api-resources", "--categories=all", "-o", "name")
    assert "kopf.dev/v1" in await kubectl("api-versions")
    assert "spec" in await kubectl("explain", "kex")
    assert "containers" in await kubectl("explain", "pod.spec")
    assert (await kubectl("get", "ns")).splitlines()[1].split()[:2] == ["default", "Active"]


async def test_questions_about_access(kubectl):
    assert await kubectl("auth", "can-i", "create", "pods") == "yes\n"
    assert "*.*" in await kubectl("auth", "can-i", "--list")
    assert "sandbox" in await kubectl("auth", "whoami")
    output = await kubectl("auth", "whoami", "--as=somebody", "--as-group=others")
    assert "somebody" in output
    assert "others" in output


async def test_default_service_accounts_are_in_all_namespaces(kubectl, sandbox):
    assert (await kubectl("create", "token", "default")).startswith("sandbox:default:default")
    await kubectl("create", "namespace", "space")
    assert await kubectl("get", "sa", "-n", "space", "-o", "name") == "serviceaccount/default\n"
    await kubectl("delete", "namespace", "space")
    assert await sandbox.list("serviceaccounts", namespace="space") == []


async def test_nothing_runs_and_it_is_said(kubectl):
    await kubectl("run", "pod", "--image=nginx")
    message = "there are no containers in the sandbox"
    assert message in await kubectl("logs", "pod", code=1)
    assert message in await kubectl("exec", "pod", "--", "ls", code=1)


async def test_descriptions_of_custom_resources_are_explained(kubectl):
    spec = {"type": "object", "properties": {"size": {"type": "integer", "description": "Pods."}}}
    schema = {"type": "object", "properties": {"spec": spec}}
    await kubectl("apply", "-f", "-", stdin=[make_crd(schema={"openAPIV3Schema": schema})])
    await kubectl("get", "kex")  # to notice the new kind
    assert "Pods." in await kubectl("explain", "kex.spec.size")


async def test_descriptions_of_built_in_kinds_are_explained(kubectl):
    assert "Container image name" in await kubectl("explain", "pods.spec.containers.image")
    output = await kubectl("explain", "deployment")
    assert "Deployment enables declarative updates" in output
    assert "Number of desired pods" in await kubectl("explain", "deploy.spec.replicas")
    assert "Standard object" in output
    assert "<empty>" not in await kubectl("explain", "configmaps", "--recursive=false")
