//! Sends requests to a server over TLS and keeps what a comparison needs of the answers.

use std::path::Path;

use bench::{Client, Endpoint};

use crate::error::DiffError;
use crate::play::{Answer, Request};

pub struct Server {
    client: Client,
}

impl Server {
    pub fn open(kubeconfig: &Path, allow_remote: bool) -> Result<Server, DiffError> {
        Ok(Server { client: Client::new(Endpoint::load(kubeconfig, allow_remote)?) })
    }

    pub fn ask(&mut self, request: &Request) -> Result<Answer, DiffError> {
        let mut headers = vec![("Accept", request.accept.as_str())];
        if let Some(content_type) = &request.content_type {
            headers.push(("Content-Type", content_type));
        }
        let body = request.body.as_deref().unwrap_or_default();
        let answer = self.client.exchange_raw(request.method, &request.path, &headers, body)?;
        let all = |name: &str| {
            let values = answer.headers.iter().filter(move |(n, _)| n.eq_ignore_ascii_case(name));
            values.map(|(_, value)| value.clone()).collect::<Vec<_>>()
        };
        Ok(Answer {
            status: answer.status,
            content_type: all("content-type").into_iter().next().unwrap_or_default(),
            warnings: all("warning"),
            body: answer.body,
        })
    }
}
