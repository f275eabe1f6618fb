//! Volume attachments: the settings of a volume written inline.

use object::Map;

use super::fill::at;
use super::volume;

pub(crate) fn apply(attachment: &mut Map) {
    let source = at(attachment, "spec").and_then(|spec| at(spec, "source"));
    if let Some(inline) = source.and_then(|source| at(source, "inlineVolumeSpec")) {
        volume::persistent_source(inline);
    }
}
