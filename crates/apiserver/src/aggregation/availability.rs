//! Whether another server can be asked: what its Service and endpoints say, and the condition that tells it.

use object::{Map, Value, quote, time};

use super::routes::{ServiceKey, available_condition};

/// The condition `Available`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Available {
    pub status: bool,
    pub reason: &'static str,
    pub message: String,
}

impl Available {
    pub fn local() -> Available {
        let message = "Local APIServices are always available".to_owned();
        Available { status: true, reason: "Local", message }
    }

    pub fn passed() -> Available {
        Available { status: true, reason: "Passed", message: "all checks passed".to_owned() }
    }

    pub fn failed_discovery(why: String) -> Available {
        Available { status: false, reason: "FailedDiscoveryCheck", message: why }
    }
}

/// What is wrong before anybody is asked.
pub(crate) fn check_service(
    key: &ServiceKey,
    service: Option<&Value>,
    slices: &[Value],
) -> Result<(), Available> {
    let ServiceKey { namespace, name, port } = key;
    let namespace = quote(namespace);
    let missing = |reason, message| Err(Available { status: false, reason, message });
    let Some(service) = service else {
        return missing("ServiceNotFound", format!("service/{name} in {namespace} is not present"));
    };
    // Of others nothing is known here.
    if service.str_at(&["spec", "type"]).unwrap_or("ClusterIP") != "ClusterIP" {
        return Ok(());
    }
    let ports = service.at(&["spec", "ports"]).and_then(Value::as_list).unwrap_or_default();
    let found = ports.iter().find(|p| p.get("port").and_then(Value::as_int) == Some(i64::from(*port)));
    let Some(found) = found else {
        let message = format!("service/{name} in {namespace} is not listening on port {port}");
        return missing("ServicePortError", message);
    };
    if slices.is_empty() {
        let message = format!("cannot find endpointslices for service/{name} in {namespace}");
        return missing("EndpointsNotFound", message);
    }
    let port_name = found.str_at(&["name"]).unwrap_or("");
    if !slices.iter().any(|slice| has_ready_endpoint(slice, port_name)) {
        let message = format!(
            "endpointslices for service/{name} in {namespace} have no addresses with port name {}",
            quote(port_name)
        );
        return missing("MissingEndpoints", message);
    }
    Ok(())
}

fn has_ready_endpoint(slice: &Value, port_name: &str) -> bool {
    let list = |name: &str| slice.get(name).and_then(Value::as_list).unwrap_or_default();
    let ready = |e: &Value| e.at(&["conditions", "ready"]).and_then(Value::as_bool).unwrap_or(true);
    let listens = |p: &Value| {
        p.str_at(&["name"]).unwrap_or("") == port_name && p.get("port").is_some_and(|n| !n.is_null())
    };
    list("endpoints").iter().any(ready) && list("ports").iter().any(listens)
}

/// The status with this condition; None: it is so already.
pub(crate) fn with_condition(object: &Value, now: &Available, seconds: i64) -> Option<Value> {
    let status = if now.status { "True" } else { "False" };
    let old = available_condition(object);
    let text = |name: &str| old.and_then(|old| old.str_at(&[name])).unwrap_or("");
    if text("status") == status && text("reason") == now.reason && text("message") == now.message {
        return None;
    }
    let mut condition = Map::default();
    condition.set("type", "Available");
    condition.set("status", status);
    let since = match text("status") == status && !text("lastTransitionTime").is_empty() {
        true => text("lastTransitionTime").to_owned(),
        false => time::format_seconds(seconds),
    };
    condition.set("lastTransitionTime", since);
    condition.set("reason", now.reason);
    condition.set("message", now.message.clone());
    let conditions = object.at(&["status", "conditions"]).and_then(Value::as_list).unwrap_or_default();
    let mut conditions = conditions.to_vec();
    match conditions.iter_mut().find(|c| c.str_at(&["type"]) == Some("Available")) {
        Some(old) => *old = Value::Map(condition),
        None => conditions.push(Value::Map(condition)),
    }
    let mut revised = object.clone();
    revised.map_at(&["status"]).set("conditions", conditions);
    Some(revised)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Value {
        codec::json::parse(text.as_bytes(), None).unwrap()
    }

    fn reason(service: Option<&str>, slices: &[&str]) -> String {
        let key = ServiceKey { namespace: "ns".into(), name: "api".into(), port: 443 };
        let slices: Vec<Value> = slices.iter().map(|slice| parse(slice)).collect();
        match check_service(&key, service.map(parse).as_ref(), &slices) {
            Ok(()) => "ok".to_owned(),
            Err(why) => format!("{}: {}", why.reason, why.message),
        }
    }

    #[test]
    fn reasons_and_messages_are_upstreams() {
        let service = r#"{"spec":{"type":"ClusterIP","ports":[{"port":443,"name":"https"}]}}"#;
        let slice = r#"{"ports":[{"name":"https","port":6443}],"endpoints":[{"addresses":["10.0.0.1"]}]}"#;
        let unready =
            r#"{"ports":[{"name":"https","port":6443}],"endpoints":[{"conditions":{"ready":false}}]}"#;
        let other = r#"{"ports":[{"name":"","port":6443}],"endpoints":[{"conditions":{"ready":true}}]}"#;
        let no_addresses = "MissingEndpoints: endpointslices for service/api in \"ns\" have no addresses with port name \"https\"";
        let cases: [(Option<&str>, &[&str], &str); 8] = [
            (None, &[], "ServiceNotFound: service/api in \"ns\" is not present"),
            (
                Some(r#"{"spec":{"type":"ClusterIP","ports":[{"port":80}]}}"#),
                &[],
                "ServicePortError: service/api in \"ns\" is not listening on port 443",
            ),
            (Some(service), &[], "EndpointsNotFound: cannot find endpointslices for service/api in \"ns\""),
            (Some(service), &[unready], no_addresses),
            (Some(service), &[other], no_addresses),
            (Some(service), &[unready, slice], "ok"),
            (Some(r#"{"spec":{"type":"ExternalName","externalName":"x"}}"#), &[], "ok"),
            (Some(r#"{"spec":{"type":"NodePort","ports":[]}}"#), &[], "ok"),
        ];
        for (service, slices, expected) in cases {
            assert_eq!(reason(service, slices), expected);
        }
    }

    #[test]
    fn a_transition_is_a_change_of_the_status() {
        let object = parse(r#"{"metadata":{"name":"v1.x.io"}}"#);
        let failed = Available::failed_discovery("a".to_owned());
        let first = with_condition(&object, &failed, 10).unwrap();
        assert!(with_condition(&first, &failed, 20).is_none());
        let since = |object: &Value| {
            available_condition(object).and_then(|c| c.str_at(&["lastTransitionTime"])).unwrap().to_owned()
        };
        let second = with_condition(&first, &Available::failed_discovery("b".to_owned()), 20).unwrap();
        assert_eq!(since(&first), since(&second));
        let third = with_condition(&second, &Available::passed(), 30).unwrap();
        assert_eq!(since(&third), "1970-01-01T00:00:30Z");
    }
}
