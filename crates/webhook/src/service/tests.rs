//! Which endpoints a Service has.

use super::*;

fn value(json: &str) -> Value {
    codec::json::parse(json.as_bytes(), None).unwrap()
}

fn resolve(service: Option<&str>, slices: &[&str], port: u16) -> Result<Vec<String>, String> {
    let service = service.map(value);
    let slices: Vec<Value> = slices.iter().map(|slice| value(slice)).collect();
    let slices: Vec<&Value> = slices.iter().collect();
    let found = endpoints("web", port, service.as_ref(), &slices).map_err(|error| error.to_string())?;
    Ok(found.iter().map(HostPort::to_string).collect())
}

const SERVICE: &str = r#"{"spec":{"type":"ClusterIP","ipFamilies":["IPv4","IPv6"],
    "ports":[{"name":"http","port":80},{"name":"https","port":443}]}}"#;

#[test]
fn ready_endpoints_are_found_by_the_name_of_the_port() {
    let one = r#"{"addressType":"IPv4","ports":[{"name":"http","port":8080},{"name":"https","port":8443}],"endpoints":[
        {"addresses":["10.0.0.1"],"conditions":{"ready":true}},
        {"addresses":["10.0.0.2"],"conditions":{"ready":false}},
        {"addresses":["10.0.0.3"]}]}"#;
    let other_port = r#"{"addressType":"IPv4","ports":[{"name":"https","port":9443}],"endpoints":[{"addresses":["10.0.0.4"]}]}"#;
    let found = resolve(Some(SERVICE), &[one, other_port], 443).unwrap();
    assert_eq!(found, ["10.0.0.1:8443", "10.0.0.3:8443", "10.0.0.4:9443"]);
    assert_eq!(resolve(Some(SERVICE), &[one, other_port], 80).unwrap(), ["10.0.0.1:8080", "10.0.0.3:8080"]);
}

#[test]
fn the_first_family_comes_first() {
    let six = r#"{"addressType":"IPv6","ports":[{"name":"https","port":1}],"endpoints":[{"addresses":["fd00::1"]}]}"#;
    let four = r#"{"addressType":"IPv4","ports":[{"name":"https","port":1}],"endpoints":[{"addresses":["10.0.0.1"]}]}"#;
    let none = r#"{"addressType":"IPv4","ports":[{"name":"https","port":1}],"endpoints":[]}"#;
    assert_eq!(resolve(Some(SERVICE), &[six, four], 443).unwrap(), ["10.0.0.1:1"]);
    assert_eq!(resolve(Some(SERVICE), &[six, none], 443).unwrap(), ["[fd00::1]:1"]);
}

#[test]
fn a_service_that_leads_nowhere_says_why() {
    let refused = |service, slices: &[&str], port| resolve(service, slices, port).unwrap_err();
    let no_port = r#"{"ports":[{"name":"https"}],"endpoints":[{"addresses":["10.0.0.1"]}]}"#;
    let bad = r#"{"ports":[{"name":"https","port":70000}],"endpoints":[{"addresses":["10.0.0.1"]}]}"#;
    let no_address = r#"{"ports":[{"name":"https","port":1}],"endpoints":[{"addresses":[]},3]}"#;
    assert_eq!(refused(None, &[], 443), r#"service "web" not found"#);
    assert_eq!(refused(Some(SERVICE), &[], 8443), r#"no service port 8443 found for service "web""#);
    for slices in [&[][..], &[no_port], &[bad], &[no_address], &["{}"], &["3"]] {
        assert_eq!(refused(Some(SERVICE), slices, 443), r#"no endpoints available for service "web""#);
    }
    assert_eq!(refused(Some(r#"{"spec":{"type":"Odd"}}"#), &[], 443), r#"unsupported service type "Odd""#);
}

#[test]
fn an_unnamed_port_matches_an_unnamed_port() {
    let service = r#"{"spec":{"ports":[{"port":443}]}}"#;
    let slice = r#"{"ports":[{"name":"","port":1}],"endpoints":[{"addresses":["10.0.0.1"]}]}"#;
    assert_eq!(resolve(Some(service), &[slice], 443).unwrap(), ["10.0.0.1:1"]);
}

#[test]
fn an_external_name_is_followed() {
    let service = r#"{"spec":{"type":"ExternalName","externalName":"hooks.example.com"}}"#;
    assert_eq!(resolve(Some(service), &[], 8443).unwrap(), ["hooks.example.com:8443"]);
    let nameless = r#"{"spec":{"type":"ExternalName"}}"#;
    assert_eq!(resolve(Some(nameless), &[], 1).unwrap_err(), r#"no endpoints available for service "web""#);
}
