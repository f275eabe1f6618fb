//! What `kubectl explain` says of the fields that every object has. Other built-in types have no descriptions.

const OBJECT_META: [(&str, &str); 15] = [
    ("annotations", "Annotations are arbitrary text by key, for tools and people; they are not selected by."),
    (
        "creationTimestamp",
        "CreationTimestamp is a timestamp of the moment the server created the object. It is set by the server and never changes.",
    ),
    (
        "deletionGracePeriodSeconds",
        "DeletionGracePeriodSeconds is how long the object may take to end once its deletion was asked for. It can only be shortened.",
    ),
    (
        "deletionTimestamp",
        "DeletionTimestamp is the moment after which the object is to be gone. The server sets it when the deletion is asked for; an object \
         with finalizers stays until the last of them is removed.",
    ),
    (
        "finalizers",
        "Finalizers are who must do something before the object is removed. Each removes its own entry when it is done.",
    ),
    ("generateName", "GenerateName is a prefix the server makes a unique name from, if no name is given."),
    ("generation", "Generation is a number the server counts up with each change of the desired state."),
    ("labels", "Labels are short texts by key that objects are selected and grouped by."),
    (
        "managedFields",
        "ManagedFields says who set which fields, and how. It is maintained by the server for server-side apply.",
    ),
    ("name", "Name identifies the object among those of its kind and namespace. It cannot be changed."),
    (
        "namespace",
        "Namespace is the space in which the name must be unique. Not every kind has one. It cannot be changed.",
    ),
    (
        "ownerReferences",
        "OwnerReferences are the objects this one depends on: when all of them are gone it is garbage collected. At most one of them is the \
         managing controller.",
    ),
    (
        "resourceVersion",
        "ResourceVersion is the version of the object as the server stored it, to be treated as opaque: for watches, and to update only \
         what has not changed meanwhile.",
    ),
    ("selfLink", "SelfLink is no longer filled in by the server."),
    ("uid", "UID identifies the object in time and space: another object of the same name has another one."),
];

/// The description of a type's field, if it has one.
pub(crate) fn of_field(ty: &str, field: &str) -> Option<&'static str> {
    let known = OBJECT_META.iter().find(|(name, _)| *name == field && ty == "meta.v1.ObjectMeta");
    known.map(|(_, description)| *description)
}
