//! Conversion webhooks of custom resources: which there are.

use std::collections::BTreeMap;
use std::sync::Arc;

use catalog::Storage;
use object::{Status, Value};
use parking_lot::Mutex;
use registry::ConversionWebhook;
use store::BoxFuture;
use webhook::conversion::Subject;
use webhook::{ConversionMetrics, Converter, WebhookClient};

use crate::deadline;

/// The webhooks of the CRDs that have one.
pub(crate) struct ConversionWebhooks {
    client: Arc<WebhookClient>,
    pub metrics: ConversionMetrics,
    /// By group and plural.
    converters: Mutex<BTreeMap<(String, String), Arc<Converter>>>,
}

impl ConversionWebhooks {
    pub fn new(client: Arc<WebhookClient>) -> ConversionWebhooks {
        ConversionWebhooks { client, metrics: ConversionMetrics::default(), converters: Mutex::default() }
    }

    /// Follows a CRD; `None`: it is gone, or not served.
    pub fn sync(&self, group: &str, plural: &str, crd: Option<&Value>) {
        let key = (group.to_owned(), plural.to_owned());
        match crd.map(Converter::from_crd) {
            Some(Ok(Some(converter))) => _ = self.converters.lock().insert(key, Arc::new(converter)),
            Some(Err(error)) => {
                tracing::warn!(group, resource = plural, %error, "the conversion webhook cannot be called");
                self.converters.lock().remove(&key);
            }
            _ => {
                self.converters.lock().remove(&key);
                self.metrics.forget(&format!("{plural}.{group}"));
            }
        }
    }

    pub async fn shutdown(&self) {
        self.client.shutdown().await;
    }
}

impl ConversionWebhook for ConversionWebhooks {
    fn convert<'a>(
        &'a self,
        storage: &'a Storage,
        objects: Vec<Value>,
        api_version: &'a str,
    ) -> BoxFuture<'a, Result<Vec<Value>, Status>> {
        let key = (storage.group.to_string(), storage.plural.to_string());
        let converter = self.converters.lock().get(&key).cloned();
        Box::pin(async move {
            let Some(converter) = converter else {
                let (plural, group) = (&storage.plural, &storage.group);
                return Err(Status::internal(format!("{plural}.{group} has no conversion webhook")));
            };
            converter
                .convert(&self.client, &self.metrics, objects, api_version, Subject::Objects, deadline::MAX)
                .await
                .map_err(|error| error.to_status())
        })
    }
}
