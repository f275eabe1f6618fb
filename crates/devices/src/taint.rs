//! Taints of devices, and what tolerates them.

use object::{Map, Value};

use crate::read::{int, list, text};

/// Why a device should not be used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taint {
    pub key: String,
    pub value: String,
    pub effect: String,
    /// As it is stored.
    pub time_added: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Toleration {
    pub key: String,
    pub operator: String,
    pub value: String,
    pub effect: String,
    pub toleration_seconds: Option<i64>,
}

impl Taint {
    pub fn parse(value: &Value) -> Taint {
        let time_added = text(value, "timeAdded");
        Taint {
            key: text(value, "key").to_owned(),
            value: text(value, "value").to_owned(),
            effect: text(value, "effect").to_owned(),
            time_added: Some(time_added).filter(|time| !time.is_empty()).map(str::to_owned),
        }
    }

    pub(crate) fn parse_all(device: &Value) -> Vec<Taint> {
        list(device, "taints").iter().map(Taint::parse).collect()
    }

    /// Whether a device with it is given only to those who tolerate it. Effects nobody knows have none.
    pub fn prevents_allocation(&self) -> bool {
        matches!(self.effect.as_str(), "NoSchedule" | "NoExecute")
    }
}

impl Toleration {
    pub fn parse(value: &Value) -> Toleration {
        Toleration {
            key: text(value, "key").to_owned(),
            operator: text(value, "operator").to_owned(),
            value: text(value, "value").to_owned(),
            effect: text(value, "effect").to_owned(),
            toleration_seconds: int(value, "tolerationSeconds"),
        }
    }

    pub(crate) fn to_value(&self) -> Value {
        let mut toleration = Map::default();
        let members = [
            ("key", &self.key),
            ("operator", &self.operator),
            ("value", &self.value),
            ("effect", &self.effect),
        ];
        for (name, text) in members.into_iter().filter(|(_, text)| !text.is_empty()) {
            toleration.set(name, text.as_str());
        }
        if let Some(seconds) = self.toleration_seconds {
            toleration.set("tolerationSeconds", seconds);
        }
        Value::Map(toleration)
    }

    /// No effect and no key stand for all of them.
    pub fn tolerates(&self, taint: &Taint) -> bool {
        (self.effect.is_empty() || self.effect == taint.effect)
            && (self.key.is_empty() || self.key == taint.key)
            && match self.operator.as_str() {
                "" | "Equal" => self.value == taint.value,
                "Exists" => true,
                _ => false,
            }
    }
}
