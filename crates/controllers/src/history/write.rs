//! Writing a history down.

use std::sync::Arc;

use client::resources::CONTROLLER_REVISIONS;
use client::{DeleteOptions, WriteOptions};
use object::{Map, Obj, Status, Value};
use runtime::owners::{self, Claimant, Verdict};
use runtime::retry;

use super::{History, Revision, hash, name};

/// The label that carries the hash.
const HASH: &str = "controller.kubernetes.io/hash";

/// So many names are tried in one reconcile; each collision that was met is remembered, so the next goes on from there.
const TRIES: usize = 16;

/// A revision to be.
pub(crate) struct Draft<'a> {
    /// The owner's own reference.
    pub controller: Value,
    pub labels: Option<&'a Value>,
    pub annotations: Option<&'a Value>,
    pub data: Value,
    pub number: i64,
}

impl History {
    /// Under the first name that is free. One of the same data that has the name already is taken for it; every other is a collision.
    pub async fn create(
        &self,
        owner: &Obj,
        draft: Draft<'_>,
        collisions: &mut i64,
    ) -> Result<Revision, Status> {
        let data = codec::json::to_vec(&draft.data);
        let mut body = draft.into_body(&hash(&data, *collisions));
        let mut tries = 0;
        loop {
            let name = name(owner.name(), &hash(&data, *collisions));
            body.map_at(&["metadata"]).set("name", name.clone());
            let target = CONTROLLER_REVISIONS.within(owner.namespace());
            let refused = match self.client.create(target, body.clone(), WriteOptions::default()).await {
                Ok(created) => return Ok(Revision::new(created)),
                Err(refused) => refused,
            };
            tries += 1;
            if refused.reason != "AlreadyExists" || tries == TRIES {
                return Err(refused);
            }
            let there = self.client.get(CONTROLLER_REVISIONS.at(owner.namespace(), &name)).await?;
            let there = Revision::new(there);
            if there.data() == data {
                return Ok(there);
            }
            *collisions += 1;
        }
    }

    /// Makes it the newest.
    pub async fn renumber(&self, revision: &Revision, number: i64) -> Result<Revision, Status> {
        match self.write_number(&revision.obj, number).await {
            Err(refused) if retry::is_conflict(&refused) => {}
            other => return other,
        }
        retry::on_conflict(&self.env, retry::BUSY_WRITERS, || async {
            let fresh = self.client.get(CONTROLLER_REVISIONS.of(&revision.obj)).await?;
            self.write_number(&fresh, number).await
        })
        .await
    }

    async fn write_number(&self, obj: &Arc<Obj>, number: i64) -> Result<Revision, Status> {
        let there = Revision::new(obj.clone());
        if there.number() == number {
            return Ok(there);
        }
        let mut body = runtime::tree(obj);
        body.make_map().set("revision", number);
        let target = CONTROLLER_REVISIONS.of(obj);
        self.client.update(target, body, WriteOptions::default()).await.map(Revision::new)
    }

    /// One that is gone already is as good as deleted.
    pub async fn delete(&self, revision: &Revision) -> Result<(), Status> {
        let target = CONTROLLER_REVISIONS.of(&revision.obj);
        match self.client.delete(target, DeleteOptions::exactly(&revision.obj)).await {
            Err(refused) if refused.code != 404 => Err(refused),
            _ => Ok(()),
        }
    }

    /// Takes what nobody controls; `wrote` hears of each.
    pub async fn adopt_orphans(
        &self,
        claimant: &Claimant<'_>,
        revisions: &[Revision],
        wrote: &mut (dyn FnMut(&Obj) + Send),
    ) -> Result<(), Status> {
        let orphans = revisions.iter().filter(|revision| owners::controller_of(&revision.obj).is_none());
        let decided: Vec<_> = orphans.map(|orphan| (orphan.obj.clone(), Verdict::Adopt)).collect();
        let mut wrote = |_, adopted: &Obj| wrote(adopted);
        owners::apply(&*self.client, claimant, &CONTROLLER_REVISIONS, decided, &mut wrote).await?;
        Ok(())
    }
}

impl Draft<'_> {
    /// Without a name.
    fn into_body(self, hash: &str) -> Value {
        let mut body = Value::map();
        let metadata = body.map_at(&["metadata"]);
        let mut labels = self.labels.and_then(Value::as_map).cloned().unwrap_or_else(Map::default);
        labels.set(HASH, hash.to_owned());
        metadata.set("labels", Value::Map(labels));
        if let Some(annotations) = self.annotations {
            metadata.set("annotations", annotations.clone());
        }
        metadata.set("ownerReferences", Value::List(vec![self.controller]));
        let body_map = body.make_map();
        body_map.set("data", self.data);
        body_map.set("revision", self.number);
        body
    }
}
