//! What controllers read of a claim: made once per revision and shared.

use object::Value;
use object::quantity::Quantity;
use object::selector::LabelSelector;

/// The class of claims and volumes before they had a field for it; it still comes first.
const OLD_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
pub const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
pub const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
pub const PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
pub const OLD_PROVISIONER: &str = "volume.beta.kubernetes.io/storage-provisioner";
pub const MIGRATED_TO: &str = "pv.kubernetes.io/migrated-to";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClaimPhase {
    #[default]
    Pending,
    Bound,
    Lost,
}

impl ClaimPhase {
    pub fn as_str(self) -> &'static str {
        match self {
            ClaimPhase::Pending => "Pending",
            ClaimPhase::Bound => "Bound",
            ClaimPhase::Lost => "Lost",
        }
    }
}

/// A set of access modes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccessModes(u8);

const MODES: [&str; 4] = ["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"];
/// No volume has it: a claim for a mode of a later version finds none.
const UNKNOWN: u8 = 1 << 7;

impl AccessModes {
    pub fn read(list: Option<&Value>) -> AccessModes {
        let bit = |mode: &Value| match MODES.iter().position(|known| mode.as_str() == Some(known)) {
            Some(at) => 1 << at,
            None => UNKNOWN,
        };
        let modes = list.and_then(Value::as_list).unwrap_or_default();
        AccessModes(modes.iter().fold(0, |set, mode| set | bit(mode)))
    }

    pub fn contains(self, wanted: AccessModes) -> bool {
        self.0 & wanted.0 == wanted.0
    }

    /// Every set of known modes that contains this one, those with the fewest modes first.
    pub fn supersets(self) -> impl Iterator<Item = AccessModes> {
        let of = move |count: u32| (0..1u8 << MODES.len()).filter(move |set| set.count_ones() == count);
        (0..=MODES.len() as u32).flat_map(of).map(AccessModes).filter(move |set| set.contains(self))
    }
}

/// The state of a claim. Labels, owners, uid and deletion are in the object's header already.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimView {
    /// Empty: none yet.
    pub volume: Box<str>,
    /// `None`: it asks for no class; an empty one is a choice too.
    pub class: Option<Box<str>>,
    /// Empty: none.
    pub attributes_class: Box<str>,
    pub modes: AccessModes,
    pub block: bool,
    pub requested: Quantity,
    /// `Err`: why it cannot be used.
    pub selector: Option<Result<LabelSelector, String>>,
    pub phase: ClaimPhase,
    pub bind_completed: bool,
    pub bound_by_controller: bool,
    /// Where the scheduler wants the volume to be.
    pub selected_node: Option<Box<str>>,
    /// Who is to make its volume.
    pub provisioner: Option<Box<str>>,
    /// What it has, by its status; zero: nothing yet.
    pub capacity: Quantity,
    /// `status.accessModes`, as they stand there.
    pub status_modes: Box<[Box<str>]>,
}

impl ClaimView {
    pub fn read(claim: &Value) -> ClaimView {
        let text = |path: &[&str]| Box::<str>::from(claim.str_at(path).unwrap_or(""));
        let annotation = |name: &str| annotation(claim, name).map(Box::from);
        ClaimView {
            volume: text(&["spec", "volumeName"]),
            class: annotation(OLD_CLASS)
                .or_else(|| claim.str_at(&["spec", "storageClassName"]).map(Box::from)),
            attributes_class: text(&["spec", "volumeAttributesClassName"]),
            modes: AccessModes::read(claim.at(&["spec", "accessModes"])),
            block: claim.str_at(&["spec", "volumeMode"]) == Some("Block"),
            requested: quantity(claim, &["spec", "resources", "requests", "storage"]),
            selector: claim
                .at(&["spec", "selector"])
                .filter(|s| !s.is_null())
                .map(LabelSelector::from_label_selector),
            phase: match claim.str_at(&["status", "phase"]) {
                Some("Bound") => ClaimPhase::Bound,
                Some("Lost") => ClaimPhase::Lost,
                _ => ClaimPhase::Pending,
            },
            bind_completed: self::annotation(claim, BIND_COMPLETED).is_some(),
            bound_by_controller: self::annotation(claim, BOUND_BY_CONTROLLER).is_some(),
            selected_node: annotation(SELECTED_NODE),
            provisioner: annotation(PROVISIONER).or_else(|| annotation(OLD_PROVISIONER)),
            capacity: quantity(claim, &["status", "capacity", "storage"]),
            status_modes: names(claim.at(&["status", "accessModes"])),
        }
    }

    /// Empty: no class.
    pub fn class_name(&self) -> &str {
        self.class.as_deref().unwrap_or("")
    }
}

pub fn annotation<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    object.at(&["metadata", "annotations"])?.get(name)?.as_str()
}

pub(crate) fn names(list: Option<&Value>) -> Box<[Box<str>]> {
    let list = list.and_then(Value::as_list).unwrap_or_default();
    list.iter().filter_map(Value::as_str).map(Box::from).collect()
}

/// The class of a volume, by the annotation first as for claims.
pub(crate) fn class_of_volume(volume: &Value) -> &str {
    annotation(volume, OLD_CLASS).or_else(|| volume.str_at(&["spec", "storageClassName"])).unwrap_or("")
}

/// Zero where there is none.
pub fn quantity(object: &Value, path: &[&str]) -> Quantity {
    object.str_at(path).and_then(|text| Quantity::parse(text).ok()).unwrap_or(Quantity::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn larger_sets_of_modes_come_later_and_unknown_modes_fit_nothing() {
        let modes = |names: &[&str]| {
            AccessModes::read(Some(&Value::List(names.iter().map(|name| Value::from(*name)).collect())))
        };
        let wanted = modes(&["ReadWriteOnce"]);
        let sets: Vec<AccessModes> = wanted.supersets().collect();
        assert_eq!(sets.len(), 8);
        assert_eq!(sets[0], wanted);
        assert_eq!(sets[1], modes(&["ReadOnlyMany", "ReadWriteOnce"]));
        assert_eq!(sets[7], modes(&MODES));
        assert_eq!(modes(&["ReadWriteOnce", "Later"]).supersets().count(), 0);
    }
}
