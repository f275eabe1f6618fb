//! The `resolv.conf` of pods, by their DNS policy.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use object::Value;

use crate::config::Config;
use crate::generate::NodeView;
use crate::generate::error::{About, Event};
use crate::generate::read::{described, flag, list, present, strings, text};

const MAX_SERVERS: usize = 3;
const MAX_SEARCHES: usize = 32;
const MAX_SEARCH_CHARS: usize = 2048;
const MAX_DOMAIN_CHARS: usize = 253;
/// More of a file is not looked at.
const MAX_RESOLV_CONF: u64 = 10 << 20;

/// What a `resolv.conf` says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resolv {
    pub servers: Vec<String>,
    pub searches: Vec<String>,
    pub options: Vec<String>,
}

/// Nobody is asked.
pub static NO_RESOLV: Resolv = Resolv { servers: Vec::new(), searches: Vec::new(), options: Vec::new() };

impl Resolv {
    /// The machine's own file, as it is now; without a path there is none.
    pub fn read(path: &Path) -> Result<Resolv, String> {
        if path.as_os_str().is_empty() {
            return Ok(Resolv::default());
        }
        let failed = |doing: &str| {
            let path = path.display().to_string();
            let doing = doing.to_owned();
            move |error: io::Error| format!("{doing} {path}: {}", in_go(&error))
        };
        let mut bytes = Vec::new();
        let file = File::open(path).map_err(failed("open"))?;
        file.take(MAX_RESOLV_CONF).read_to_end(&mut bytes).map_err(failed("read"))?;
        Resolv::parse(&String::from_utf8_lossy(&bytes))
    }

    /// Servers add up; of search lines the last one counts, and of each option the last setting.
    pub fn parse(text: &str) -> Result<Resolv, String> {
        let mut resolv = Resolv::default();
        let mut empty = false;
        for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
            let mut fields = line.split_whitespace();
            match fields.next() {
                Some("nameserver") => match fields.next() {
                    Some(server) => resolv.servers.push(server.to_owned()),
                    None => empty = true,
                },
                Some("search") => {
                    let domains = fields.filter(|domain| *domain != ".");
                    resolv.searches = domains.map(|d| d.strip_suffix('.').unwrap_or(d).to_owned()).collect();
                }
                Some("options") => resolv.options.extend(fields.map(str::to_owned)),
                _ => {}
            }
        }
        resolv.options = merged(resolv.options);
        if empty { Err("nameserver list is empty ".to_owned()) } else { Ok(resolv) }
    }
}

/// What a pod asks its names of, and what to tell about it.
pub fn dns_config(pod: &Value, node: &NodeView<'_>) -> (cri::DNSConfig, Vec<Event>) {
    let mut events = Vec::new();
    let config = node.config;
    let mut resolv = match source(pod, config, &mut events) {
        Source::Empty => Resolv::default(),
        Source::Cluster => Resolv {
            servers: config.cluster_dns.clone(),
            searches: cluster_searches(pod, config, &node.node_resolv.searches),
            options: vec!["ndots:5".to_owned()],
        },
        Source::Host if config.resolv_conf.as_os_str().is_empty() => nowhere(node),
        Source::Host => node.node_resolv.clone(),
    };
    if let Some(own) = present(pod, &["spec", "dnsConfig"]) {
        resolv.servers.extend(strings(own, &["nameservers"]));
        resolv.searches.extend(strings(own, &["searches"]));
        (resolv.servers, resolv.searches) = (unique(resolv.servers), unique(resolv.searches));
        let option = |option: &Value| match (text(option, &["name"]), text(option, &["value"])) {
            (name, "") => name.to_owned(),
            (name, value) => format!("{name}:{value}"),
        };
        resolv.options = merged(resolv.options.into_iter().chain(list(own, &["options"]).iter().map(option)));
    }
    let servers = fitting_servers(resolv.servers, &mut events);
    let searches = fitting_searches(resolv.searches, &mut events);
    (cri::DNSConfig { servers, searches, options: resolv.options }, events)
}

/// An error of the kernel in Go's words: without its number.
fn in_go(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or("");
    let mut letters = text.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}

/// What is wrong with the machine's own file, told once when the agent starts. `read` is what came of reading it.
pub fn resolv_conf_event(config: &Config, read: &Result<Resolv, String>) -> Option<Event> {
    let path = config.resolv_conf.display();
    let message = match read {
        Err(error) => error.clone(),
        Ok(resolv) => {
            let most = if config.cluster_domain.is_empty() { MAX_SEARCHES } else { MAX_SEARCHES - 3 };
            if resolv.searches.len() > most {
                format!(
                    "Resolv.conf file '{path}' contains search line consisting of more than {most} domains!"
                )
            } else if resolv.searches.iter().any(|domain| domain.len() > MAX_DOMAIN_CHARS) {
                format!(
                    "Resolv.conf file {} contains a search path which length is more than allowed {MAX_DOMAIN_CHARS} chars!",
                    object::quote(&path.to_string())
                )
            } else if line_chars(&resolv.searches) > MAX_SEARCH_CHARS {
                format!(
                    "Resolv.conf file '{path}' contains search line which length is more than allowed {MAX_SEARCH_CHARS} chars!"
                )
            } else {
                return None;
            }
        }
    };
    Some(Event::warning(About::Node, "CheckLimitsForResolvConf", message))
}

enum Source {
    Empty,
    Cluster,
    Host,
}

fn source(pod: &Value, config: &Config, events: &mut Vec<Event>) -> Source {
    let host_network = flag(pod, &["spec", "hostNetwork"]).unwrap_or(false);
    match text(pod, &["spec", "dnsPolicy"]) {
        "None" => return Source::Empty,
        "Default" => return Source::Host,
        "ClusterFirst" if host_network => return Source::Host,
        // ClusterFirstWithHostNet as well, and what nobody knows.
        _ => {}
    }
    if !config.cluster_dns.is_empty() {
        return Source::Cluster;
    }
    let message = "kubelet does not have ClusterDNS IP configured and cannot create Pod using \"ClusterFirst\" policy. \
                   Falling back to \"Default\" policy.";
    events.push(Event::warning(About::Node, "MissingClusterDNS", message.to_owned()));
    let of_pod = format!("pod: {}. {message}", object::quote(&described(pod)));
    events.push(Event::warning(About::Pod, "MissingClusterDNS", of_pod));
    Source::Host
}

fn cluster_searches(pod: &Value, config: &Config, host: &[String]) -> Vec<String> {
    let domain = &config.cluster_domain;
    if domain.is_empty() {
        return host.to_vec();
    }
    let namespace = text(pod, &["metadata", "namespace"]);
    let own = [format!("{namespace}.svc.{domain}"), format!("svc.{domain}"), domain.clone()];
    unique(own.into_iter().chain(host.iter().cloned()))
}

/// No file is configured: nothing is found, by asking where nobody answers.
fn nowhere(node: &NodeView<'_>) -> Resolv {
    let loopback = |ip: &std::net::IpAddr| if ip.is_ipv6() { "::1" } else { "127.0.0.1" };
    let mut servers: Vec<String> = node.host_ips.iter().map(|ip| loopback(ip).to_owned()).collect();
    if servers.is_empty() {
        servers.push("127.0.0.1".to_owned());
    }
    Resolv { servers, searches: vec![".".to_owned()], options: Vec::new() }
}

fn fitting_servers(mut servers: Vec<String>, events: &mut Vec<Event>) -> Vec<String> {
    if servers.len() > MAX_SERVERS {
        servers.truncate(MAX_SERVERS);
        let message = format!(
            "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: {}",
            servers.join(" ")
        );
        events.push(Event::warning(About::Pod, "DNSConfigForming", message));
    }
    servers
}

fn fitting_searches(searches: Vec<String>, events: &mut Vec<Event>) -> Vec<String> {
    let before = searches.len();
    let mut fitting = searches;
    fitting.truncate(MAX_SEARCHES);
    // Some resolvers abort on a longer one.
    fitting.retain(|domain| domain.len() <= MAX_DOMAIN_CHARS);
    while line_chars(&fitting) > MAX_SEARCH_CHARS {
        fitting.pop();
    }
    if fitting.len() < before {
        let message = format!(
            "Search Line limits were exceeded, some search paths have been omitted, the applied search line is: {}",
            fitting.join(" ")
        );
        events.push(Event::warning(About::Pod, "DNSConfigForming", message));
    }
    fitting
}

fn line_chars(words: &[String]) -> usize {
    words.iter().map(|word| word.len() + 1).sum::<usize>().saturating_sub(1)
}

fn unique(words: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    words.into_iter().filter(|word| seen.insert(word.clone())).collect()
}

/// An option is known by what stands before its colon; the last setting counts, at the place of the first.
fn merged(options: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut places = BTreeMap::new();
    let mut all: Vec<String> = Vec::new();
    for option in options {
        let name = option.split(':').next().unwrap_or("").to_owned();
        match places.entry(name) {
            Entry::Occupied(place) => all[*place.get()] = option,
            Entry::Vacant(place) => {
                place.insert(all.len());
                all.push(option);
            }
        }
    }
    all
}

#[cfg(test)]
mod tests;
