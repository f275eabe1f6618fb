//! What a pod is called, and its `/etc/hosts`.

use std::fmt::Write;

use object::{Value, validate_text};

use crate::config::Config;
use crate::generate::read::{flag, list, strings, text};

/// The kernel keeps 64 bytes, with the one that ends them.
const MAX_HOSTNAME: usize = 63;
const MAX_FQDN: usize = 64;

/// A pod's name in the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hostname {
    pub name: String,
    /// Empty: none.
    pub domain: String,
}

impl Hostname {
    pub fn of(pod: &Value, config: &Config) -> Result<Hostname, String> {
        let spec = |name: &str| text(pod, &["spec", name]);
        let pod_name = text(pod, &["metadata", "name"]);
        if let Some(name) = pod.str_at(&["spec", "hostnameOverride"]) {
            let problems = validate_text::dns1123_subdomain(name);
            if !problems.is_empty() {
                let quoted = object::quote(name);
                return Err(format!(
                    "pod HostnameOverride {quoted} is not a valid DNS subdomain: {}",
                    problems.join(";")
                ));
            }
            return Ok(Hostname { name: truncated(pod_name, name)?, domain: String::new() });
        }
        let mut name = pod_name;
        if !spec("hostname").is_empty() {
            name = check_label("Hostname", spec("hostname"))?;
        }
        let name = truncated(pod_name, name)?;
        let mut domain = String::new();
        if !spec("subdomain").is_empty() {
            let subdomain = check_label("Subdomain", spec("subdomain"))?;
            let namespace = text(pod, &["metadata", "namespace"]);
            domain = format!("{subdomain}.{namespace}.svc.{}", config.cluster_domain);
        }
        Ok(Hostname { name, domain })
    }

    /// What the kernel is told: the whole name, if the pod wants that.
    pub fn for_kernel(&self, pod: &Value) -> Result<String, String> {
        if self.domain.is_empty() || flag(pod, &["spec", "setHostnameAsFQDN"]) != Some(true) {
            return Ok(self.name.clone());
        }
        let fqdn = format!("{}.{}", self.name, self.domain);
        if fqdn.len() > MAX_FQDN {
            return Err(format!(
                "failed to construct FQDN from pod hostname and cluster domain, FQDN {fqdn} is too long \
                 ({MAX_FQDN} characters is the max, {} characters requested)",
                fqdn.len()
            ));
        }
        Ok(fqdn)
    }
}

/// The file of a pod with addresses of its own.
pub fn managed_hosts(pod: &Value, hostname: &Hostname, pod_ips: &[String]) -> String {
    let mut out = "# Kubernetes-managed hosts file.\n\
                   127.0.0.1\tlocalhost\n\
                   ::1\tlocalhost ip6-localhost ip6-loopback\n\
                   fe00::0\tip6-localnet\n\
                   fe00::0\tip6-mcastprefix\n\
                   fe00::1\tip6-allnodes\n\
                   fe00::2\tip6-allrouters\n"
        .to_owned();
    let Hostname { name, domain } = hostname;
    for ip in pod_ips {
        // Writing to a string cannot fail.
        let _ = match domain.is_empty() {
            true => writeln!(out, "{ip}\t{name}"),
            false => writeln!(out, "{ip}\t{name}.{domain}\t{name}"),
        };
    }
    out + &aliases(pod)
}

/// The file of a pod in the host's network: the host's, and the pod's aliases.
pub fn host_network_hosts(pod: &Value, node_hosts: &[u8]) -> Vec<u8> {
    let header = b"# Kubernetes-managed hosts file (host network).\n";
    [&header[..], node_hosts, aliases(pod).as_bytes()].concat()
}

fn aliases(pod: &Value) -> String {
    let all = list(pod, &["spec", "hostAliases"]);
    if all.is_empty() {
        return String::new();
    }
    let lines = all
        .iter()
        .map(|alias| format!("{}\t{}\n", text(alias, &["ip"]), strings(alias, &["hostnames"]).join("\t")));
    format!("\n# Entries added by HostAliases.\n{}", lines.collect::<String>())
}

fn check_label<'a>(field: &str, label: &'a str) -> Result<&'a str, String> {
    let problems = validate_text::dns1123_label(label);
    if problems.is_empty() {
        return Ok(label);
    }
    Err(format!("pod {field} {} is not a valid DNS label: {}", object::quote(label), problems.join(";")))
}

fn truncated(pod_name: &str, hostname: &str) -> Result<String, String> {
    if hostname.len() <= MAX_HOSTNAME {
        return Ok(hostname.to_owned());
    }
    let cut = hostname.get(..MAX_HOSTNAME).unwrap_or("").trim_end_matches(['-', '.']);
    if cut.is_empty() {
        let (pod_name, hostname) = (object::quote(pod_name), object::quote(hostname));
        return Err(format!("hostname for pod {pod_name} was invalid: {hostname}"));
    }
    tracing::info!(pod = pod_name, hostname = cut, "the host name was too long and is cut");
    Ok(cut.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::testing::{config, pod, value};

    fn named(spec: &str) -> Result<(String, String, Result<String, String>), String> {
        let pod = pod(spec);
        let hostname = Hostname::of(&pod, &config())?;
        let kernel = hostname.for_kernel(&pod);
        Ok((hostname.name, hostname.domain, kernel))
    }

    #[test]
    fn a_pod_is_called_by_its_name_unless_it_says_otherwise() {
        let domain = "sub.shop.svc.cluster.local";
        for (spec, name, expected_domain, kernel) in [
            ("{}", "web", "", "web"),
            (r#"{"hostname":"host"}"#, "host", "", "host"),
            (r#"{"hostname":"host","setHostnameAsFQDN":true}"#, "host", "", "host"),
            (r#"{"subdomain":"sub"}"#, "web", domain, "web"),
            (
                r#"{"subdomain":"sub","setHostnameAsFQDN":true}"#,
                "web",
                domain,
                "web.sub.shop.svc.cluster.local",
            ),
            (r#"{"hostname":"host","subdomain":"sub","hostnameOverride":"a.b"}"#, "a.b", "", "a.b"),
        ] {
            let expected = (name.to_owned(), expected_domain.to_owned(), Ok(kernel.to_owned()));
            assert_eq!(named(spec), Ok(expected), "{spec}");
        }
    }

    #[test]
    fn bad_names_are_refused() {
        let label = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and \
                     end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
                     '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
        assert_eq!(
            named(r#"{"hostname":"ho_st"}"#),
            Err(format!("pod Hostname \"ho_st\" is not a valid DNS label: {label}"))
        );
        assert_eq!(
            named(r#"{"subdomain":"Sub"}"#),
            Err(format!("pod Subdomain \"Sub\" is not a valid DNS label: {label}"))
        );
        let error = named(r#"{"hostnameOverride":"-a"}"#).unwrap_err();
        assert!(error.starts_with("pod HostnameOverride \"-a\" is not a valid DNS subdomain: "), "{error}");
        let long = named(&format!(r#"{{"subdomain":"{}","setHostnameAsFQDN":true}}"#, "s".repeat(40)));
        let fqdn = format!("web.{}.shop.svc.cluster.local", "s".repeat(40));
        let said = format!(
            "failed to construct FQDN from pod hostname and cluster domain, FQDN {fqdn} is too long \
             (64 characters is the max, 67 characters requested)"
        );
        assert_eq!(long.unwrap().2, Err(said));
    }

    #[test]
    fn long_names_are_cut_at_63_without_a_dash_at_the_end() {
        for (name, cut) in [
            ("a".repeat(70), "a".repeat(63)),
            (format!("{}-.-bcd", "a".repeat(60)), "a".repeat(60)),
            ("b".repeat(63), "b".repeat(63)),
        ] {
            let pod = value(&format!(r#"{{"metadata":{{"name":"{name}"}},"spec":{{}}}}"#));
            assert_eq!(Hostname::of(&pod, &config()).unwrap().name, cut);
        }
        assert_eq!(
            truncated("p", &"-".repeat(64)),
            Err(format!("hostname for pod \"p\" was invalid: \"{}\"", "-".repeat(64)))
        );
    }

    #[test]
    fn the_hosts_file_names_the_pod_and_its_aliases() {
        let aliased = pod(
            r#"{"hostAliases":[{"ip":"10.0.0.9","hostnames":["a","b"]},{"ip":"10.0.0.8","hostnames":["c"]}]}"#,
        );
        let base = "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n\
                    fe00::0\tip6-localnet\nfe00::0\tip6-mcastprefix\nfe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n";
        let added = "\n# Entries added by HostAliases.\n10.0.0.9\ta\tb\n10.0.0.8\tc\n";
        let ips = ["10.1.0.5".to_owned(), "fd00::5".to_owned()];
        let plain = Hostname { name: "web".to_owned(), domain: String::new() };
        assert_eq!(
            managed_hosts(&aliased, &plain, &ips),
            format!("{base}10.1.0.5\tweb\nfd00::5\tweb\n{added}")
        );
        let within = Hostname { domain: "d.svc".to_owned(), ..plain };
        assert_eq!(
            managed_hosts(&pod("{}"), &within, &ips[..1]),
            format!("{base}10.1.0.5\tweb.d.svc\tweb\n")
        );
        let of_host = host_network_hosts(&aliased, b"127.0.0.1 localhost\n");
        let expected =
            format!("# Kubernetes-managed hosts file (host network).\n127.0.0.1 localhost\n{added}");
        assert_eq!(String::from_utf8(of_host).unwrap(), expected);
    }
}
