//! The API of a cluster as one identity sees it, over HTTP.

use std::sync::Arc;

use bytes::Bytes;
use catalog::Catalog;
use client::{
    Answer, Client, DeleteOptions, List, ListOptions, Patch, Target, Watch, WatchOptions, WriteOptions,
};
use codec::json;
use env::Env;
use http::{HeaderMap, Method};
use object::{Obj, Status, Value};

use crate::call::{ApiRequest, Transport};
use crate::config::{Config, ConfigError};
use crate::credentials::{Authorization, Impersonate};
use crate::dial::{Dial, Socket};
use crate::objects::{Rows, parse_revision, unreadable};
use crate::pool::Pool;
use crate::request;
use crate::url::Url;
use crate::watch::HttpWatch;

const JSON: &str = "application/json";

/// Cheap to clone; clones share their connections, whoever they act as.
#[derive(Clone)]
pub struct HttpClient {
    transport: Arc<Transport>,
    catalog: Arc<Catalog>,
    /// What stands before `/api` in every path.
    prefix: Arc<str>,
    /// Of writes that name none; empty: the server makes one of the user agent.
    field_manager: Arc<str>,
    /// The headers that say whom to act as; a wrong name is told with each call.
    identity: Result<Arc<HeaderMap>, Status>,
}

impl HttpClient {
    /// Connects with the first call, not here.
    pub fn new(env: Env, catalog: Arc<Catalog>, config: &Config) -> Result<HttpClient, ConfigError> {
        let url = Url::parse(&config.server)?;
        let authorization = Authorization::new(env.clone(), config.credentials.clone());
        let socket = Socket::new(config, &url, authorization.plugin().cloned())?;
        HttpClient::assemble(env, catalog, config, Box::new(socket), authorization)
    }

    /// The same through connections of the transport's own making.
    pub fn over(
        env: Env,
        catalog: Arc<Catalog>,
        config: &Config,
        dial: Box<dyn Dial>,
    ) -> Result<HttpClient, ConfigError> {
        let authorization = Authorization::new(env.clone(), config.credentials.clone());
        HttpClient::assemble(env, catalog, config, dial, authorization)
    }

    fn assemble(
        env: Env,
        catalog: Arc<Catalog>,
        config: &Config,
        dial: Box<dyn Dial>,
        authorization: Authorization,
    ) -> Result<HttpClient, ConfigError> {
        let url = Url::parse(&config.server)?;
        let prefix = Arc::from(url.prefix.as_str());
        let pool = Pool::new(env.clone(), dial, url);
        let transport = Arc::new(Transport { env, pool, authorization });
        let client =
            HttpClient { transport, catalog, prefix, field_manager: "".into(), identity: Ok(Arc::default()) };
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

    fn path(&self, rows: &Rows<'_>, target: &Target<'_>) -> String {
        request::path(&self.prefix, rows.resource, target)
    }

    fn identity(&self) -> Result<&HeaderMap, Status> {
        self.identity.as_deref().map_err(Clone::clone)
    }

    async fn call(
        &self,
        method: Method,
        path: String,
        content: Option<(&'static str, Value)>,
    ) -> Result<Bytes, Status> {
        let (content_type, body) = match content {
            Some((content_type, body)) => (content_type, Bytes::from(json::to_vec(&body))),
            None => ("", Bytes::new()),
        };
        self.transport.call(self.identity()?, ApiRequest { method, path, content_type, body }).await
    }

    /// A read or, with a body, a write whose answer is one object.
    async fn object(
        &self,
        method: Method,
        target: Target<'_>,
        write: Option<(&'static str, Value, WriteOptions<'_>)>,
    ) -> Result<Arc<Obj>, Status> {
        let rows = Rows::find(&self.catalog, &target)?;
        let mut path = self.path(&rows, &target);
        let content = write.map(|(content_type, body, options)| {
            request::write_query(&mut path, options.managed_by(&self.field_manager));
            (content_type, body)
        });
        let answer = self.call(method, path, content).await?;
        rows.object(tree(&answer)?).map(Arc::new)
    }
}

impl Client for HttpClient {
    fn catalog(&self) -> Arc<Catalog> {
        self.catalog.clone()
    }

    fn get<'a>(&'a self, target: Target<'a>) -> Answer<'a, Arc<Obj>> {
        Box::pin(self.object(Method::GET, target, None))
    }

    fn list<'a>(&'a self, target: Target<'a>, options: ListOptions) -> Answer<'a, List> {
        Box::pin(async move {
            let rows = Rows::find(&self.catalog, &target)?;
            let mut path = self.path(&rows, &target);
            request::list_query(&mut path, &options);
            let mut answer = tree(&self.call(Method::GET, path, None).await?)?;
            let revision = parse_revision(answer.str_at(&["metadata", "resourceVersion"]).unwrap_or(""))?;
            let continue_token = answer.str_at(&["metadata", "continue"]).unwrap_or("").to_owned();
            let items = match answer.make_map().remove("items") {
                Some(Value::List(items)) => items,
                Some(Value::Null) | None => Vec::new(),
                Some(_) => return Err(unreadable("the items of a list are none")),
            };
            let items = items.into_iter().map(|item| rows.object(item).map(Arc::new));
            Ok(List { items: items.collect::<Result<_, _>>()?, revision, continue_token })
        })
    }

    fn watch<'a>(&'a self, target: Target<'a>, options: WatchOptions) -> Answer<'a, Box<dyn Watch>> {
        Box::pin(async move {
            let rows = Rows::find(&self.catalog, &target)?;
            let mut path = self.path(&rows, &target);
            request::watch_query(&mut path, &options);
            let request = ApiRequest { method: Method::GET, path, content_type: "", body: Bytes::new() };
            let open = self.transport.open(self.identity()?, request).await?;
            let (env, catalog) = (self.transport.env.clone(), self.catalog.clone());
            let watch: Box<dyn Watch> = Box::new(HttpWatch::new(
                env,
                catalog,
                target.resource.clone(),
                open,
                options.timeout_seconds,
            ));
            Ok(watch)
        })
    }

    fn create<'a>(
        &'a self,
        target: Target<'a>,
        body: Value,
        options: WriteOptions<'a>,
    ) -> Answer<'a, Arc<Obj>> {
        Box::pin(self.object(Method::POST, target, Some((JSON, body, options))))
    }

    fn update<'a>(
        &'a self,
        target: Target<'a>,
        body: Value,
        options: WriteOptions<'a>,
    ) -> Answer<'a, Arc<Obj>> {
        Box::pin(self.object(Method::PUT, target, Some((JSON, body, options))))
    }

    fn patch<'a>(
        &'a self,
        target: Target<'a>,
        patch: Patch,
        options: WriteOptions<'a>,
    ) -> Answer<'a, Arc<Obj>> {
        let write = (patch.form().content_type(), patch.into_value(), options);
        Box::pin(self.object(Method::PATCH, target, Some(write)))
    }

    fn delete<'a>(&'a self, target: Target<'a>, options: DeleteOptions) -> Answer<'a, ()> {
        Box::pin(async move {
            let path = self.path(&Rows::find(&self.catalog, &target)?, &target);
            self.call(Method::DELETE, path, Some((JSON, options.to_value()))).await.map(|_| ())
        })
    }

    fn delete_collection<'a>(
        &'a self,
        target: Target<'a>,
        options: DeleteOptions,
        which: ListOptions,
    ) -> Answer<'a, ()> {
        Box::pin(async move {
            let mut path = self.path(&Rows::find(&self.catalog, &target)?, &target);
            request::list_query(&mut path, &which);
            self.call(Method::DELETE, path, Some((JSON, options.to_value()))).await.map(|_| ())
        })
    }

    fn act<'a>(&'a self, target: Target<'a>, body: Value, options: WriteOptions<'a>) -> Answer<'a, ()> {
        Box::pin(async move {
            let mut path = self.path(&Rows::find(&self.catalog, &target)?, &target);
            request::write_query(&mut path, options.managed_by(&self.field_manager));
            self.call(Method::POST, path, Some((JSON, body))).await.map(|_| ())
        })
    }
}

fn tree(answer: &[u8]) -> Result<Value, Status> {
    json::parse(answer, None).map_err(|error| unreadable(&format!("it is no JSON: {error}")))
}
