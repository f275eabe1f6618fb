//! Which plugins run, and in which order.

use std::sync::Arc;

use auth::{Attributes, Decision, UserInfo};
use catalog::Storage;
use object::Value;

use crate::certificates::{CertificateApproval, CertificateSigning, CertificateSubjectRestriction};
use crate::namespace_lifecycle::NamespaceLifecycle;
use crate::node_restriction::NodeRestriction;
use crate::resource_quota::ResourceQuota;
use crate::{Allotter, Attempt, Effects, Plugin, Refusal};

/// May they? For plugins that ask on someone's behalf.
pub type Authorize = Arc<dyn Fn(&UserInfo, &Attributes<'_>) -> Decision + Send + Sync>;

/// What the flags say, by plugin name.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    pub enable: Vec<String>,
    pub disable: Vec<String>,
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("there is no admission plugin {name}; there are: {known}")]
pub struct UnknownPlugin {
    name: String,
    known: String,
}

/// The plugins of one cluster in upstream's order.
pub struct Chain {
    plugins: Vec<Box<dyn Plugin>>,
    /// By group and plural of the stored resource.
    allotters: Vec<(&'static str, &'static str, Box<dyn Allotter>)>,
}

/// One row a plugin: how it is made, and whether it runs unless a flag says otherwise.
struct Row {
    plugin: Box<dyn Plugin>,
    by_default: bool,
}

fn on(plugin: impl Plugin + 'static) -> Row {
    Row { plugin: Box::new(plugin), by_default: true }
}

#[allow(dead_code)]
fn off(plugin: impl Plugin + 'static) -> Row {
    Row { plugin: Box::new(plugin), by_default: false }
}

/// Every plugin there is, in the order they run (upstream's).
fn rows(authorize: &Authorize) -> Vec<Row> {
    vec![
        on(NamespaceLifecycle),
        on(NodeRestriction(authorize.clone())),
        on(CertificateApproval(authorize.clone())),
        on(CertificateSigning(authorize.clone())),
        on(CertificateSubjectRestriction),
        on(ResourceQuota::default()),
    ]
}

impl Chain {
    /// The default plugins, with what the flags change, and `always` at the end: rules nobody can switch off.
    pub fn new(
        choice: &Choice,
        authorize: &Authorize,
        always: Vec<Box<dyn Plugin>>,
    ) -> Result<Chain, UnknownPlugin> {
        let rows = rows(authorize);
        for name in choice.enable.iter().chain(&choice.disable) {
            if !rows.iter().any(|row| row.plugin.name() == name) {
                let known: Vec<&str> = rows.iter().map(|row| row.plugin.name()).collect();
                return Err(UnknownPlugin { name: name.clone(), known: known.join(", ") });
            }
        }
        let named = |names: &[String], row: &Row| names.iter().any(|n| n == row.plugin.name());
        let chosen = rows
            .into_iter()
            .filter(|row| named(&choice.enable, row) || (row.by_default && !named(&choice.disable, row)));
        let plugins = chosen.map(|row| row.plugin).chain(always).collect();
        Ok(Chain { plugins, allotters: Vec::new() })
    }

    /// Gives one stored resource its allotter.
    pub fn allot(mut self, group: &'static str, plural: &'static str, by: impl Allotter + 'static) -> Chain {
        self.allotters.push((group, plural, Box::new(by)));
        self
    }

    pub fn mutate(
        &self,
        attempt: &Attempt<'_>,
        new: &mut Value,
        effects: &mut Effects,
    ) -> Result<(), Refusal> {
        self.plugins.iter().try_for_each(|plugin| plugin.mutate(attempt, new, effects))
    }

    pub fn validate(
        &self,
        attempt: &Attempt<'_>,
        new: Option<&Value>,
        effects: &mut Effects,
    ) -> Result<(), Refusal> {
        self.plugins.iter().try_for_each(|plugin| plugin.validate(attempt, new, effects))
    }

    /// Who allots something to objects of this resource.
    pub fn allotter(&self, storage: &Storage) -> Option<&dyn Allotter> {
        let found = self
            .allotters
            .iter()
            .find(|(group, plural, _)| storage.plural == *plural && storage.group == *group);
        found.map(|(_, _, allotter)| &**allotter)
    }
}
