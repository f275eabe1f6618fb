//! Static pods of a URL: asked over and over; what it says holds until it says something else.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use catalog::Catalog;
use env::Env;
use http::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use node::static_pods::StaticPods;
use object::Value;
use percent_encoding::percent_decode_str;
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
    /// As it is configured, with a password perhaps: it names the pods, and is not for people.
    text: String,
    url: Url,
    headers: HeaderMap,
    node: String,
    catalog: Catalog,
    /// What it said last; empty: nothing.
    said: Vec<u8>,
    /// What that came to.
    decoded: Result<Vec<Value>, String>,
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
    let given = headers(&config.static_pod_url_header);
    let Some(source) = Source::new(env, text, given, config.node_name.clone()) else {
        tracing::error!("the URL of static pods is not one of http or https");
        return None;
    };
    tracing::info!(url = %source.url, "watching static pods");
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
            // Differs from kubelet: what it said before is forgotten, so that the same comes back when it says it again.
            source.said = Vec::new();
            pods.set(URL_SOURCE, Vec::new(), now);
            Some(format!("zero-length data received from {}", source.url))
        }
        Ok(said) => {
            if said != source.said {
                let nanos = env.now_nanos();
                source = block(move || source.decode(said, nanos)).await.ok()?;
            }
            match &source.decoded {
                // Also what it said before: a pod may have been ignored because of another that is gone now.
                Ok(read) => {
                    pods.set(URL_SOURCE, read.clone(), now);
                    None
                }
                Err(why) => Some(why.clone()),
            }
        }
    };
    let url = &source.url;
    match failed {
        None if source.failures > 0 => {
            source.failures = 0;
            tracing::info!(%url, "static pods are read from their URL again");
        }
        None => {}
        Some(error) => {
            source.failures += 1;
            match source.failures <= LOUD {
                true => tracing::error!(%url, error, "failed to read static pods from their URL"),
                false => tracing::debug!(%url, error, "failed to read static pods from their URL"),
            }
        }
    }
    Some(source)
}

impl Source {
    /// `None`: the text is no URL.
    fn new(env: &Env, text: String, mut headers: HeaderMap, node: String) -> Option<Source> {
        // Any base will do: it is not relative to it.
        let parsed = text.contains("://").then(|| Url::new(false, "localhost", 80, "/").join(&text));
        let url = parsed?.ok()?;
        if let Some(basic) = basic_auth(&text).filter(|_| !headers.contains_key(AUTHORIZATION)) {
            headers.insert(AUTHORIZATION, basic);
        }
        Some(Source {
            client: Client::verifying(env, image::machine_roots(), MOST_BYTES as usize + 1),
            text,
            url,
            headers,
            node,
            catalog: Catalog::builtin(),
            said: Vec::new(),
            decoded: Ok(Vec::new()),
            failures: 0,
        })
    }

    async fn fetch(&self) -> Result<Vec<u8>, String> {
        let request = Request::to(self.url.clone(), self.headers.clone());
        let response = self.client.get(&request, Some(LIMIT)).await?;
        let body = response.body?;
        match response.status {
            200 => Ok(body),
            status => {
                let told = http::StatusCode::from_u16(status).ok().and_then(|code| code.canonical_reason());
                Err(format!("{}: {status} {}", self.url, told.unwrap_or_default()))
            }
        }
    }

    fn decode(mut self, said: Vec<u8>, now_nanos: u128) -> Source {
        let decoded = decode_all(&self.catalog, &said, &self.node, Origin::Url(&self.text), now_nanos);
        // Also what is no pod is not looked at twice.
        self.decoded = decoded.map_err(|error| error.to_string());
        self.said = said;
        self
    }
}

/// What the user and password of a URL come to, as Go's client sends them.
fn basic_auth(url: &str) -> Option<HeaderValue> {
    let (_, rest) = url.split_once("://")?;
    let (user, _) = rest.split(['/', '?', '#']).next()?.rsplit_once('@')?;
    let (name, password) = user.split_once(':').unwrap_or((user, ""));
    let mut both: Vec<u8> = percent_decode_str(name).collect();
    both.push(b':');
    both.extend(percent_decode_str(password));
    let encoded = base64::engine::general_purpose::STANDARD.encode(both);
    let mut value = HeaderValue::try_from(format!("Basic {encoded}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}
