//! Containers of all three sorts: pull policy, ports, environment, probes and hooks.

use object::Map;

use super::{image, volume};
use crate::defaults::amounts;
use crate::defaults::fill::Literal::{Bool, Int, Text};
use crate::defaults::fill::{Default, at, each, fill, plain, pointer};

const CONTAINER: &[Default] = &[
    plain("terminationMessagePath", Text("/dev/termination-log")),
    plain("terminationMessagePolicy", Text("File")),
];
const PORT: &[Default] = &[plain("protocol", Text("TCP"))];
const FILE_KEY: &[Default] = &[pointer("optional", Bool(false))];
const PROBE: &[Default] = &[
    plain("timeoutSeconds", Int(1)),
    plain("periodSeconds", Int(10)),
    plain("successThreshold", Int(1)),
    plain("failureThreshold", Int(3)),
];
const HTTP_GET: &[Default] = &[plain("path", Text("/")), plain("scheme", Text("HTTP"))];
const GRPC: &[Default] = &[pointer("service", Text(""))];

pub(crate) fn container(container: &mut Map) {
    image::pull_policy(container, "image", "imagePullPolicy");
    fill(container, CONTAINER);
    each(container, "ports", |port| fill(port, PORT));
    each(container, "env", |variable| {
        let Some(source) = at(variable, "valueFrom") else { return };
        volume::field_ref(source);
        if let Some(key) = at(source, "fileKeyRef") {
            fill(key, FILE_KEY);
        }
    });
    amounts::round_requirements(container, "resources");
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let Some(probe) = at(container, name) else { continue };
        fill(probe, PROBE);
        http_get(probe);
        if let Some(grpc) = at(probe, "grpc") {
            fill(grpc, GRPC);
        }
    }
    let Some(lifecycle) = at(container, "lifecycle") else { return };
    for name in ["postStart", "preStop"] {
        if let Some(hook) = at(lifecycle, name) {
            http_get(hook);
        }
    }
}

fn http_get(handler: &mut Map) {
    if let Some(action) = at(handler, "httpGet") {
        fill(action, HTTP_GET);
    }
}
