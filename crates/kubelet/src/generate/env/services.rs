//! Variables that say where the Services are.

use std::collections::BTreeMap;

use object::Value;

use crate::generate::ContainerInputs;
use crate::generate::read::{flag, int, list, text};

/// The Service of the API server, which every pod is told of.
const MASTER: (&str, &str) = ("default", "kubernetes");

/// Of the pod's namespace, if it wants that, and always of the API server; its own `kubernetes` goes before that.
pub(super) fn of_pod(inputs: &ContainerInputs<'_>) -> Result<BTreeMap<String, String>, String> {
    let namespace = text(inputs.pod, &["metadata", "namespace"]);
    let links = flag(inputs.pod, &["spec", "enableServiceLinks"]);
    let links = links.unwrap_or(inputs.node.config.enable_service_links_default);
    let mut by_name = BTreeMap::new();
    for service in inputs.sources.services(MASTER.0)? {
        if text(&service, &["metadata", "name"]) == MASTER.1 && has_address(&service) {
            by_name.insert(MASTER.1.to_owned(), service);
        }
    }
    if links {
        for service in inputs.sources.services(namespace)? {
            if has_address(&service) {
                by_name.insert(text(&service, &["metadata", "name"]).to_owned(), service);
            }
        }
    }
    Ok(by_name.values().flat_map(|service| service_variables(service)).collect())
}

/// Those of one Service; none without an address.
pub fn service_variables(service: &Value) -> Vec<(String, String)> {
    let ports = list(service, &["spec", "ports"]);
    let (true, Some(first)) = (has_address(service), ports.first()) else { return Vec::new() };
    let ip = text(service, &["spec", "clusterIP"]);
    let number = |port: &Value| int(port, &["port"]).unwrap_or(0);
    let prefix = variable_name(text(service, &["metadata", "name"]));
    let mut all = vec![
        (format!("{prefix}_SERVICE_HOST"), ip.to_owned()),
        (format!("{prefix}_SERVICE_PORT"), number(first).to_string()),
    ];
    for port in ports {
        let name = text(port, &["name"]);
        if !name.is_empty() {
            all.push((format!("{prefix}_SERVICE_PORT_{}", variable_name(name)), number(port).to_string()));
        }
    }
    for (index, port) in ports.iter().enumerate() {
        let protocol = port.str_at(&["protocol"]).filter(|name| !name.is_empty()).unwrap_or("TCP");
        let (lower, upper) = (protocol.to_lowercase(), protocol.to_uppercase());
        let number = number(port);
        let host = if ip.contains(':') { format!("[{ip}]") } else { ip.to_owned() };
        let url = format!("{lower}://{host}:{number}");
        if index == 0 {
            all.push((format!("{prefix}_PORT"), url.clone()));
        }
        let of_port = format!("{prefix}_PORT_{number}_{upper}");
        all.extend([
            (of_port.clone(), url),
            (format!("{of_port}_PROTO"), lower),
            (format!("{of_port}_PORT"), number.to_string()),
            (format!("{of_port}_ADDR"), ip.to_owned()),
        ]);
    }
    all
}

fn has_address(service: &Value) -> bool {
    !matches!(text(service, &["spec", "clusterIP"]), "" | "None")
}

fn variable_name(name: &str) -> String {
    name.replace('-', "_").to_uppercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::testing::value;

    fn lines(json: &str) -> Vec<String> {
        service_variables(&value(json)).into_iter().map(|(name, value)| format!("{name}={value}")).collect()
    }

    #[test]
    fn a_service_is_told_in_both_old_forms() {
        let service = r#"{"metadata":{"name":"foo-bar"},"spec":{"clusterIP":"1.2.3.4","ports":[
            {"name":"u-d-p","port":8081,"protocol":"UDP"},{"port":8082}]}}"#;
        assert_eq!(
            lines(service),
            [
                "FOO_BAR_SERVICE_HOST=1.2.3.4",
                "FOO_BAR_SERVICE_PORT=8081",
                "FOO_BAR_SERVICE_PORT_U_D_P=8081",
                "FOO_BAR_PORT=udp://1.2.3.4:8081",
                "FOO_BAR_PORT_8081_UDP=udp://1.2.3.4:8081",
                "FOO_BAR_PORT_8081_UDP_PROTO=udp",
                "FOO_BAR_PORT_8081_UDP_PORT=8081",
                "FOO_BAR_PORT_8081_UDP_ADDR=1.2.3.4",
                "FOO_BAR_PORT_8082_TCP=tcp://1.2.3.4:8082",
                "FOO_BAR_PORT_8082_TCP_PROTO=tcp",
                "FOO_BAR_PORT_8082_TCP_PORT=8082",
                "FOO_BAR_PORT_8082_TCP_ADDR=1.2.3.4",
            ]
        );
        let six = r#"{"metadata":{"name":"q"},"spec":{"clusterIP":"2001:DB8::1","ports":[{"port":80,"protocol":"TCP"}]}}"#;
        assert_eq!(lines(six)[2], "Q_PORT=tcp://[2001:DB8::1]:80");
        assert_eq!(lines(six).last().unwrap(), "Q_PORT_80_TCP_ADDR=2001:DB8::1");
    }

    #[test]
    fn a_service_without_an_address_is_not_told() {
        for ip in ["None", ""] {
            let service = format!(
                r#"{{"metadata":{{"name":"x"}},"spec":{{"clusterIP":"{ip}","ports":[{{"port":1}}]}}}}"#
            );
            assert_eq!(lines(&service), [] as [&str; 0]);
        }
        assert_eq!(lines(r#"{"metadata":{"name":"x"},"spec":{"clusterIP":"1.2.3.4"}}"#), [] as [&str; 0]);
    }
}
