//! Nodes without a kubelet: registered, Ready, their Lease renewed by a probe.

use std::time::{SystemTime, UNIX_EPOCH};

use super::users::NodeIdentity;
use crate::client::{Answer, Client};
use crate::endpoint::Endpoint;
use crate::error::BenchError;
use crate::site::Site;

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";

pub struct Nodes {
    pub all: Vec<Node>,
    impersonated: bool,
}

#[derive(Clone)]
pub struct Node {
    pub name: String,
    pub endpoint: Endpoint,
    /// The user the administrator impersonates to renew it; none if the node has credentials of its own.
    impersonate: Option<[(&'static str, String); 2]>,
}

impl Nodes {
    pub fn register(site: &mut Site<'_>, identities: Vec<NodeIdentity>) -> Result<Nodes, BenchError> {
        let impersonated = identities.iter().any(|identity| identity.token.is_none());
        let all: Vec<Node> =
            identities.into_iter().map(|identity| Node::new(site.endpoint(), identity)).collect();
        for node in &all {
            let mut client = Client::new(node.endpoint.clone());
            let ready = format!(
                r#"{{"apiVersion":"v1","kind":"Node","metadata":{{"name":"{0}","labels":{{"kubernetes.io/hostname":"{0}"}}}},"status":{{"conditions":[{{"type":"Ready","status":"True","reason":"KubeletReady","message":"a Lease of setpoint bench","lastHeartbeatTime":"{1}","lastTransitionTime":"{1}"}}]}}}}"#,
                node.name,
                now_text(false)
            );
            let answer = node.send(&mut client, "POST", "/api/v1/nodes", &ready)?;
            expect(site, &answer, "POST /api/v1/nodes")?;
            let lease = node.lease(None);
            let answer = node.send(&mut client, "POST", LEASES, &lease)?;
            expect(site, &answer, "POST of a node's Lease")?;
        }
        Ok(Nodes { all, impersonated })
    }

    pub fn describe(&self) -> String {
        let how =
            if self.impersonated { "impersonated by the administrator" } else { "by tokens of their own" };
        format!("{} nodes, {how}", self.all.len())
    }

    pub fn remove(self, site: &mut Site<'_>) -> Result<(), BenchError> {
        for node in &self.all {
            site.delete(&format!("/api/v1/nodes/{}", node.name))?;
            site.delete(&format!("{LEASES}/{}", node.name))?;
        }
        Ok(())
    }
}

impl Node {
    fn new(endpoint: &Endpoint, identity: NodeIdentity) -> Node {
        let NodeIdentity { name, token } = identity;
        let impersonate = token.is_none().then(|| {
            [
                ("Impersonate-User", format!("system:node:{name}")),
                ("Impersonate-Group", "system:nodes".to_owned()),
            ]
        });
        let endpoint = if token.is_some() { endpoint.for_bearer(token) } else { endpoint.clone() };
        Node { name, endpoint, impersonate }
    }

    pub fn lease_path(&self) -> String {
        format!("{LEASES}/{}", self.name)
    }

    /// The Lease renewed now; at its creation it has no version yet.
    pub fn lease(&self, version: Option<&str>) -> String {
        let version = version.map(|version| format!(r#","resourceVersion":"{version}""#)).unwrap_or_default();
        format!(
            r#"{{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{{"name":"{0}","namespace":"kube-node-lease"{version}}},"spec":{{"holderIdentity":"{0}","leaseDurationSeconds":40,"renewTime":"{1}"}}}}"#,
            self.name,
            now_text(true)
        )
    }

    pub fn send(
        &self,
        client: &mut Client,
        method: &str,
        path: &str,
        body: &str,
    ) -> Result<Answer, BenchError> {
        let mut headers = vec![("Accept", "application/json"), ("Content-Type", "application/json")];
        let impersonate = self.impersonate.iter().flatten();
        headers.extend(impersonate.map(|(name, value)| (*name, value.as_str())));
        client.exchange_raw(method, path, &headers, body)
    }
}

fn expect(site: &Site<'_>, answer: &Answer, doing: &str) -> Result<(), BenchError> {
    if (200..300).contains(&answer.status) || answer.status == 409 {
        return Ok(());
    }
    Err(BenchError::Refused {
        server: site.endpoint().server.clone(),
        doing: doing.to_owned(),
        status: answer.status,
        body: crate::client::shorten(&answer.body),
    })
}

/// The time as objects have it, to the second or (`micro`) the microsecond.
fn now_text(micro: bool) -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    time_text(since.as_secs(), micro.then_some(since.subsec_micros()))
}

fn time_text(seconds: u64, micros: Option<u32>) -> String {
    let (mut days, second) = (seconds / 86_400, seconds % 86_400);
    let mut year = 1970;
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let february = 28 + u64::from(leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    let fraction = micros.map(|micros| format!(".{micros:06}")).unwrap_or_default();
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year}-{month:02}-{:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z", days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_written_as_rfc_3339() {
        assert_eq!(time_text(0, None), "1970-01-01T00:00:00Z");
        assert_eq!(time_text(951_782_399, Some(7)), "2000-02-28T23:59:59.000007Z");
        assert_eq!(time_text(951_782_400, None), "2000-02-29T00:00:00Z");
        assert_eq!(time_text(1_794_787_200, None), "2026-11-16T00:00:00Z");
    }
}
