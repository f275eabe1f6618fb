//! Secrets of type `kubernetes.io/service-account-token`: filled when their account is there, deleted when it is gone.
//!
//! Upstream's token controller; it stands here because only the server holds the key that signs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use catalog::StorageId;
use client::resources::{SECRETS, SERVICE_ACCOUNTS};
use client::{Client, Clients, DeleteOptions};
use codec::json;
use object::{Status, Value};
use table::{EventKind, Obj, Scope, Selection};

use crate::LocalClients;
use crate::chain::Api;
use crate::follow::Follow;

const TYPE: &str = "kubernetes.io/service-account-token";
const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";
/// What failed is tried again after a while, which doubles up to the last of these; so often, then not until it changes.
const AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(64));
const TRIES: u32 = 10;

pub async fn run(api: Arc<Api>) {
    let Some(tokens) = AccountTokens::new(api.clone()) else { return };
    let mut follow = Follow::new(&api, &[("", "secrets"), ("", "serviceaccounts")]);
    let mut due: BTreeMap<(String, String), u32> = BTreeMap::new();
    let mut again = AGAIN.0;
    loop {
        let wait = (!due.is_empty()).then_some(again);
        let Some(changes) = follow.changes(wait).await else { return };
        for change in changes {
            let gone = change.kind == EventKind::Deleted;
            for secret in tokens.concerned(&change.obj) {
                due.insert((secret.namespace().to_owned(), secret.name().to_owned()), 0);
            }
            if gone && tokens.is_token(&change.obj) {
                tokens.forget(&change.obj).await;
            }
        }
        let mut failed = BTreeMap::new();
        for ((namespace, name), tries) in std::mem::take(&mut due) {
            if let Err(status) = tokens.hold(&namespace, &name).await {
                let error = status.message;
                tracing::warn!(
                    namespace,
                    secret = name,
                    error,
                    "a service account's token secret is not as it should be"
                );
                if tries + 1 < TRIES {
                    failed.insert((namespace, name), tries + 1);
                }
            }
        }
        again = if failed.is_empty() { AGAIN.0 } else { (again * 2).min(AGAIN.1) };
        due = failed;
    }
}

struct AccountTokens {
    api: Arc<Api>,
    client: Arc<dyn Client>,
    secrets: StorageId,
    accounts: StorageId,
    /// The place of `type` among the selectable fields: most secrets need not be read.
    type_field: usize,
}

impl AccountTokens {
    fn new(api: Arc<Api>) -> Option<AccountTokens> {
        let catalog = api.registry().catalog();
        let stored =
            |plural: &str| catalog.storages().iter().find(|s| s.group.is_empty() && s.plural == *plural);
        let (secrets, accounts) = (stored("secrets")?, stored("serviceaccounts")?.id);
        let type_field = secrets.selectable.iter().position(|field| field.name == *"type")?;
        let secrets = secrets.id;
        // Upstream's token controller is the one that acts as the controller manager itself.
        let client = LocalClients::new(api.clone()).user("system:kube-controller-manager", &[]);
        Some(AccountTokens { api, client, secrets, accounts, type_field })
    }

    fn is_secret(&self, obj: &Obj) -> bool {
        obj.key().starts_with(&*self.api.registry().catalog().storage(self.secrets).prefix)
    }
    fn is_token(&self, obj: &Obj) -> bool {
        self.is_secret(obj) && obj.field(self.type_field) == TYPE
    }
    fn get(&self, storage: StorageId, namespace: &str, name: &str) -> Option<Arc<Obj>> {
        let registry = self.api.registry();
        registry.table().get(storage, &registry.catalog().storage(storage).key(namespace, name))
    }

    /// The secrets a changed secret or account is a matter of.
    fn concerned(&self, obj: &Arc<Obj>) -> Vec<Arc<Obj>> {
        if self.is_secret(obj) {
            return if self.is_token(obj) { vec![obj.clone()] } else { Vec::new() };
        }
        let within = Selection::everything(Scope::Namespace(obj.namespace().to_owned()));
        let Ok(page) = self.api.registry().table().list(self.secrets, &within, None, None, 0) else {
            return Vec::new();
        };
        let names_it = |secret: &Arc<Obj>| {
            self.is_token(secret) && annotation(&tree(secret), ACCOUNT_NAME) == obj.name()
        };
        page.items.into_iter().filter(names_it).collect()
    }

    fn account(&self, namespace: &str, name: &str, uid: &str) -> Option<Arc<Obj>> {
        let account = self.get(self.accounts, namespace, name)?;
        (uid.is_empty() || account.uid() == uid).then_some(account)
    }

    async fn hold(&self, namespace: &str, name: &str) -> Result<(), Status> {
        let Some(secret) = self.get(self.secrets, namespace, name) else { return Ok(()) };
        if !self.is_token(&secret) || secret.deleting() {
            return Ok(());
        }
        let mut body = tree(&secret);
        let account_name = annotation(&body, ACCOUNT_NAME).to_owned();
        if account_name.is_empty() {
            return Ok(());
        }
        let result = match self.account(namespace, &account_name, annotation(&body, ACCOUNT_UID)) {
            None => self.client.delete(SECRETS.of(&secret), DeleteOptions::exactly(&secret)).await,
            Some(account) => {
                if !self.fill(&mut body, &secret, &account)? {
                    return Ok(());
                }
                self.client.update(SECRETS.of(&secret), body).await.map(|_| ())
            }
        };
        match result {
            // Somebody was faster: that change wakes us again.
            Err(status) if matches!(status.code, 404 | 409) => Ok(()),
            result => result,
        }
    }

    /// `false`: it holds everything already.
    fn fill(&self, body: &mut Value, secret: &Obj, account: &Obj) -> Result<bool, Status> {
        let there = |name: &str| body.str_at(&["data", name]).unwrap_or("").to_owned();
        let ca = self.api.cluster().root_ca.as_ref().map(|pem| STANDARD.encode(pem));
        let ca = ca.filter(|ca| *ca != there("ca.crt"));
        let (lacks_namespace, lacks_token) = (there("namespace").is_empty(), there("token").is_empty());
        if ca.is_none() && !lacks_namespace && !lacks_token {
            return Ok(false);
        }
        let data = body.map_at(&["data"]);
        if let Some(ca) = ca {
            data.set("ca.crt", ca);
        }
        if lacks_namespace {
            data.set("namespace", STANDARD.encode(secret.namespace()));
        }
        if lacks_token {
            let signer = self.api.identity.service_accounts();
            let token = signer
                .legacy_token(secret.namespace(), account.name(), account.uid(), secret.name())
                .map_err(|error| Status::internal(format!("a token could not be signed: {error}")))?;
            data.set("token", STANDARD.encode(token));
        }
        let annotations = body.map_at(&["metadata", "annotations"]);
        annotations.set(ACCOUNT_NAME, account.name().to_owned());
        annotations.set(ACCOUNT_UID, account.uid().to_owned());
        Ok(true)
    }

    /// The account does not speak of a token that is gone.
    async fn forget(&self, secret: &Obj) {
        let body = tree(secret);
        let (name, uid) = (annotation(&body, ACCOUNT_NAME), annotation(&body, ACCOUNT_UID));
        // Five tries: people may be at it too.
        for _ in 0..5 {
            let Some(account) = self.account(secret.namespace(), name, uid) else { return };
            let mut body = tree(&account);
            let Some(Value::List(named)) = body.as_map_mut().and_then(|body| body.get_mut("secrets")) else {
                return;
            };
            let before = named.len();
            named.retain(|reference| reference.str_at(&["name"]) != Some(secret.name()));
            if named.len() == before {
                return;
            }
            match self.client.update(SERVICE_ACCOUNTS.of(&account), body).await {
                Err(status) if status.code == 409 => continue,
                Err(status) => {
                    let (account, error) = (account.name().to_owned(), status.message);
                    tracing::warn!(account, error, "a service account still names a secret that is gone");
                    return;
                }
                Ok(_) => return,
            }
        }
    }
}

fn tree(obj: &Obj) -> Value {
    json::parse(obj.body(), None).unwrap_or_else(|_| Value::map())
}

fn annotation<'a>(secret: &'a Value, name: &str) -> &'a str {
    secret.str_at(&["metadata", "annotations", name]).unwrap_or("")
}
