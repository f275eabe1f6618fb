//! What the container runtime says about itself, and the images it has.

use cri::{ListImagesRequest, Runtime, RuntimeHandler, StatusRequest, VersionRequest};
use object::{Map, Value};

/// Names of one image that are shown.
const MOST_NAMES: usize = 5;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct RuntimeFacts {
    pub name: String,
    /// Empty: it did not say.
    pub version: String,
    /// Names and sizes, largest first.
    pub images: Vec<(Vec<String>, i64)>,
    pub handlers: Vec<RuntimeHandler>,
    /// `None`: it knows no features.
    pub supplemental_groups_policy: Option<bool>,
}

impl RuntimeFacts {
    /// Asks the runtime.
    pub async fn read(runtime: &dyn Runtime) -> Result<RuntimeFacts, cri::Error> {
        let version = runtime.version(VersionRequest::default()).await?;
        let status = runtime.status(StatusRequest::default()).await?;
        let images = runtime.list_images(ListImagesRequest::default()).await?;
        Ok(RuntimeFacts {
            name: version.runtime_name,
            version: version.runtime_version,
            images: sorted(images.images),
            handlers: status.runtime_handlers,
            supplemental_groups_policy: status.features.map(|features| features.supplemental_groups_policy),
        })
    }

    pub fn version(&self) -> String {
        let known =
            |text: &str, else_: &str| if text.is_empty() { else_.to_owned() } else { text.to_owned() };
        format!("{}://{}", known(&self.name, "setpoint"), known(&self.version, "Unknown"))
    }

    /// Its fields of the Node's status; at most so many images, all if that is negative.
    pub fn status(&self, most_images: i64) -> Map {
        let most = usize::try_from(most_images).unwrap_or(usize::MAX);
        let image = |(names, bytes): &(Vec<String>, i64)| {
            let mut image = Map::with_capacity(2);
            image.set("names", Value::List(names.iter().map(|name| Value::from(&**name)).collect()));
            image.set("sizeBytes", Value::Int(*bytes));
            Value::Map(image)
        };
        let handler = |handler: &RuntimeHandler| {
            let features = handler.features.as_ref();
            let mut known = Map::with_capacity(2);
            let mounts = features.is_some_and(|features| features.recursive_read_only_mounts);
            known.set("recursiveReadOnlyMounts", Value::Bool(mounts));
            known.set(
                "userNamespaces",
                Value::Bool(features.is_some_and(|features| features.user_namespaces)),
            );
            let mut out = Map::with_capacity(2);
            out.set("name", &*handler.name);
            out.set("features", known);
            Value::Map(out)
        };
        let mut status = Map::with_capacity(4);
        status.set("images", Value::List(self.images.iter().take(most).map(image).collect()));
        status.set("runtimeHandlers", Value::List(self.handlers.iter().map(handler).collect()));
        if let Some(policy) = self.supplemental_groups_policy {
            let mut features = Map::with_capacity(1);
            features.set("supplementalGroupsPolicy", Value::Bool(policy));
            status.set("features", features);
        }
        status
    }
}

fn sorted(images: Vec<cri::Image>) -> Vec<(Vec<String>, i64)> {
    let named = |image: cri::Image| {
        let names = image.repo_digests.into_iter().chain(image.repo_tags).take(MOST_NAMES).collect();
        (names, i64::try_from(image.size).unwrap_or(i64::MAX))
    };
    let mut all: Vec<(Vec<String>, i64)> = images.into_iter().map(named).collect();
    // Of one size, by name: the list must not change by itself.
    all.sort_by(|(a, a_size), (b, b_size)| b_size.cmp(a_size).then_with(|| a.cmp(b)));
    all
}
