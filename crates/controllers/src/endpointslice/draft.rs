//! Slices to make, change and delete: what the controllers that write EndpointSlices decide.

use std::collections::{BTreeMap, BTreeSet};

use super::slice::{Endpoint, Port, SliceView};
use crate::services::Family;

/// What a slice shall hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Draft {
    pub address_type: Family,
    pub ports: Vec<Port>,
    pub endpoints: Vec<Endpoint>,
    pub labels: BTreeMap<String, String>,
    /// `None`: they stay as they are.
    pub annotations: Option<BTreeMap<String, String>>,
}

/// Slices are named by their place in the list given; `notes` are what only one controller has to say.
#[derive(Debug, Default, PartialEq)]
pub struct Plan<Notes> {
    pub create: Vec<Draft>,
    pub update: Vec<(usize, Draft)>,
    pub delete: Vec<usize>,
    pub notes: Notes,
}

impl Draft {
    /// The slice as it is.
    pub fn of(slice: &SliceView, family: Family) -> Draft {
        Draft {
            address_type: family,
            ports: slice.ports.clone(),
            endpoints: slice.endpoints.clone(),
            labels: slice.labels.clone(),
            annotations: None,
        }
    }
}

impl<Notes> Plan<Notes> {
    pub fn describe(&self) -> String {
        let (create, update, delete) = (self.create.len(), self.update.len(), self.delete.len());
        format!("create {create}, update {update}, delete {delete}")
    }
    /// Of these slices those that stay as they are, so far.
    pub fn untouched(&self, there: &[usize]) -> Vec<usize> {
        let touched: BTreeSet<usize> =
            self.update.iter().map(|(i, _)| *i).chain(self.delete.iter().copied()).collect();
        there.iter().copied().filter(|i| !touched.contains(i)).collect()
    }
    pub fn drafts(&self) -> impl Iterator<Item = &Draft> {
        self.create.iter().chain(self.update.iter().map(|(_, draft)| draft))
    }
    pub fn drafts_mut(&mut self) -> impl Iterator<Item = &mut Draft> {
        self.create.iter_mut().chain(self.update.iter_mut().map(|(_, draft)| draft))
    }
}
