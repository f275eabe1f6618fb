"""The Python client as people use it: create, list with selectors, watch, patch, delete, and the codes of failures.

Usage: client.py KUBECONFIG. Ends with 0 only if everything held.
"""

import sys

from kubernetes import client, config, watch
from kubernetes.client.rest import ApiException

NAMESPACE = "python-client"


def config_map(name, value, labels=None):
    metadata = client.V1ObjectMeta(name=name, labels=labels or {})
    return client.V1ConfigMap(metadata=metadata, data={"value": value})


def refused(code, reason, call, *arguments):
    try:
        call(*arguments)
    except ApiException as error:
        assert error.status == code, error
        assert f'"reason":"{reason}"' in error.body.replace('": "', '":"'), error.body
        return
    raise AssertionError(f"{call.__name__}{arguments} was not refused")


def workloads(core):
    """Pods, services, jobs and quotas: completed, allotted, counted."""
    pod_spec = client.V1PodSpec(containers=[client.V1Container(name="c", image="nginx")])
    template = client.V1PodTemplateSpec(spec=client.V1PodSpec(containers=pod_spec.containers, restart_policy="Never"))

    def named(name):
        return client.V1ObjectMeta(name=name)

    quota = client.V1ResourceQuota(metadata=named("q"), spec=client.V1ResourceQuotaSpec(hard={"pods": "1", "services": "5"}))
    core.create_namespaced_resource_quota(NAMESPACE, quota)
    pod = core.create_namespaced_pod(NAMESPACE, client.V1Pod(metadata=named("p"), spec=pod_spec))
    assert pod.spec.service_account_name == "default" and pod.status.phase == "Pending", pod
    assert any(v.name.startswith("kube-api-access-") for v in pod.spec.volumes), pod.spec.volumes
    assert pod.spec.priority == 0 and len(pod.spec.tolerations) == 2, pod.spec
    over = client.V1Pod(metadata=named("over"), spec=pod_spec)
    refused(403, "Forbidden", core.create_namespaced_pod, NAMESPACE, over)
    assert core.read_namespaced_resource_quota("q", NAMESPACE).status.used["pods"] == "1"

    ports = [client.V1ServicePort(port=80)]
    spec = client.V1ServiceSpec(type="NodePort", selector={"app": "web"}, ports=ports)
    service = core.create_namespaced_service(NAMESPACE, client.V1Service(metadata=named("s"), spec=spec))
    assert service.spec.cluster_ip == service.spec.cluster_ips[0] != "None", service.spec
    assert 30000 <= service.spec.ports[0].node_port <= 32767, service.spec.ports

    batch = client.BatchV1Api()
    job = batch.create_namespaced_job(
        NAMESPACE, client.V1Job(metadata=named("j"), spec=client.V1JobSpec(template=template))
    )
    assert job.spec.completions == 1 and job.spec.selector.match_labels, job.spec
    token = core.create_namespaced_service_account_token(
        "default", NAMESPACE, client.AuthenticationV1TokenRequest(spec=client.V1TokenRequestSpec(audiences=[]))
    )
    assert token.status.token.count(".") == 2

    core.create_namespaced_pod_eviction("p", NAMESPACE, client.V1Eviction(metadata=named("p")))
    refused(404, "NotFound", core.read_namespaced_pod, "p", NAMESPACE)


def applies(core):
    """Server-side apply: whose fields are whose."""

    def apply(manager, value, **options):
        wanted = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": {"value": value}}
        return core.patch_namespaced_config_map(
            "applied", NAMESPACE, wanted, field_manager=manager, _content_type="application/apply-patch+yaml", **options
        )

    made = apply("one", "1")
    assert [(m.manager, m.operation) for m in made.metadata.managed_fields] == [("one", "Apply")], made
    refused(409, "Conflict", apply, "two", "2")
    assert apply("two", "2", force=True).data == {"value": "2"}
    core.delete_namespaced_config_map("applied", NAMESPACE)


def main():
    config.load_kube_config(sys.argv[1])
    core = client.CoreV1Api()
    assert client.VersionApi().get_code().git_version.startswith("v1.36"), "version"

    core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=NAMESPACE)))
    made = core.create_namespaced_config_map(NAMESPACE, config_map("a", "1", {"tier": "front"}))
    core.create_namespaced_config_map(NAMESPACE, config_map("b", "1", {"tier": "back"}))
    assert made.metadata.uid and made.metadata.creation_timestamp, made

    def names(**selectors):
        found = [m.metadata.name for m in core.list_namespaced_config_map(NAMESPACE, **selectors).items]
        return [name for name in found if name != "kube-root-ca.crt"]  # the server's own

    assert names() == ["a", "b"], names()
    assert names(label_selector="tier=front") == ["a"]
    assert names(label_selector="tier in (front, back),tier!=front") == ["b"]
    assert names(field_selector="metadata.name=b") == ["b"]
    first = core.list_namespaced_config_map(NAMESPACE, limit=1)
    rest = core.list_namespaced_config_map(NAMESPACE, limit=1, _continue=first.metadata._continue)
    assert [m.metadata.name for m in first.items + rest.items] == ["a", "b"]

    patched = core.patch_namespaced_config_map("a", NAMESPACE, {"data": {"value": "2", "more": "x"}})
    assert patched.data == {"value": "2", "more": "x"}, patched.data
    core.patch_namespaced_config_map("a", NAMESPACE, [{"op": "remove", "path": "/data/more"}])
    core.delete_namespaced_config_map("a", NAMESPACE)

    # All of it again as events, from before it happened.
    seen = []
    stream = watch.Watch()
    start = made.metadata.resource_version
    for event in stream.stream(core.list_namespaced_config_map, NAMESPACE, resource_version=start, timeout_seconds=30):
        if event["object"].metadata.name == "kube-root-ca.crt":
            continue
        seen.append((event["type"], event["object"].metadata.name))
        if event["type"] == "DELETED":
            stream.stop()
    assert seen == [("ADDED", "b"), ("MODIFIED", "a"), ("MODIFIED", "a"), ("DELETED", "a")], seen

    current = core.read_namespaced_config_map("b", NAMESPACE)
    core.patch_namespaced_config_map("b", NAMESPACE, {"data": {"value": "3"}})
    refused(409, "Conflict", core.replace_namespaced_config_map, "b", NAMESPACE, current)
    refused(404, "NotFound", core.read_namespaced_config_map, "a", NAMESPACE)
    refused(409, "AlreadyExists", core.create_namespaced_config_map, NAMESPACE, config_map("b", "1"))
    refused(422, "Invalid", core.create_namespaced_config_map, NAMESPACE, config_map("Not A Name", "1"))
    refused(404, "NotFound", core.create_namespaced_config_map, "no-such-namespace", config_map("a", "1"))

    custom = client.CustomObjectsApi()
    role = {"metadata": {"name": "r"}, "rules": []}
    custom.create_namespaced_custom_object("rbac.authorization.k8s.io", "v1", NAMESPACE, "roles", role)
    listed = custom.list_namespaced_custom_object("rbac.authorization.k8s.io", "v1", NAMESPACE, "roles")
    assert [item["metadata"]["name"] for item in listed["items"]] == ["r"], listed

    applies(core)
    workloads(core)
    core.delete_collection_namespaced_config_map(NAMESPACE)
    assert names() == []
    print("all facts hold")


main()
