//! API services: the service behind one answers where HTTPS does.

use object::Map;

use super::fill::at;
use super::webhookconfiguration;

pub(crate) fn apply(service: &mut Map) {
    if let Some(spec) = at(service, "spec") {
        webhookconfiguration::service_port(spec);
    }
}
