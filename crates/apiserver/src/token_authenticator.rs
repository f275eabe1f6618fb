//! Authenticates bearer tokens: static, bootstrap and service account tokens in turn, against the current table.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use auth::service_account::{Authenticated, Found, Kind, Objects};
use auth::{ServiceAccounts, Tokens, UserInfo, bootstrap_token};
use catalog::Storage;
use codec::json;
use object::{Obj, Value, time};
use parking_lot::{Mutex, RwLock};
use registry::Registry;
use table::Table;
use tokio::sync::Notify;

/// What a TokenReview says about an unknown token.
const UNKNOWN: &str = "invalid bearer token";
/// How long a request waits for a store that does not answer; it has no deadline yet.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// All authenticators but client certificates.
pub struct TokenAuthenticator {
    tokens: Option<Tokens>,
    service_accounts: ServiceAccounts,
    bootstrap_tokens: bool,
    objects: TableObjects,
    /// Guards the external address of this server; written once, when its socket is bound.
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
    /// Legacy tokens that were used and whose Secrets do not say so yet.
    pub fn uses(&self) -> &UsedTokens {
        &self.objects.uses
    }
    pub fn external_address(&self) -> Option<String> {
        self.external_address.read().clone()
    }
    pub fn set_external_address(&self, address: String) {
        *self.external_address.write() = Some(address);
    }

    /// The user of a token for one of these audiences; or why not, for a TokenReview to show.
    pub async fn authenticate(
        &self,
        registry: &Registry,
        token: &str,
        wanted_audiences: &[String],
    ) -> Result<Authenticated, String> {
        let now = registry.env().now_nanos();
        // Tokens without audiences of their own are for this API.
        let ours = self.service_accounts.audiences().iter().filter(|a| wanted_audiences.contains(a));
        let audiences: Vec<String> = ours.cloned().collect();
        if !audiences.is_empty()
            && let Some(user) = self.static_user(token).or_else(|| self.bootstrap_user(token, now))
        {
            let user = Arc::new(user.authenticated());
            return Ok(Authenticated { user, audiences, warning: None });
        }
        let check = || self.service_accounts.authenticate(token, wanted_audiences, now, &self.objects);
        let mut checked = check();
        // Another server may have created the account or the pod a moment ago: check again after a linearizable read. Only tokens
        // with a valid signature can make us ask the store.
        if checked.as_ref().is_err_and(|refusal| refusal.may_be_stale)
            && let Ok(Ok(())) = registry.env().timeout(READ_TIMEOUT, registry.linearizable_read()).await
        {
            checked = check();
        }
        match checked {
            Ok(Some(authenticated)) => Ok(authenticated),
            Ok(None) => Err(UNKNOWN.to_owned()),
            // Upstream tries its loopback token first, and reports that failure too.
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
            tracing::debug!(secret = name, "bootstrap token refused");
        }
        user
    }
}

/// More than this are not remembered: a token that is used again is told of again.
const MOST_USED: usize = 1000;

/// The Secret of a legacy token.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct UsedToken {
    pub namespace: String,
    pub secret: String,
    pub uid: String,
}

/// Legacy tokens that were used, until somebody writes that down.
#[derive(Default)]
pub(crate) struct UsedTokens {
    /// Guards the tokens; never held while waiting.
    tokens: Mutex<BTreeSet<UsedToken>>,
    told: Notify,
}

impl UsedTokens {
    pub async fn changed(&self) {
        self.told.notified().await;
    }
    pub fn take(&self) -> BTreeSet<UsedToken> {
        std::mem::take(&mut *self.tokens.lock())
    }
    fn add(&self, token: UsedToken) {
        let mut tokens = self.tokens.lock();
        if tokens.len() < MOST_USED && tokens.insert(token) {
            self.told.notify_one();
        }
    }
}

/// The objects tokens refer to, from the table.
struct TableObjects {
    table: Arc<Table>,
    uses: UsedTokens,
    /// By [`Kind`], in its order.
    storages: [Option<Arc<Storage>>; 4],
}

impl TableObjects {
    fn new(table: Arc<Table>) -> TableObjects {
        let storages = ["serviceaccounts", "pods", "secrets", "nodes"]
            .map(|plural| table.catalog().find_storage("", plural).cloned());
        TableObjects { table, uses: UsedTokens::default(), storages }
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

    fn used(&self, secret: &Value) {
        let text = |name: &str| secret.str_at(&["metadata", name]).unwrap_or("").to_owned();
        self.uses.add(UsedToken { namespace: text("namespace"), secret: text("name"), uid: text("uid") });
    }
}
