use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use object::Value;

use super::plan::{self, Decision, Others, addresses_in, approved, asking_node, known_as};

/// A request by `user` for a certificate of `common_name` with these names.
fn csr(user: &str, common_name: &str, names: &[&str]) -> Value {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let request =
        auth::pki::new_request(common_name, &["system:nodes".to_owned()], &names).expect("a request").1;
    let text = format!(
        "{{spec: {{username: '{user}', groups: ['system:nodes', 'system:authenticated'], signerName: kubernetes.io/kubelet-serving, \
         usages: [server auth, digital signature], request: {}}}}}",
        STANDARD.encode(request)
    );
    runtime::parse(&text).expect("a request")
}

fn node() -> Value {
    let text = "{status: {addresses: [{type: InternalIP, address: 10.0.0.7}, {type: InternalIP, address: 'fd00::7'}, \
                {type: Hostname, address: Worker-1}]}}";
    runtime::parse(text).expect("a node")
}

/// Nobody else is known.
fn decide(csr: &Value, node: Option<&Value>) -> Decision {
    plan::decide(
        csr,
        node,
        &Others {
            taken: &|_| false,
            control_plane: &[],
            control_plane_machines: &[],
            control_plane_names: &[],
        },
    )
}

const USER: &str = "system:node:worker-1";

fn why(csr: &Value, node: Option<&Value>) -> String {
    match decide(csr, node) {
        Decision::Approve => "approved".to_owned(),
        Decision::Leave(why) => why,
    }
}

#[test]
fn a_certificate_for_the_nodes_own_names_is_approved() {
    for names in [&["10.0.0.7"][..], &["worker-1"], &["fd00::7", "10.0.0.7", "WORKER-1"]] {
        assert_eq!(decide(&csr(USER, USER, names), Some(&node())), Decision::Approve, "{names:?}");
    }
    let said = approved(&csr(USER, USER, &["worker-1"]));
    let conditions = said.at(&["status", "conditions"]).and_then(Value::as_list).expect("conditions");
    assert_eq!(conditions[0].str_at(&["reason"]), Some("AutoApproved"));
}

#[test]
fn any_other_name_is_left_undecided() {
    let node = node();
    assert_eq!(
        why(&csr(USER, USER, &["10.0.0.7", "10.0.0.8"]), Some(&node)),
        "10.0.0.8 is not an address of the Node"
    );
    assert_eq!(
        why(&csr(USER, USER, &["worker-1", "kubernetes"]), Some(&node)),
        "kubernetes is not a name of the Node"
    );
    assert_eq!(why(&csr(USER, USER, &["worker-1"]), None), "the Node does not exist");
    assert_eq!(why(&csr(USER, USER, &[]), Some(&node)), "DNS or IP subjectAltName is required");
    let other = csr(USER, "system:node:worker-2", &["worker-1"]);
    assert_eq!(
        why(&other, Some(&node)),
        "system:node:worker-1 asks for a certificate of system:node:worker-2"
    );
}

#[test]
fn only_who_authenticates_as_a_node_is_one() {
    let mut stranger = csr(USER, USER, &["worker-1"]);
    stranger.map_at(&["spec"]).set("groups", Value::List(vec!["system:authenticated".into()]));
    assert_eq!(why(&stranger, Some(&node())), "system:node:worker-1 is not in system:nodes");
    assert_eq!(asking_node(&csr("jane", USER, &["worker-1"])), None);
    assert_eq!(asking_node(&csr("system:node:", USER, &["worker-1"])), None);
}

#[test]
fn what_is_decided_or_anothers_signers_is_left_alone() {
    let request = csr(USER, USER, &["worker-1"]);
    assert_eq!(asking_node(&request).as_deref(), Some("worker-1"));
    assert_eq!(asking_node(&approved(&request)), None);
    let mut client = request.clone();
    client.map_at(&["spec"]).set("signerName", "kubernetes.io/kube-apiserver-client-kubelet");
    assert_eq!(asking_node(&client), None);
}

#[test]
fn what_cannot_be_read_is_never_approved() {
    let mut broken = csr(USER, USER, &["worker-1"]);
    broken.map_at(&["spec"]).set("request", "AAAA");
    assert_ne!(decide(&broken, Some(&node())), Decision::Approve);
    let mut client = csr(USER, USER, &["worker-1"]);
    client.map_at(&["spec"]).set("usages", Value::List(vec!["client auth".into()]));
    assert_eq!(
        why(&client, Some(&node())),
        "usages did not match [digital signature key encipherment server auth]"
    );
}

#[test]
fn what_may_be_anothers_must_be_where_the_request_came_from() {
    let node = node();
    let server = "10.0.0.7".parse().expect("an address");
    let taken = |what: &str| matches!(what, "fd00::7" | "worker-1");
    let others = Others {
        taken: &taken,
        control_plane: &[server],
        control_plane_machines: &[server],
        control_plane_names: &[],
    };
    let from = |source: &str, names: &[&str]| {
        let mut csr = csr(USER, USER, names);
        if !source.is_empty() {
            let sources = Value::List(vec![source.into()]);
            csr.map_at(&["spec", "extra"]).set("setpoint.dev/source-address", sources);
        }
        match plan::decide(&csr, Some(&node), &others) {
            Decision::Approve => "approved".to_owned(),
            Decision::Leave(why) => why,
        }
    };
    let not_from_there = ", and the request did not come from there";
    assert_eq!(from("", &["10.0.0.7"]), format!("10.0.0.7 is the API server's{not_from_there}"));
    assert_eq!(from("10.0.0.9", &["fd00::7"]), format!("fd00::7 may be another's{not_from_there}"));
    let near = [("in-process", "10.0.0.7"), ("127.0.0.1", "10.0.0.7"), ("::1", "fd00::7")];
    for (source, name) in [("10.0.0.7", "10.0.0.7"), ("fd00::7", "fd00::7")].into_iter().chain(near) {
        assert_eq!(from(source, &[name]), "approved", "{name} from {source}");
    }
    assert_eq!(from("", &["worker-1"]), "approved", "its own name is proved by its certificate");

    let claims = |address: &str, kind: &str| {
        let text = format!("{{status: {{addresses: [{{type: {kind}, address: '{address}'}}]}}}}");
        let node = runtime::parse(&text).expect("a node");
        let others = Others {
            taken: &|_| false,
            control_plane: &[],
            control_plane_machines: &[],
            control_plane_names: &[],
        };
        plan::decide(&csr(USER, USER, &[address]), Some(&node), &others)
    };
    for name in ["kubernetes", "web.default.svc", "localhost", "worker-2", "worker.example.com"] {
        assert!(matches!(claims(name, "InternalDNS"), Decision::Leave(_)), "{name}");
    }
    assert!(matches!(claims("127.0.0.1", "InternalIP"), Decision::Leave(_)));
}

#[test]
fn a_node_that_is_called_like_the_api_server_gets_that_name_only_on_its_machine() {
    let names = ["API.example.com", "10.0.0.1", "fd00::1", "api-host", "*.Prod.example.com"]
        .map(str::to_ascii_lowercase);
    let (addresses, names) = plan::addresses_and_names(names.into_iter());
    assert_eq!((addresses.len(), names.len()), (2, 3));
    let machine = addresses[0];
    let others = Others {
        taken: &|_| false,
        control_plane: &addresses,
        control_plane_machines: &[machine],
        control_plane_names: &names,
    };
    let decide = |name: &str, source: &str| {
        let user = format!("system:node:{name}");
        let node = format!("{{status: {{addresses: [{{type: Hostname, address: {name}}}]}}}}");
        let mut csr = csr(&user, &user, &[name]);
        let sources = Value::List(vec![source.into()]);
        csr.map_at(&["spec", "extra"]).set("setpoint.dev/source-address", sources);
        plan::decide(&csr, Some(&runtime::parse(&node).expect("a node")), &others)
    };
    for name in ["api.example.com", "api-host", "web.prod.example.com"] {
        let refused = Decision::Leave(format!("{name} is the API server's name"));
        // The certificate's other address may be a load balancer's.
        for source in ["10.0.0.9", "fd00::1"] {
            assert_eq!(decide(name, source), refused, "{name} from {source}");
        }
        for source in ["10.0.0.1", "127.0.0.1", "in-process"] {
            assert_eq!(decide(name, source), Decision::Approve, "{name} from {source}");
        }
    }
    for name in ["kubernetes", "kubernetes.default.svc", "localhost"] {
        let refused = Decision::Leave(format!("{name} is the API server's name"));
        assert_eq!(decide(name, "127.0.0.1"), refused);
    }
    for name in ["worker-2", "prod.example.com", "a.web.prod.example.com", "webprod.example.com"] {
        assert_eq!(decide(name, "10.0.0.9"), Decision::Approve, "{name}");
    }
}

#[test]
fn a_node_is_known_by_its_name_and_all_it_says() {
    let mut node = node();
    node.map_at(&["metadata"]).set("name", "worker-1");
    assert_eq!(known_as(&node), ["10.0.0.7", "fd00::7", "worker-1"]);
    let service = runtime::parse("{spec: {clusterIPs: [10.96.0.1]}}").expect("a service");
    let endpoints =
        runtime::parse("{subsets: [{addresses: [{ip: 10.0.0.1}, {ip: 'fd00::1'}]}]}").expect("endpoints");
    assert_eq!(addresses_in(&service), ["10.96.0.1".parse::<std::net::IpAddr>().expect("an address")]);
    assert_eq!(addresses_in(&endpoints).len(), 2);
}
