//! Columns of the storage.k8s.io group.

use super::row::{Row, strings, text};
use super::{Cell, Column, Printer};

pub(super) static CSI_DRIVER: Printer = Printer::new(
    &[
        Column::NAME,
        Column::boolean("AttachRequired", "Whether volumes are attached before they are mounted."),
        Column::boolean("PodInfoOnMount", "Whether the driver is told of the pod."),
        Column::boolean("StorageCapacity", "Whether free capacity guides scheduling."),
        Column::text("TokenRequests", "Audiences of the tokens the driver is given."),
        Column::boolean("RequiresRepublish", "Whether mounted volumes are published again and again."),
        Column::text("Modes", "Life cycles of volumes the driver knows."),
        Column::AGE,
    ],
    csi_driver,
);

fn csi_driver(row: &Row<'_>, out: &mut Vec<Cell>) {
    let flag = |name, absent| Cell::from(row.flag(&["spec", name]).unwrap_or(absent));
    let tokens = row.list(&["spec", "tokenRequests"]);
    let audiences = match tokens {
        [] => "<unset>".to_owned(),
        _ => tokens.iter().map(|t| text(t, &["audience"])).collect::<Vec<_>>().join(","),
    };
    let modes = strings(row.list(&["spec", "volumeLifecycleModes"]));
    let modes = if modes.is_empty() { "<none>".to_owned() } else { modes.join(",") };
    out.extend([
        row.name(),
        flag("attachRequired", true),
        flag("podInfoOnMount", false),
        flag("storageCapacity", false),
        audiences.into(),
        flag("requiresRepublish", false),
        modes.into(),
        row.age(),
    ]);
}

pub(super) static CSI_NODE: Printer = Printer::new(
    &[Column::NAME, Column::integer("Drivers", "How many drivers the node has."), Column::AGE],
    |row, out| out.extend([row.name(), row.count(&["spec", "drivers"]).into(), row.age()]),
);

const DEFAULT_CLASS: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];

pub(super) static STORAGE_CLASS: Printer = Printer::new(
    &[
        Column::NAME,
        Column::text("Provisioner", "Who makes volumes of the class."),
        Column::text("ReclaimPolicy", "What becomes of a volume when its claim goes."),
        Column::text("VolumeBindingMode", "When volumes are made and bound."),
        Column::text("AllowVolumeExpansion", "Whether claims may grow."),
        Column::AGE,
    ],
    storage_class,
);

fn storage_class(row: &Row<'_>, out: &mut Vec<Cell>) {
    let name = row.text(&["metadata", "name"]);
    let default = DEFAULT_CLASS.iter().any(|a| row.annotation(a) == Some("true"));
    out.extend([
        if default { format!("{name} (default)").into() } else { name.into() },
        row.text(&["provisioner"]).into(),
        row.optional(&["reclaimPolicy"], "Delete").into(),
        row.optional(&["volumeBindingMode"], "Immediate").into(),
        row.flag(&["allowVolumeExpansion"]).unwrap_or(false).into(),
        row.age(),
    ]);
}

pub(super) static VOLUME_ATTACHMENT: Printer = Printer::new(
    &[
        Column::NAME,
        Column { format: "name", ..Column::text("Attacher", "Driver that attaches the volume.") },
        Column::text("PV", "Volume that is attached."),
        Column::text("Node", "Node it is attached to."),
        Column::boolean("Attached", "Whether it is attached by now."),
        Column::AGE,
    ],
    |row, out| {
        out.extend([
            row.name(),
            row.text(&["spec", "attacher"]).into(),
            row.text(&["spec", "source", "persistentVolumeName"]).into(),
            row.text(&["spec", "nodeName"]).into(),
            row.flag(&["status", "attached"]).unwrap_or(false).into(),
            row.age(),
        ]);
    },
);

pub(super) static VOLUME_ATTRIBUTES_CLASS: Printer = Printer::new(
    &[Column::NAME, Column::text("DriverName", "Driver the class is for."), Column::AGE],
    |row, out| out.extend([row.name(), row.text(&["driverName"]).into(), row.age()]),
);
