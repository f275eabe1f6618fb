"""Admission webhooks in Python, without a framework: an HTTPS server of the standard library, configured by URL and CA bundle.

Usage: webhook.py KUBECONFIG CERTIFICATE KEY. Ends with 0 only if everything held.
"""

import base64
import json
import ssl
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from kubernetes import client, config
from kubernetes.client.rest import ApiException

NAMESPACE = "default"
seen = []


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        request = review["request"]
        seen.append((self.path.split("?")[0], request["operation"], request.get("name", "")))
        assert self.headers["Content-Type"] == "application/json", self.headers
        assert "timeout=" in self.path, self.path
        response = {"uid": request["uid"], "allowed": True}
        response.update(answer(self.path.split("?")[0], request))
        body = json.dumps({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def answer(path, request):
    if path == "/mutate":
        operations = [{"op": "add", "path": "/metadata/labels", "value": {"python": "yes"}}]
        patch = base64.b64encode(json.dumps(operations).encode()).decode()
        return {"patchType": "JSONPatch", "patch": patch, "warnings": ["labelled"]}
    if path == "/hang":
        threading.Event().wait(30)
    old, new = request["oldObject"], request["object"]
    if request["operation"] == "DELETE":
        assert new is None and old["data"]["value"] == "2", request
        return {}
    if new["data"]["value"] == "bad":
        return {"allowed": False, "status": {"code": 422, "reason": "Invalid", "message": f"bad value for {request['name']}"}}
    assert new["metadata"]["labels"]["python"] == "yes", new
    return {"auditAnnotations": {"checked": "yes"}}


def serve(certificate, key):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def hook(port, bundle, path, **more):
    rule = client.V1RuleWithOperations(operations=["*"], api_groups=[""], api_versions=["v1"], resources=["configmaps"])
    target = client.AdmissionregistrationV1WebhookClientConfig(url=f"https://127.0.0.1:{port}{path}", ca_bundle=bundle)
    selector = client.V1LabelSelector(match_expressions=[client.V1LabelSelectorRequirement(key="skip", operator="DoesNotExist")])
    return dict(
        name=f"{path[1:]}.example.com", client_config=target, rules=[rule], side_effects="None", object_selector=selector,
        admission_review_versions=["v1"], **more,
    )


def config_map(name, value, labels=None):
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name, labels=labels), data={"value": value})


def refused(code, text, call, *arguments):
    try:
        call(*arguments)
    except ApiException as error:
        assert error.status == code and text in error.body, error
        return
    raise AssertionError(f"{arguments} was not refused")


def main():
    kubeconfig, certificate, key = sys.argv[1:]
    config.load_kube_config(kubeconfig)
    core, registration = client.CoreV1Api(), client.AdmissionregistrationV1Api()
    server = serve(certificate, key)
    port = server.server_address[1]
    with open(certificate, "rb") as file:
        bundle = base64.b64encode(file.read()).decode()

    def named(kind, name, hooks):
        return kind(metadata=client.V1ObjectMeta(name=name), webhooks=hooks)

    rules = [client.V1RuleWithOperations(operations=["CREATE"], api_groups=[""], api_versions=["v1"], resources=["configmaps"])]
    mutate = client.V1MutatingWebhook(**{**hook(port, bundle, "/mutate"), "rules": rules})
    registration.create_mutating_webhook_configuration(named(client.V1MutatingWebhookConfiguration, "python", [mutate]))
    validate = client.V1ValidatingWebhook(**hook(port, bundle, "/validate"))
    registration.create_validating_webhook_configuration(named(client.V1ValidatingWebhookConfiguration, "python", [validate]))

    made, _, headers = core.create_namespaced_config_map_with_http_info(NAMESPACE, config_map("a", "1"))
    assert made.metadata.labels == {"python": "yes"}, made
    assert headers["Warning"] == '299 - "labelled"', headers
    core.patch_namespaced_config_map("a", NAMESPACE, {"data": {"value": "2"}})
    refused(422, 'admission webhook \\"validate.example.com\\" denied the request: bad value for a',
            core.patch_namespaced_config_map, "a", NAMESPACE, {"data": {"value": "bad"}})
    core.create_namespaced_config_map(NAMESPACE, config_map("skipped", "bad", {"skip": "yes"}))
    core.delete_namespaced_config_map("a", NAMESPACE)
    assert seen == [
        ("/mutate", "CREATE", "a"), ("/validate", "CREATE", "a"), ("/validate", "UPDATE", "a"), ("/validate", "UPDATE", "a"),
        ("/validate", "DELETE", "a"),
    ], seen

    # One that never answers has its time, and no more.
    def validate_by(**more):
        registration.delete_validating_webhook_configuration("python")
        hang = client.V1ValidatingWebhook(**hook(port, bundle, "/hang", timeout_seconds=1, **more))
        registration.create_validating_webhook_configuration(named(client.V1ValidatingWebhookConfiguration, "python", [hang]))

    validate_by(failure_policy="Fail")
    refused(500, "context deadline exceeded", core.create_namespaced_config_map, NAMESPACE, config_map("b", "1"))
    validate_by(failure_policy="Ignore")
    core.create_namespaced_config_map(NAMESPACE, config_map("b", "1"))

    registration.delete_mutating_webhook_configuration("python")
    registration.delete_validating_webhook_configuration("python")
    server.shutdown()
    print("all facts hold")


main()
