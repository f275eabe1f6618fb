//! The API of a cluster as one identity sees it, over HTTP.

use std::sync::Arc;

use bytes::Bytes;
use catalog::{Catalog, Resource};
use client::{
    Answer, Client, DeleteOptions, Gvr, List, ListOptions, Patch, Target, Watch, WatchOptions, WriteOptions,
    with_applied_type, with_type,
};
use codec::json;
use env::Env;
use http::{HeaderMap, Method};
use object::{Obj, Status, Value};

use crate::call::{JSON, Transport};
use crate::config::{Config, ConfigError};
use crate::credentials::{Authorization, Impersonate};
use crate::dial::{Dial, Socket};
use crate::discovery::{self, GroupVersion};
use crate::exchange::{ApiRequest, Exchange};
use crate::objects::{View, object, parse_revision, unreadable};
use crate::pool::Pool;
use crate::request;
use crate::rotation::{CertificateRotation, CurrentSocket};
use crate::served::{Served, is_unserved};
use crate::url::Url;
use crate::watch::HttpWatch;

/// Discovery of every group at once, or one by one from servers that cannot.
const AGGREGATED: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

/// Cheap to clone; clones share their connections, whoever they act as.
#[derive(Clone)]
pub struct HttpClient {
    env: Env,
    exchange: Arc<dyn Exchange>,
    served: Arc<Served>,
    /// What stands before `/api` in every path.
    prefix: Arc<str>,
    /// Of writes that name none; empty: the server makes one of the user agent.
    field_manager: Arc<str>,
    /// The headers that say whom to act as; a wrong name is told with each call.
    identity: Result<Arc<HeaderMap>, Status>,
}

/// What a request carries.
enum Content {
    /// Of the type its target expects.
    Object(Value),
    Options(Value),
    Patch(Patch),
}

impl Content {
    fn content_type(&self) -> &'static str {
        match self {
            Content::Object(_) | Content::Options(_) => JSON,
            Content::Patch(patch) => patch.form().content_type(),
        }
    }

    fn encode(&self, resource: &Resource, target: &Target<'_>) -> Bytes {
        Bytes::from(match self {
            Content::Object(body) if resource.custom => {
                json::to_vec(&with_type(resource, target.subresource, body.clone()))
            }
            Content::Object(body) | Content::Options(body) => json::to_vec(body),
            Content::Patch(patch) => {
                json::to_vec(&with_applied_type(resource, target, patch.clone()).into_value())
            }
        })
    }
}

impl HttpClient {
    /// Connects with the first call, not here. `catalog`: what the server is known to serve ([`Catalog::builtin`]); custom resources are
    /// found in its discovery.
    pub fn new(env: Env, catalog: Arc<Catalog>, config: &Config) -> Result<HttpClient, ConfigError> {
        let url = Url::parse(&config.server)?;
        let authorization = Authorization::new(env.clone(), config.credentials.clone());
        let socket = Socket::new(config, &url, authorization.plugin().cloned())?;
        let pool = Pool::new(env.clone(), Box::new(socket), url);
        HttpClient::assemble(env, catalog, config, pool, authorization)
    }

    /// A client that shows a certificate, and what gives it the next one.
    pub fn with_rotation(
        env: Env,
        catalog: Arc<Catalog>,
        config: &Config,
    ) -> Result<(HttpClient, CertificateRotation), ConfigError> {
        let url = Url::parse(&config.server)?;
        let socket = CurrentSocket::new(config, &url)?;
        let pool = Pool::new(env.clone(), Box::new(socket.clone()), url);
        let authorization = Authorization::new(env.clone(), config.credentials.clone());
        let client = HttpClient::assemble(env, catalog, config, pool.clone(), authorization)?;
        Ok((client, CertificateRotation::new(config, socket, pool)))
    }

    /// The same through connections of the transport's own making.
    pub fn over(
        env: Env,
        catalog: Arc<Catalog>,
        config: &Config,
        dial: Box<dyn Dial>,
    ) -> Result<HttpClient, ConfigError> {
        let authorization = Authorization::new(env.clone(), config.credentials.clone());
        let pool = Pool::new(env.clone(), dial, Url::parse(&config.server)?);
        HttpClient::assemble(env, catalog, config, pool, authorization)
    }

    /// A client whose requests go a way of their own, which has the credentials. `served` may be shared with others of the same server.
    pub fn through(env: Env, served: Arc<Served>, exchange: Arc<dyn Exchange>) -> HttpClient {
        let (prefix, field_manager) = ("".into(), "".into());
        HttpClient { env, exchange, served, prefix, field_manager, identity: Ok(Arc::default()) }
    }

    fn assemble(
        env: Env,
        catalog: Arc<Catalog>,
        config: &Config,
        pool: Arc<Pool>,
        authorization: Authorization,
    ) -> Result<HttpClient, ConfigError> {
        let url = Url::parse(&config.server)?;
        let exchange = Arc::new(Transport { env: env.clone(), pool, authorization });
        let prefix = Arc::from(url.prefix.as_str());
        let client =
            HttpClient { prefix, ..HttpClient::through(env, Arc::new(Served::new(catalog)), exchange) };
        Ok(match &config.impersonate {
            Some(who) => client.acting_as(who),
            None => client,
        })
    }

    /// A client on the same connections that acts as somebody else. Our own user must be allowed to.
    pub fn acting_as(&self, who: &Impersonate) -> HttpClient {
        HttpClient { identity: who.headers().map(Arc::new), ..self.clone() }
    }

    /// A client on the same connections whose writes have this field manager unless they name another.
    pub fn with_field_manager(&self, name: &str) -> HttpClient {
        HttpClient { field_manager: name.into(), ..self.clone() }
    }

    fn identity(&self) -> Result<&HeaderMap, Status> {
        self.identity.as_deref().map_err(Clone::clone)
    }

    /// A document of the server's discovery.
    async fn document(&self, path: String, accept: &'static str) -> Result<Value, Status> {
        let request = ApiRequest { method: Method::GET, path, content_type: "", body: Bytes::new(), accept };
        tree(&self.exchange.call(self.identity()?, request).await?)
    }

    async fn group_version(&self, group: &str, version: &str) -> Result<Vec<discovery::Discovered>, Status> {
        let path = request::group_version(&self.prefix, group, version);
        Ok(discovery::resources(group, version, &self.document(path, JSON).await?))
    }

    /// The resource as the server serves it. A custom one is looked up with its first use.
    async fn find(&self, gvr: &Gvr) -> Result<Arc<Resource>, Status> {
        if let Some(known) = self.served.find(gvr) {
            return Ok(known);
        }
        // The core group has no custom resources.
        if gvr.group.is_empty() {
            return Err(Status::no_such_resource());
        }
        let found = match self.group_version(&gvr.group, &gvr.version).await {
            Ok(found) => found.into_iter().find(|resource| resource.plural == gvr.plural),
            Err(status) if status.code == 404 => None,
            Err(status) => return Err(status),
        };
        self.served.learn(found.ok_or_else(Status::no_such_resource)?);
        self.served.find(gvr).ok_or_else(Status::no_such_resource)
    }

    /// Sends a request about a resource; `query` begins with a question mark.
    async fn call(
        &self,
        method: Method,
        target: Target<'_>,
        query: String,
        content: Option<Content>,
        accept: &'static str,
    ) -> Result<(Arc<Resource>, Bytes), Status> {
        let request = |resource: &Resource| {
            let path = request::path(&self.prefix, resource, &target) + &query;
            let (content_type, body) = match &content {
                Some(content) => (content.content_type(), content.encode(resource, &target)),
                None => ("", Bytes::new()),
            };
            ApiRequest { method: method.clone(), path, content_type, body, accept }
        };
        let resource = self.find(target.resource).await?;
        let answer = self.exchange.call(self.identity()?, request(&resource)).await;
        match answer {
            Err(status) if is_unserved(&status) && self.served.forget(&resource) => {
                // Made again with another scope, it is found elsewhere.
                let again = self.find(target.resource).await?;
                if again.namespaced == resource.namespaced {
                    return Err(status);
                }
                let answer = self.exchange.call(self.identity()?, request(&again)).await?;
                Ok((again, answer))
            }
            answer => Ok((resource, answer?)),
        }
    }

    /// A read or, with a body, a write whose answer is one object.
    async fn object(
        &self,
        method: Method,
        target: Target<'_>,
        write: Option<(Content, WriteOptions<'_>)>,
    ) -> Result<Arc<Obj>, Status> {
        let mut query = String::new();
        let content = write.map(|(content, options)| {
            request::write_query(&mut query, options.managed_by(&self.field_manager));
            content
        });
        let view = View::of(&target);
        let (resource, answer) = self.call(method, target, query, content, view.accept_object()).await?;
        object(&resource, view, tree(&answer)?).map(Arc::new)
    }
}

impl Client for HttpClient {
    fn catalog(&self) -> Arc<Catalog> {
        self.served.catalog()
    }

    fn discover(&self) -> Answer<'_, Arc<Catalog>> {
        Box::pin(async move {
            let groups = self.document(format!("{}/apis", self.prefix), AGGREGATED).await?;
            if let Some(said) = discovery::aggregated(&groups) {
                return Ok(self.served.take_over(said));
            }
            let mut said = Vec::new();
            for (group, version) in discovery::group_versions(&groups) {
                // One that does not answer says nothing about the others.
                let resources = self.group_version(&group, &version).await.ok();
                said.push(GroupVersion { group, version, resources });
            }
            Ok(self.served.take_over(said))
        })
    }

    fn get_raw<'a>(&'a self, path: &'a str) -> Answer<'a, Value> {
        Box::pin(self.document(format!("{}{path}", self.prefix), JSON))
    }

    fn get<'a>(&'a self, target: Target<'a>) -> Answer<'a, Arc<Obj>> {
        Box::pin(self.object(Method::GET, target, None))
    }

    fn list<'a>(&'a self, target: Target<'a>, options: ListOptions) -> Answer<'a, List> {
        Box::pin(async move {
            let mut query = String::new();
            request::list_query(&mut query, &options);
            let view = View::of(&target);
            let (resource, answer) = self.call(Method::GET, target, query, None, view.accept_list()).await?;
            let mut answer = tree(&answer)?;
            let revision = parse_revision(answer.str_at(&["metadata", "resourceVersion"]).unwrap_or(""))?;
            let continue_token = answer.str_at(&["metadata", "continue"]).unwrap_or("").to_owned();
            let items = match answer.make_map().remove("items") {
                Some(Value::List(items)) => items,
                Some(Value::Null) | None => Vec::new(),
                Some(_) => return Err(unreadable("the items of a list are none")),
            };
            let items = items.into_iter().map(|item| object(&resource, view, item).map(Arc::new));
            Ok(List { items: items.collect::<Result<_, _>>()?, revision, continue_token })
        })
    }

    fn watch<'a>(&'a self, target: Target<'a>, options: WatchOptions) -> Answer<'a, Box<dyn Watch>> {
        Box::pin(async move {
            let resource = self.find(target.resource).await?;
            let mut path = request::path(&self.prefix, &resource, &target);
            request::watch_query(&mut path, &options);
            let (method, view) = (Method::GET, View::of(&target));
            let accept = view.accept_object();
            let request = ApiRequest { method, path, content_type: "", body: Bytes::new(), accept };
            let open = self.exchange.open(self.identity()?, request).await.inspect_err(|status| {
                if is_unserved(status) {
                    self.served.forget(&resource);
                }
            })?;
            let (env, seconds) = (self.env.clone(), options.timeout_seconds);
            let watch: Box<dyn Watch> = Box::new(HttpWatch::new(env, resource, view, open, seconds));
            Ok(watch)
        })
    }

    fn create<'a>(
        &'a self,
        target: Target<'a>,
        body: Value,
        options: WriteOptions<'a>,
    ) -> Answer<'a, Arc<Obj>> {
        Box::pin(self.object(Method::POST, target, Some((Content::Object(body), options))))
    }

    fn update<'a>(
        &'a self,
        target: Target<'a>,
        body: Value,
        options: WriteOptions<'a>,
    ) -> Answer<'a, Arc<Obj>> {
        Box::pin(self.object(Method::PUT, target, Some((Content::Object(body), options))))
    }

    fn patch<'a>(
        &'a self,
        target: Target<'a>,
        patch: Patch,
        options: WriteOptions<'a>,
    ) -> Answer<'a, Arc<Obj>> {
        Box::pin(self.object(Method::PATCH, target, Some((Content::Patch(patch), options))))
    }

    fn delete<'a>(&'a self, target: Target<'a>, options: DeleteOptions) -> Answer<'a, ()> {
        Box::pin(async move {
            let content = Content::Options(options.to_value());
            self.call(Method::DELETE, target, String::new(), Some(content), JSON).await.map(|_| ())
        })
    }

    fn delete_collection<'a>(
        &'a self,
        target: Target<'a>,
        options: DeleteOptions,
        which: ListOptions,
    ) -> Answer<'a, ()> {
        Box::pin(async move {
            let mut query = String::new();
            request::list_query(&mut query, &which);
            let content = Content::Options(options.to_value());
            self.call(Method::DELETE, target, query, Some(content), JSON).await.map(|_| ())
        })
    }

    fn review<'a>(&'a self, target: Target<'a>, body: Value) -> Answer<'a, Value> {
        Box::pin(async move {
            let content = Some(Content::Object(body));
            let (_, answer) = self.call(Method::POST, target, String::new(), content, JSON).await?;
            tree(&answer)
        })
    }

    fn act<'a>(&'a self, target: Target<'a>, body: Value, options: WriteOptions<'a>) -> Answer<'a, ()> {
        Box::pin(async move {
            let mut query = String::new();
            request::write_query(&mut query, options.managed_by(&self.field_manager));
            self.call(Method::POST, target, query, Some(Content::Object(body)), JSON).await.map(|_| ())
        })
    }
}

fn tree(answer: &[u8]) -> Result<Value, Status> {
    json::parse(answer, None).map_err(|error| unreadable(&format!("it is no JSON: {error}")))
}
