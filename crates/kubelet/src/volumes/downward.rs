//! Fields of the pod and of its containers' resources as files.

use object::Value;
use object::quantity::Quantity;

use super::payload::{File, Payload, aggregate, file_mode};
use crate::generate::env::{container_value, metadata_field, named};

/// The files of a `downwardAPI` source.
pub fn files(source: &Value, pod: &Value, allocatable: &Value, mode: u32) -> Result<Payload, String> {
    let (mut payload, mut errors) = (Payload::new(), Vec::new());
    for item in source.get("items").and_then(Value::as_list).unwrap_or_default() {
        let text = if let Some(path) = item.str_at(&["fieldRef", "fieldPath"]) {
            metadata_field(pod, path)
        } else if let Some(reference) = item.get("resourceFieldRef") {
            resource(pod, reference, allocatable)
        } else {
            Ok(String::new())
        };
        let mode = item.get("mode").and_then(Value::as_int).map_or(mode, file_mode);
        match text {
            Ok(text) => {
                let path = item.str_at(&["path"]).unwrap_or_default();
                payload.insert(path.to_owned(), File { data: text.into_bytes(), mode, user: None });
            }
            Err(error) => errors.push(error),
        }
    }
    match aggregate(errors) {
        Some(error) => Err(error),
        None => Ok(payload),
    }
}

/// A limit or request of a container. One without a limit can use what the node has.
fn resource(pod: &Value, reference: &Value, allocatable: &Value) -> Result<String, String> {
    let name = reference.str_at(&["containerName"]).unwrap_or_default();
    let (container, _) = named(pod, name)?;
    container_value(container, reference, &|name| {
        allocatable.get(name).and_then(Value::as_str).and_then(|text| Quantity::parse(text).ok())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Value {
        runtime::parse(text).unwrap_or_else(|_| panic!("{text}"))
    }

    fn pod() -> Value {
        parse(
            "
metadata:
  name: web
  namespace: default
  uid: u-1
  labels: {b: two, a: one}
  annotations: {note: \"say \\\"hi\\\"\\n\", Example.com/Key: v}
spec:
  containers:
  - name: main
    resources: {limits: {cpu: 1500m, hugepages-2Mi: 4Mi}, requests: {memory: 64Mi, cpu: 250m}}
  initContainers:
  - name: init
",
        )
    }

    #[test]
    fn fields_are_read_as_kubelet_writes_them() {
        let pod = pod();
        for (path, value) in [
            ("metadata.name", "web"),
            ("metadata.namespace", "default"),
            ("metadata.uid", "u-1"),
            ("metadata.labels", "a=\"one\"\nb=\"two\""),
            ("metadata.annotations", "Example.com/Key=\"v\"\nnote=\"say \\\"hi\\\"\\n\""),
            ("metadata.labels['a']", "one"),
            ("metadata.labels['none']", ""),
            ("metadata.annotations['Example.com/Key']", "v"),
        ] {
            assert_eq!(metadata_field(&pod, path).as_deref(), Ok(value), "{path}");
        }
        assert_eq!(
            metadata_field(&pod, "spec.nodeName"),
            Err("unsupported fieldPath: spec.nodeName".to_owned())
        );
        let said = metadata_field(&pod, "metadata.name['a']").unwrap_err();
        assert_eq!(said, "fieldPath \"metadata.name['a']\" does not support subscript");
        assert!(
            metadata_field(&pod, "metadata.labels['-']").unwrap_err().starts_with("invalid key subscript in")
        );
    }

    #[test]
    fn resources_are_rounded_up_and_limits_default_to_the_node() {
        let (pod, node) = (pod(), parse("{cpu: '4', memory: 8Gi, ephemeral-storage: 10Gi}"));
        for (container, name, divisor, value) in [
            ("main", "limits.cpu", "", "2"),
            ("main", "limits.cpu", "1m", "1500"),
            ("main", "requests.cpu", "1", "1"),
            ("main", "requests.memory", "1Mi", "64"),
            ("main", "limits.memory", "1Gi", "8"),
            ("main", "limits.hugepages-2Mi", "1Mi", "4"),
            ("init", "limits.cpu", "0", "4"),
            ("init", "requests.cpu", "", "0"),
            ("init", "limits.ephemeral-storage", "1Gi", "10"),
        ] {
            let reference =
                parse(&format!("{{containerName: {container}, resource: {name}, divisor: '{divisor}'}}"));
            assert_eq!(resource(&pod, &reference, &node).as_deref(), Ok(value), "{container} {name}");
        }
        let said = |text: &str| resource(&pod, &parse(text), &node).unwrap_err();
        assert_eq!(said("{containerName: gone, resource: limits.cpu}"), "container gone not found");
        assert_eq!(
            said("{containerName: main, resource: limits.gpu}"),
            "unsupported container resource : limits.gpu"
        );
    }
}
