//! A client for each controller of a process that runs outside the server.

use std::sync::Arc;

use client::{CONTROLLERS, Client, Clients, field_manager_of};

use crate::client::HttpClient;
use crate::credentials::Impersonate;

/// Who the controllers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identities {
    /// All of them the one user of the configuration, who must be allowed everything they do.
    Own,
    /// Each as itself, by impersonation: the configuration's user must be allowed to impersonate service accounts in
    /// kube-system, and users and groups.
    Impersonated,
}

#[derive(Clone)]
pub struct HttpClients {
    client: HttpClient,
    identities: Identities,
}

impl HttpClients {
    pub fn new(client: HttpClient, identities: Identities) -> HttpClients {
        HttpClients { client, identities }
    }

    fn client(&self, field_manager: &str, who: impl FnOnce() -> Impersonate) -> Arc<dyn Client> {
        let client = self.client.with_field_manager(field_manager);
        Arc::new(match self.identities {
            Identities::Own => client,
            Identities::Impersonated => client.acting_as(&who()),
        })
    }
}

impl Clients for HttpClients {
    fn controller(&self, name: &str) -> Arc<dyn Client> {
        self.client(CONTROLLERS, || Impersonate::service_account("kube-system", name))
    }
    fn user(&self, name: &str, groups: &[&str]) -> Arc<dyn Client> {
        self.client(field_manager_of(name), || Impersonate::user(name, groups))
    }
}
