//! The newest of every volume, and the index of those that claims may have, in step with each other.

use std::sync::Arc;

use object::Obj;
use parking_lot::Mutex;
use runtime::{Informer, Key};

use super::index::{VolumeIndex, Wanted};
use crate::volumes::newest::Newest;

pub struct Volumes {
    newest: Newest,
    /// Guards the index: a volume is found and taken in one step.
    index: Mutex<VolumeIndex>,
}

/// A volume that is one claim's to bind.
pub struct Taken<'a> {
    volumes: &'a Volumes,
    volume: Arc<Obj>,
    given_back: bool,
}

impl Volumes {
    pub fn new(informer: &Arc<Informer>) -> Volumes {
        Volumes { newest: Newest::new(informer), index: Mutex::default() }
    }

    pub fn get(&self, key: &Key) -> Option<Arc<Obj>> {
        self.newest.get(key)
    }

    /// The informer tells of a version. `true`: a claim may have it now.
    pub fn saw(&self, volume: &Arc<Obj>) -> bool {
        self.newest.saw(volume);
        self.index.lock().put(volume)
    }

    pub fn gone(&self, volume: &Obj) {
        self.newest.gone(volume);
        self.index.lock().remove(volume);
    }

    /// The answer to a write. `true`: a claim may have it now.
    pub fn wrote(&self, volume: &Arc<Obj>) -> bool {
        let mut index = self.index.lock();
        self.newest.wrote(volume) && index.put(volume)
    }

    pub fn reserved_for(&self, claim: &Key) -> Vec<Box<str>> {
        self.index.lock().reserved_for(claim.as_str())
    }

    /// The best volume for a claim: nobody else is given it meanwhile.
    pub fn take_best(&self, wanted: &Wanted<'_>) -> Result<Option<Taken<'_>>, String> {
        let mut index = self.index.lock();
        while let Some(found) = index.find(wanted)? {
            // A change that no handler heard of is noticed here.
            match self.newest.get(&Key::of(&found)) {
                Some(newest) if newest.revision() > found.revision() || newest.uid() != found.uid() => {
                    index.remove(&found);
                    index.put(&newest);
                }
                Some(_) => {
                    index.take(found.name());
                    return Ok(Some(Taken { volumes: self, volume: found, given_back: false }));
                }
                None => index.remove(&found),
            }
        }
        Ok(None)
    }
}

impl Taken<'_> {
    pub fn volume(&self) -> &Arc<Obj> {
        &self.volume
    }

    /// Bound or not, it is no longer held; `Some`: it is free again.
    pub fn give_back(mut self) -> Option<Arc<Obj>> {
        self.given_back = true;
        let mut index = self.volumes.index.lock();
        let free = index.give_back(self.volume.name());
        let volume = index.get(self.volume.name()).cloned();
        volume.filter(|_| free)
    }
}

impl Drop for Taken<'_> {
    /// Also where the binding was cut off in the middle.
    fn drop(&mut self) {
        // Once: somebody else may hold it by now.
        if !self.given_back {
            self.volumes.index.lock().give_back(self.volume.name());
        }
    }
}
