//! API services: named after what they serve; those of this server are available at once.

use object::{Map, Value};

use crate::kind::{Context, Kind};
use crate::rules::{Finalizers, NameRule, Rules, StatusMeta};

pub(crate) struct ApiService;
pub(crate) static KIND: ApiService = ApiService;

const RULES: Rules = Rules::PLAIN
    .with_name(NameRule::VersionAndGroup)
    .with_finalizers(Finalizers::Qualified)
    .with_status(StatusMeta::KeepAll);

impl Kind for ApiService {
    fn rules(&self) -> &Rules {
        &RULES
    }

    fn prepare_create(&self, new: &mut Value, ctx: &Context<'_>) {
        if new.at(&["spec", "service"]).is_some_and(|s| !s.is_null()) {
            return;
        }
        let mut available = Map::default();
        available.set("type", "Available");
        available.set("status", "True");
        available.set("lastTransitionTime", ctx.timestamp());
        available.set("reason", "Local");
        available.set("message", "Local APIServices are always available");
        new.map_at(&["status"]).set("conditions", vec![Value::Map(available)]);
    }
}
