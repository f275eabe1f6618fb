//! AlwaysPullImages: whoever wants to run an image must be able to pull it.

use object::{Value, quote};

use crate::tree::{items, text};
use crate::{Attempt, Effects, Operation, Plugin, Refusal};

pub struct AlwaysPullImages;

const LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

impl Plugin for AlwaysPullImages {
    fn name(&self) -> &'static str {
        "AlwaysPullImages"
    }

    fn mutate(&self, attempt: &Attempt<'_>, new: &mut Value, _: &mut Effects) -> Result<(), Refusal> {
        if !concerns(attempt, new) {
            return Ok(());
        }
        let spec = new.map_at(&["spec"]);
        for list in LISTS {
            let Some(Value::List(containers)) = spec.get_mut(list) else { continue };
            for container in containers {
                container.make_map().set("imagePullPolicy", "Always");
            }
        }
        if let Some(Value::List(volumes)) = spec.get_mut("volumes") {
            for volume in volumes {
                if let Some(Value::Map(image)) = volume.as_map_mut().and_then(|v| v.get_mut("image")) {
                    image.set("pullPolicy", "Always");
                }
            }
        }
        Ok(())
    }

    fn validate(&self, attempt: &Attempt<'_>, new: Option<&Value>, _: &mut Effects) -> Result<(), Refusal> {
        let Some(pod) = new.filter(|new| concerns(attempt, new)) else { return Ok(()) };
        let spec = pod.get("spec").unwrap_or(&Value::Null);
        for list in LISTS {
            for (i, container) in items(spec, list).iter().enumerate() {
                let policy = text(container, "imagePullPolicy");
                if policy != "Always" {
                    let why = format!(
                        "spec.{list}[{i}].imagePullPolicy: Unsupported value: {}: supported values: \"Always\"",
                        quote(policy)
                    );
                    return Err(attempt.forbidden(why).into());
                }
            }
        }
        Ok(())
    }
}

/// New pods, and updates that bring a new image.
fn concerns(attempt: &Attempt<'_>, new: &Value) -> bool {
    let images = |pod: &'_ Value| -> Vec<String> {
        let Some(spec) = pod.get("spec") else { return Vec::new() };
        LISTS.iter().flat_map(|l| items(spec, l)).map(|c| text(c, "image").to_owned()).collect()
    };
    attempt.is("", "pods")
        && match (attempt.operation, attempt.old) {
            (Operation::Create, _) => true,
            (Operation::Update, Some(old)) => {
                let there = images(old);
                images(new).iter().any(|image| !there.contains(image))
            }
            _ => false,
        }
}
