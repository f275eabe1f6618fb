//! Volume attachments: the settings of a volume written inline.

use object::Map;

use crate::defaults::fill::at;
use crate::pod;

pub(crate) fn apply(attachment: &mut Map) {
    let source = at(attachment, "spec").and_then(|spec| at(spec, "source"));
    if let Some(inline) = source.and_then(|source| at(source, "inlineVolumeSpec")) {
        pod::defaults::persistent_source(inline);
    }
}
