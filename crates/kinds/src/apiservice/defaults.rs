//! API services: the port of the service is that of HTTPS.

use object::Map;

use crate::defaults::fill::at;
use crate::webhookconfiguration;

pub(crate) fn apply(service: &mut Map) {
    if let Some(spec) = at(service, "spec") {
        webhookconfiguration::defaults::service_port(spec);
    }
}
