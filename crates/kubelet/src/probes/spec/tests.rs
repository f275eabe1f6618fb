use super::*;

fn container(json: &str) -> Value {
    codec::json::parse(json.as_bytes(), None).unwrap()
}

#[test]
fn a_probe_is_read_with_kubernetes_defaults() {
    let container = container(r#"{"livenessProbe":{"tcpSocket":{"port":80}}}"#);
    let probe = Probe::read(&container, Kind::Liveness).unwrap();
    assert_eq!(probe.timing.period, Duration::from_secs(10));
    assert_eq!((probe.timing.success_threshold, probe.timing.failure_threshold), (1, 3));
    assert_eq!(probe.timeout, Duration::from_secs(1));
    assert!(matches!(probe.handler, Handler::Tcp { host: None, port: Ok(80) }));
    assert!(Probe::read(&container, Kind::Readiness).is_none());
}

#[test]
fn numbers_nobody_would_write_are_bounded() {
    let container = container(
        r#"{"startupProbe":{"exec":{},"periodSeconds":0,"timeoutSeconds":-3,"initialDelaySeconds":9223372036854775807,
            "failureThreshold":9223372036854775807}}"#,
    );
    let probe = Probe::read(&container, Kind::Startup).unwrap();
    assert_eq!((probe.timing.period, probe.timeout), (Duration::from_secs(1), Duration::from_secs(1)));
    assert_eq!(probe.timing.initial_delay, Duration::from_secs(366 * 86_400));
    assert_eq!(probe.timing.failure_threshold, u32::MAX);
}

#[test]
fn ports_are_numbers_or_names_of_ports() {
    let container = container(r#"{"ports":[{"name":"web","containerPort":8080}]}"#);
    let port = |port: Value| resolve_port(Some(&port), &container);
    assert_eq!(port(Value::from(80)), Ok(80));
    assert_eq!(port("web".into()), Ok(8080));
    assert_eq!(port("81".into()), Ok(81));
    assert_eq!(port("nope".into()), Err(r#"strconv.Atoi: parsing "nope": invalid syntax"#.to_owned()));
    assert_eq!(port(Value::from(0)), Err("invalid port number: 0".to_owned()));
    assert_eq!(port(Value::from(65536)), Err("invalid port number: 65536".to_owned()));
}

#[test]
fn commands_see_plain_variables_only() {
    let container = container(
        r#"{"readinessProbe":{"exec":{"command":["$(A)","$$(A)","$(MISSING)","$(FROM)|","$(A","$x$"]}},
            "env":[{"name":"A","value":"0"},{"name":"A","value":"1"},{"name":"FROM","valueFrom":{}}]}"#,
    );
    let Some(Probe { handler: Handler::Exec(command), .. }) = Probe::read(&container, Kind::Readiness) else {
        panic!("an exec probe")
    };
    assert_eq!(command, ["1", "$(A)", "$(MISSING)", "|", "$(A", "$x$"]);
}

#[test]
fn what_was_known_is_in_the_status() {
    let pod = container(
        r#"{"status":{"conditions":[{"type":"Ready","status":"True"}],
            "containerStatuses":[{"name":"c","containerID":"containerd://abc","started":true}]}}"#,
    );
    assert_eq!(before(&pod, "c", "abc"), Before { started: true, ready: true });
    assert!(!before(&pod, "c", "other").started);
    assert_eq!(before(&Value::map(), "c", "abc"), Before { started: false, ready: false });
}
