//! Static pods of a URL: asked over and over; what it says holds until it says something else.

use std::sync::Arc;
use std::time::Duration;

use catalog::Catalog;
use env::Env;
use http::{HeaderMap, HeaderName, HeaderValue};
use node::static_pods::StaticPods;
use object::Value;
use runtime::Stop;

use super::URL_SOURCE;
use super::decode::{MOST_BYTES, Origin, decode_all};
use crate::blocking::block;
use crate::config::Config;
use crate::probes::http::{Client, Request};
use crate::probes::url::Url;

const LIMIT: Duration = Duration::from_secs(10);
/// After that an error is not news any more.
const LOUD: usize = 3;

struct Source {
    client: Client,
    text: String,
    url: Url,
    headers: HeaderMap,
    node: String,
    catalog: Catalog,
    /// What it said last.
    said: Vec<u8>,
    failures: usize,
}

/// `None`: there is no URL, or it is none.
pub fn follow(
    env: &Env,
    config: &Config,
    pods: &Arc<StaticPods>,
    stop: Stop,
) -> Option<tokio::task::JoinHandle<()>> {
    let text = Some(config.static_pod_url.clone()).filter(|url| !url.is_empty())?;
    // Any base will do: it is not relative to it.
    let parsed = text.contains("://").then(|| Url::new(false, "localhost", 80, "/").join(&text));
    let Some(Ok(url)) = parsed else {
        tracing::error!(url = text, "the URL of static pods is not one of http or https");
        return None;
    };
    tracing::info!(url = text, "watching static pods");
    let client = Client::verifying(env, image::machine_roots(), MOST_BYTES as usize + 1);
    let source = Source {
        client,
        text,
        url,
        headers: headers(&config.static_pod_url_header),
        node: config.node_name.clone(),
        catalog: Catalog::builtin(),
        said: Vec::new(),
        failures: 0,
    };
    let (env, pods, period) = (env.clone(), pods.clone(), config.http_check_frequency);
    let spawner = env.clone();
    Some(spawner.spawn("static pods of a URL", run(env, source, pods, period, stop)))
}

fn headers(given: &[(String, String)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in given {
        let header = HeaderName::from_bytes(name.as_bytes()).ok().zip(HeaderValue::from_str(value).ok());
        match header {
            Some((name, value)) => drop(headers.append(name, value)),
            // Not its value: it may be a secret.
            None => tracing::error!(name, "a header for the URL of static pods is not valid"),
        }
    }
    headers
}

async fn run(env: Env, mut source: Source, pods: Arc<StaticPods>, period: Duration, stop: Stop) {
    loop {
        let next = env.monotonic() + period;
        tokio::select! {
            biased;
            () = stop.stopped() => return,
            back = look(&env, source, &pods) => match back {
                Some(back) => source = back,
                None => return,
            }
        }
        tokio::select! {
            biased;
            () = stop.stopped() => return,
            () = env.sleep_until(next) => {}
        }
    }
}

/// `None` after a panic, which was told.
async fn look(env: &Env, mut source: Source, pods: &StaticPods) -> Option<Source> {
    let now = i64::try_from(env.now_seconds()).unwrap_or(0);
    let failed = match source.fetch().await {
        Err(why) => Some(why),
        Ok(said) if said.is_empty() => {
            pods.set(URL_SOURCE, Vec::new(), now);
            Some(format!("zero-length data received from {}", source.text))
        }
        Ok(said) if said == source.said => None,
        Ok(said) => {
            let nanos = env.now_nanos();
            let decoded;
            (source, decoded) = block(move || source.decode(said, nanos)).await.ok()?;
            match decoded {
                Ok(read) => {
                    pods.set(URL_SOURCE, read, now);
                    None
                }
                Err(why) => Some(why),
            }
        }
    };
    match failed {
        None if source.failures > 0 => {
            source.failures = 0;
            tracing::info!(url = source.text, "static pods are read from their URL again");
        }
        None => {}
        Some(error) => {
            source.failures += 1;
            match source.failures <= LOUD {
                true => {
                    tracing::error!(url = source.text, error, "failed to read static pods from their URL")
                }
                false => {
                    tracing::debug!(url = source.text, error, "failed to read static pods from their URL")
                }
            }
        }
    }
    Some(source)
}

impl Source {
    async fn fetch(&self) -> Result<Vec<u8>, String> {
        let request = Request::to(self.url.clone(), self.headers.clone());
        let response = self.client.get(&request, Some(LIMIT)).await?;
        let body = response.body?;
        match response.status {
            200 => Ok(body),
            status => {
                let told = http::StatusCode::from_u16(status).ok().and_then(|code| code.canonical_reason());
                Err(format!("{}: {status} {}", self.text, told.unwrap_or_default()))
            }
        }
    }

    fn decode(mut self, said: Vec<u8>, now_nanos: u128) -> (Source, Result<Vec<Value>, String>) {
        let decoded = decode_all(&self.catalog, &said, &self.node, Origin::Url(&self.text), now_nanos);
        // Also what is no pod is not looked at twice.
        self.said = said;
        (self, decoded.map_err(|error| error.to_string()))
    }
}
