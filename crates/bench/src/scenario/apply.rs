//! apply: server-side apply of one of 1,000 Deployments, with or without a change. They are paused and have no replicas, so that
//! controllers leave them alone.

use super::{Scenario, Settings};
use crate::error::BenchError;
use crate::request::{Body, NUMBER, SLOT};
use crate::site::Site;
use crate::tally::Tally;

const DEPLOYMENTS: u64 = 1_000;

pub struct Apply {
    pub changed: bool,
}

impl Scenario for Apply {
    fn prepare(&self, site: &mut Site<'_>) -> Result<(), BenchError> {
        let path = site.path("apps/v1/deployments");
        site.create_all_at(&path, &deployment("0000000000"), DEPLOYMENTS)
    }

    fn measure(&self, site: &mut Site<'_>, settings: &Settings) -> Result<Tally, BenchError> {
        let path =
            format!("{}/web-{SLOT}?fieldManager=setpoint-bench&force=true", site.path("apps/v1/deployments"));
        let text = deployment(if self.changed { NUMBER } else { "0000000001" });
        let body = Body { content_type: "application/apply-patch+yaml", text: &text };
        let template = site.template("PATCH", &path, Some(body), DEPLOYMENTS);
        let load = site.load(&template, settings.connections);
        Ok(site.drive(&load, settings.phase())?.tally)
    }
}

fn deployment(revision: &str) -> String {
    format!(
        r#"{{"apiVersion":"apps/v1","kind":"Deployment","metadata":{{"name":"web-{SLOT}","labels":{{"app":"web","tier":"front"}},"annotations":{{"setpoint-bench/revision":"{revision}"}}}},"spec":{{"paused":true,"replicas":0,"selector":{{"matchLabels":{{"app":"web"}}}},"template":{{"metadata":{{"labels":{{"app":"web","tier":"front"}}}},"spec":{{"containers":[{{"name":"web","image":"registry.example/web:1.2.3","command":["/bin/web","--listen=:8080"],"ports":[{{"name":"http","containerPort":8080,"protocol":"TCP"}}],"env":[{{"name":"MODE","value":"production"}},{{"name":"REGION","value":"north"}}],"resources":{{"requests":{{"cpu":"100m","memory":"64Mi"}},"limits":{{"cpu":"500m","memory":"128Mi"}}}},"readinessProbe":{{"httpGet":{{"path":"/ready","port":8080}},"periodSeconds":10}}}},{{"name":"proxy","image":"registry.example/proxy:2.0","ports":[{{"containerPort":15001}}],"volumeMounts":[{{"name":"config","mountPath":"/etc/proxy"}}]}}],"volumes":[{{"name":"config","configMap":{{"name":"proxy"}}}}]}}}}}}}}"#
    )
}
