//! Who are you, for bearers of tokens: each kind of token is asked in turn, on the table as it stands now.

use std::sync::Arc;
use std::time::Duration;

use auth::service_account::{Authenticated, Found, Kind, Objects};
use auth::{ServiceAccounts, Tokens, UserInfo, bootstrap_token};
use catalog::Storage;
use codec::json;
use object::{Obj, Value, time};
use parking_lot::RwLock;
use registry::Registry;
use table::Table;

/// What a TokenReview says about a token nobody knows.
const UNKNOWN: &str = "invalid bearer token";
/// How long a token waits for a store that does not answer: nobody has been let in yet.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// Everything that proves an identity but certificates.
pub struct TokenAuthenticator {
    tokens: Option<Tokens>,
    service_accounts: ServiceAccounts,
    bootstrap_tokens: bool,
    objects: TableObjects,
    /// Guards the address others reach this server by; written once, when its socket is bound.
    external_address: RwLock<Option<String>>,
}

impl TokenAuthenticator {
    pub fn new(
        table: Arc<Table>,
        tokens: Option<Tokens>,
        service_accounts: ServiceAccounts,
        bootstrap_tokens: bool,
    ) -> TokenAuthenticator {
        let objects = TableObjects::new(table);
        TokenAuthenticator {
            tokens,
            service_accounts,
            bootstrap_tokens,
            objects,
            external_address: RwLock::new(None),
        }
    }

    pub fn service_accounts(&self) -> &ServiceAccounts {
        &self.service_accounts
    }
    pub fn objects(&self) -> &dyn Objects {
        &self.objects
    }
    pub fn external_address(&self) -> Option<String> {
        self.external_address.read().clone()
    }
    pub fn set_external_address(&self, address: String) {
        *self.external_address.write() = Some(address);
    }

    /// The bearer of a token that is for one of these audiences; or why not, for a TokenReview to show.
    pub async fn authenticate(
        &self,
        registry: &Registry,
        token: &str,
        wanted_audiences: &[String],
    ) -> Result<Authenticated, String> {
        let now = registry.env().now_nanos();
        // The kinds without audiences of their own are for this API.
        let ours = self.service_accounts.audiences().iter().filter(|a| wanted_audiences.contains(a));
        let audiences: Vec<String> = ours.cloned().collect();
        if !audiences.is_empty()
            && let Some(user) = self.static_user(token).or_else(|| self.bootstrap_user(token, now))
        {
            return Ok(Authenticated { user: Arc::new(user.authenticated()), audiences });
        }
        let check = || self.service_accounts.authenticate(token, wanted_audiences, now, &self.objects);
        let mut checked = check();
        // Another server may have made the account or the pod a moment ago: look again at a table that is as
        // new as any. Only bearers of good signatures can make us ask the store.
        if checked.as_ref().is_err_and(|refusal| refusal.may_be_stale)
            && let Ok(Ok(())) = registry.env().timeout(READ_TIMEOUT, registry.linearizable_read()).await
        {
            checked = check();
        }
        match checked {
            Ok(Some(authenticated)) => Ok(authenticated),
            Ok(None) => Err(UNKNOWN.to_owned()),
            // Upstream asks for its own token first, and tells that this is not it.
            Err(refusal) => Err(format!("[{UNKNOWN}, {}]", refusal.message)),
        }
    }

    fn static_user(&self, token: &str) -> Option<UserInfo> {
        self.tokens.as_ref()?.authenticate(token)
    }

    fn bootstrap_user(&self, token: &str, now_nanos: u128) -> Option<UserInfo> {
        let name = bootstrap_token::secret_name(token).filter(|_| self.bootstrap_tokens)?;
        let secret = self.objects.read(Kind::Secret, bootstrap_token::NAMESPACE, &name)?;
        let user = bootstrap_token::authenticate(token, &secret, now_nanos);
        if user.is_none() {
            tracing::debug!(secret = name, "a bootstrap token was refused");
        }
        user
    }
}

/// Tokens' view of the table.
struct TableObjects {
    table: Arc<Table>,
    /// By [`Kind`], in its order.
    storages: [Option<Arc<Storage>>; 4],
}

impl TableObjects {
    fn new(table: Arc<Table>) -> TableObjects {
        let storages = ["serviceaccounts", "pods", "secrets", "nodes"]
            .map(|plural| table.catalog().find_storage("", plural).cloned());
        TableObjects { table, storages }
    }

    fn get(&self, kind: Kind, namespace: &str, name: &str) -> Option<Arc<Obj>> {
        let storage = self.storages[kind as usize].as_ref()?;
        self.table.get(storage.id, &storage.key(namespace, name))
    }
}

impl Objects for TableObjects {
    fn find(&self, kind: Kind, namespace: &str, name: &str) -> Option<Found> {
        let obj = self.get(kind, namespace, name)?;
        let deleted_at = || {
            let metadata = json::parse(obj.metadata(), None).ok()?;
            time::parse(metadata.str_at(&["deletionTimestamp"])?).map(|t| t.0)
        };
        let deleted_at = if obj.deleting() { deleted_at() } else { None };
        Some(Found { uid: obj.uid().to_owned(), deleted_at })
    }

    fn read(&self, kind: Kind, namespace: &str, name: &str) -> Option<Value> {
        json::parse(self.get(kind, namespace, name)?.body(), None).ok()
    }
}
