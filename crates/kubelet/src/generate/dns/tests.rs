use super::*;
use crate::generate::testing::{config, pod, resolv};

fn dns(spec: &str, config: &Config, resolv: &Resolv) -> (cri::DNSConfig, Vec<Event>) {
    dns_config(&pod(spec), &NodeView::new(config, resolv))
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn resolv_conf_is_read_as_resolvers_do() {
    let read = |text: &str| {
        Resolv::parse(text).map(|r| (r.servers.join(" "), r.searches.join(" "), r.options.join(" ")))
    };
    let of = |servers: &str, searches: &str, options: &str| {
        Ok((servers.to_owned(), searches.to_owned(), options.to_owned()))
    };
    for (text, expected) in [
        ("", of("", "", "")),
        ("#comment", of("", "", "")),
        ("nameserver 1.2.3.4", of("1.2.3.4", "", "")),
        (" \tnameserver\t1.2.3.4\n\nnameserver 5.6.7.8 more", of("1.2.3.4 5.6.7.8", "", "")),
        ("search ", of("", "", "")),
        ("search .", of("", "", "")),
        ("search a.com. b.com", of("", "a.com b.com", "")),
        ("search foo\nsearch bar", of("", "bar", "")),
        ("options ndots:5 attempts:2", of("", "", "ndots:5 attempts:2")),
        ("options ndots:1\noptions ndots:5 attempts:3", of("", "", "ndots:5 attempts:3")),
        ("domain example.com", of("", "", "")),
        ("nameserver", Err("nameserver list is empty ".to_owned())),
    ] {
        assert_eq!(read(text), expected, "{text}");
    }
}

#[test]
fn the_policy_says_whose_servers() {
    let (config, resolv) = (config(), resolv());
    let cluster =
        ("10.96.0.10", "shop.svc.cluster.local svc.cluster.local cluster.local example.com", "ndots:5");
    let host = ("192.0.2.1", "example.com", "edns0");
    for (spec, (servers, searches, options)) in [
        (r#"{"dnsPolicy":"ClusterFirst"}"#, cluster),
        (r#"{"dnsPolicy":"ClusterFirstWithHostNet","hostNetwork":true}"#, cluster),
        (r#"{"dnsPolicy":"ClusterFirst","hostNetwork":true}"#, host),
        (r#"{"dnsPolicy":"Default"}"#, host),
        (r#"{"dnsPolicy":"None"}"#, ("", "", "")),
        (
            r#"{"dnsPolicy":"None","dnsConfig":{"nameservers":["1.1.1.1"],"searches":["x"]}}"#,
            ("1.1.1.1", "x", ""),
        ),
        (
            r#"{"dnsPolicy":"Default","dnsConfig":{"nameservers":["192.0.2.1","1.1.1.1"],"searches":["example.com"],
                "options":[{"name":"ndots","value":"2"},{"name":"edns0"},{"name":"single-request"}]}}"#,
            ("192.0.2.1 1.1.1.1", "example.com", "edns0 ndots:2 single-request"),
        ),
        (
            r#"{"dnsPolicy":"ClusterFirst","dnsConfig":{"options":[{"name":"ndots","value":"3"}]}}"#,
            (cluster.0, cluster.1, "ndots:3"),
        ),
    ] {
        let (config, events) = dns(spec, &config, &resolv);
        assert_eq!(config.servers, words(servers), "{spec}");
        assert_eq!(config.searches, words(searches), "{spec}");
        assert_eq!(config.options, words(options), "{spec}");
        assert_eq!(events, [], "{spec}");
    }
}

#[test]
fn without_cluster_dns_the_nodes_is_used_and_that_is_said() {
    let (mut config, resolv) = (config(), resolv());
    config.cluster_dns.clear();
    let (dns, events) = dns(r#"{"dnsPolicy":"ClusterFirst"}"#, &config, &resolv);
    assert_eq!(dns.servers, ["192.0.2.1"]);
    let said = "kubelet does not have ClusterDNS IP configured and cannot create Pod using \"ClusterFirst\" policy. \
                Falling back to \"Default\" policy.";
    assert_eq!(
        events,
        [
            Event::warning(About::Node, "MissingClusterDNS", said.to_owned()),
            Event::warning(About::Pod, "MissingClusterDNS", format!("pod: \"web_shop(1234)\". {said}")),
        ]
    );
}

#[test]
fn no_file_configured_means_no_names() {
    let (mut config, resolv) = (config(), Resolv::default());
    config.resolv_conf = std::path::PathBuf::new();
    let ips = ["10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()];
    let node = NodeView { host_ips: &ips, ..NodeView::new(&config, &resolv) };
    let (dns, _) = dns_config(&pod(r#"{"dnsPolicy":"Default"}"#), &node);
    assert_eq!((dns.servers, dns.searches), (words("127.0.0.1 ::1"), words(".")));
}

#[test]
fn too_much_is_cut_and_told() {
    let config = config();
    let many = Resolv { servers: words("1 2 3 4"), ..Resolv::default() };
    let (dns, events) = dns(r#"{"dnsPolicy":"Default"}"#, &config, &many);
    assert_eq!(dns.servers, words("1 2 3"));
    let said = "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: 1 2 3";
    assert_eq!(events, [Event::warning(About::Pod, "DNSConfigForming", said.to_owned())]);

    let applied = |searches: Vec<String>| {
        let resolv = Resolv { searches, ..Resolv::default() };
        let (dns, events) =
            super::dns_config(&pod(r#"{"dnsPolicy":"Default"}"#), &NodeView::new(&config, &resolv));
        (dns.searches, events.into_iter().map(|event| event.message).collect::<Vec<_>>())
    };
    let said =
        "Search Line limits were exceeded, some search paths have been omitted, the applied search line is: ";
    let forty: Vec<String> = (0..40).map(|i| format!("d{i}")).collect();
    assert_eq!(
        applied(forty.clone()),
        (forty[..32].to_vec(), vec![format!("{said}{}", forty[..32].join(" "))])
    );
    assert_eq!(applied(vec!["a".repeat(254), "b".to_owned()]), (words("b"), vec![format!("{said}b")]));
    let long: Vec<String> = (0..10).map(|i| format!("{i}{}", "x".repeat(249))).collect();
    assert_eq!(applied(long.clone()).0, long[..8]);
    assert_eq!(applied(words("a b")), (words("a b"), vec![]));
}

#[test]
fn the_machines_own_file_is_judged() {
    let config = config();
    let event = |searches: Vec<String>| {
        resolv_conf_event(&config, &Ok(Resolv { searches, ..Resolv::default() })).map(|event| event.message)
    };
    let many: Vec<String> = (0..30).map(|i| format!("d{i}")).collect();
    assert_eq!(event(many[..29].to_vec()), None);
    let said = "Resolv.conf file '/etc/resolv.conf' contains search line consisting of more than 29 domains!";
    assert_eq!(event(many).as_deref(), Some(said));
    let said = "Resolv.conf file \"/etc/resolv.conf\" contains a search path which length is more than allowed 253 chars!";
    assert_eq!(event(vec!["a".repeat(254)]).as_deref(), Some(said));
    let said = "Resolv.conf file '/etc/resolv.conf' contains search line which length is more than allowed 2048 chars!";
    assert_eq!(event((0..9).map(|_| "a".repeat(250)).collect()).as_deref(), Some(said));
    let missing = Err("open /etc/resolv.conf: no such file or directory".to_owned());
    let event = resolv_conf_event(&config, &missing).unwrap();
    assert_eq!((event.about, event.reason), (About::Node, "CheckLimitsForResolvConf"));
    assert_eq!(event.message, "open /etc/resolv.conf: no such file or directory");
}
