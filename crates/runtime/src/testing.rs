//! For this crate's tests: objects by hand, and a server that says what its script says.

use std::collections::VecDeque;
use std::future::pending;
use std::sync::Arc;

use catalog::Catalog;
use client::resources::CONFIG_MAPS;
use client::{
    Answer, Client, DeleteOptions, Event, Gvr, List, ListOptions, Patch, Target, Watch, WatchOptions,
    WriteOptions,
};
use object::{Obj, Revision, Status, Value};
use parking_lot::Mutex;

/// A ConfigMap `namespace/name` with `extra` inside its metadata (beginning with a comma, or empty).
pub fn map_with(name: &str, uid: &str, revision: u64, extra: &str) -> Arc<Obj> {
    object_of(&CONFIG_MAPS, "ConfigMap", "v1", name, uid, revision, extra)
}

pub fn object_of(
    resource: &Gvr,
    kind: &str,
    api_version: &str,
    name: &str,
    uid: &str,
    revision: u64,
    extra: &str,
) -> Arc<Obj> {
    let catalog = Catalog::builtin();
    let storage = catalog.find_storage(&resource.group, &resource.plural).unwrap();
    let body = format!(
        "{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",\"metadata\":\
         {{\"name\":\"{name}\",\"namespace\":\"default\",\"uid\":\"{uid}\"{extra}}}}}"
    );
    let key = storage.key("default", name);
    Arc::new(Obj::publish(storage, &key, body.as_bytes(), Revision(revision), None).unwrap())
}

pub fn map(name: &str, revision: u64) -> Arc<Obj> {
    map_with(name, &format!("uid-{name}"), revision, "")
}

/// One answer of the script, in the order the reflector must ask.
pub enum Say {
    List(Result<List, Status>),
    Watch(Result<Vec<Pull>, Status>),
}

/// What one pull of a watch gives; after the last one nothing ever comes.
pub type Pull = Result<(Vec<Event>, bool), Status>;

pub fn list(items: Vec<Arc<Obj>>, revision: u64, continue_token: &str) -> Say {
    let continue_token = continue_token.to_owned();
    Say::List(Ok(List { items, revision: Revision(revision), continue_token }))
}

/// The state of a streaming list, with its end.
pub fn state(items: Vec<Arc<Obj>>, revision: u64) -> Pull {
    let end = Event::Bookmark { revision: Revision(revision), initial_events_end: true };
    Ok((items.into_iter().map(Event::Added).chain([end]).collect(), true))
}

/// Answers what the script says, and waits for ever where it ends. Writes succeed and are logged.
pub struct Scripted {
    catalog: Arc<Catalog>,
    script: Mutex<VecDeque<Say>>,
    pub log: Mutex<Vec<String>>,
    /// Answers to reads of single objects and to writes, in order; where it ends: the object 404s, writes succeed.
    pub answers: Mutex<VecDeque<Result<Arc<Obj>, Status>>>,
    /// Bodies and patches sent.
    pub sent: Mutex<Vec<Value>>,
}

impl Scripted {
    /// What the n-th body or patch said at a path; `-` for nothing.
    pub fn said(&self, n: usize, path: &[&str]) -> String {
        match self.sent.lock()[n].at(path) {
            Some(Value::Int(i)) => i.to_string(),
            Some(value) => value.as_str().unwrap_or("?").to_owned(),
            None => "-".to_owned(),
        }
    }

    pub fn new(script: Vec<Say>) -> Arc<Scripted> {
        Arc::new(Scripted {
            catalog: Arc::new(Catalog::builtin()),
            script: Mutex::new(script.into()),
            log: Mutex::default(),
            answers: Mutex::default(),
            sent: Mutex::default(),
        })
    }
    pub fn log(&self) -> Vec<String> {
        self.log.lock().clone()
    }
    fn write<'a>(&'a self, verb: &str, target: Target<'a>, body: Value) -> Answer<'a, Arc<Obj>> {
        self.log.lock().push(format!("{verb} {}/{}", target.resource.plural, target.name));
        let name = body.str_at(&["metadata", "name"]).unwrap_or(target.name).to_owned();
        self.sent.lock().push(body);
        let answer = self.answers.lock().pop_front().unwrap_or_else(|| Ok(map_with(&name, "uid", 1, "")));
        Box::pin(async move { answer })
    }
}

impl Client for Scripted {
    fn catalog(&self) -> Arc<Catalog> {
        self.catalog.clone()
    }
    fn get<'a>(&'a self, target: Target<'a>) -> Answer<'a, Arc<Obj>> {
        self.log.lock().push(format!("get {}/{}", target.resource.plural, target.name));
        let about = object::About { group: &target.resource.group, resource: &target.resource.plural };
        let missing = || Err(Status::not_found(about, target.name));
        let answer = self.answers.lock().pop_front().unwrap_or_else(missing);
        Box::pin(async move { answer })
    }
    fn list<'a>(&'a self, _target: Target<'a>, options: ListOptions) -> Answer<'a, List> {
        let ListOptions { limit, continue_token, resource_version, .. } = &options;
        self.log.lock().push(format!("list at={resource_version} limit={limit} continue={continue_token}"));
        Box::pin(async move {
            let said = self.script.lock().pop_front();
            match said {
                Some(Say::List(answer)) => answer,
                Some(Say::Watch(_)) => panic!("a watch was expected"),
                None => pending().await,
            }
        })
    }
    fn watch<'a>(&'a self, _target: Target<'a>, options: WatchOptions) -> Answer<'a, Box<dyn Watch>> {
        assert!((300..600).contains(&options.timeout_seconds));
        let kind = if options.initial_events { "stream" } else { "watch" };
        self.log.lock().push(format!("{kind} at={}", options.resource_version));
        Box::pin(async move {
            let said = self.script.lock().pop_front();
            match said {
                Some(Say::Watch(answer)) => {
                    answer.map(|pulls| -> Box<dyn Watch> { Box::new(Pulls(pulls.into())) })
                }
                Some(Say::List(_)) => panic!("a list was expected"),
                None => pending().await,
            }
        })
    }
    fn create<'a>(
        &'a self,
        target: Target<'a>,
        body: Value,
        _options: WriteOptions<'a>,
    ) -> Answer<'a, Arc<Obj>> {
        self.write("create", target, body)
    }
    fn update<'a>(
        &'a self,
        target: Target<'a>,
        body: Value,
        _options: WriteOptions<'a>,
    ) -> Answer<'a, Arc<Obj>> {
        self.write("update", target, body)
    }
    fn patch<'a>(
        &'a self,
        target: Target<'a>,
        patch: Patch,
        _options: WriteOptions<'a>,
    ) -> Answer<'a, Arc<Obj>> {
        self.write("patch", target, patch.into_value())
    }
    fn delete<'a>(&'a self, _target: Target<'a>, _options: DeleteOptions) -> Answer<'a, ()> {
        Box::pin(async { Ok(()) })
    }
    fn delete_collection<'a>(
        &'a self,
        _target: Target<'a>,
        _options: DeleteOptions,
        _which: ListOptions,
    ) -> Answer<'a, ()> {
        Box::pin(async { Ok(()) })
    }
    fn act<'a>(&'a self, _target: Target<'a>, _body: Value, _options: WriteOptions<'a>) -> Answer<'a, ()> {
        Box::pin(async { Ok(()) })
    }
}

struct Pulls(VecDeque<Pull>);

impl Watch for Pulls {
    fn pull<'a>(&'a mut self, into: &'a mut Vec<Event>) -> Answer<'a, bool> {
        Box::pin(async move {
            match self.0.pop_front() {
                Some(Ok((events, more))) => {
                    into.extend(events);
                    Ok(more)
                }
                Some(Err(status)) => Err(status),
                None => pending().await,
            }
        })
    }
}
