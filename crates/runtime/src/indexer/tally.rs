//! What is known of all objects under one value of an index, without looking at them one by one.

use std::any::{Any, TypeId};

use object::Obj;

/// A sum over objects that follows every change: one change of a thousand objects costs as much as one of a single object.
pub trait Tally: Any + Default + Send + Sync {
    /// Reads what the tally will look at, before the cache is locked for it; see [`Obj::view`].
    fn prepare(_: &Obj) {}
    fn add(&mut self, obj: &Obj);
    /// Takes back what [`Tally::add`] did for this very revision of the object.
    fn remove(&mut self, obj: &Obj);
}

/// A [`Tally`] of any type.
pub(super) trait AnyTally: Any + Send + Sync {
    fn add(&mut self, obj: &Obj);
    fn remove(&mut self, obj: &Obj);
}

impl<T: Tally> AnyTally for T {
    fn add(&mut self, obj: &Obj) {
        Tally::add(self, obj);
    }
    fn remove(&mut self, obj: &Obj) {
        Tally::remove(self, obj);
    }
}

/// How a tally of one type begins.
pub(super) struct Empty {
    pub(super) ty: TypeId,
    pub(super) make: fn() -> Box<dyn AnyTally>,
    pub(super) prepare: fn(&Obj),
}

impl Empty {
    pub(super) fn of<T: Tally>() -> Empty {
        Empty { ty: TypeId::of::<T>(), make: || Box::<T>::default(), prepare: T::prepare }
    }
}
