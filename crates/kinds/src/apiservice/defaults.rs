//! API services: the service behind one answers where HTTPS does.

use object::Map;

use crate::defaults::fill::at;
use crate::webhookconfiguration;

pub(crate) fn apply(service: &mut Map) {
    if let Some(spec) = at(service, "spec") {
        webhookconfiguration::defaults::service_port(spec);
    }
}
