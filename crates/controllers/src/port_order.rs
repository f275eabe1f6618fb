//! The order of ports in Endpoints and EndpointSlices: by a hash of how Go prints them, for clients see the order.

/// Of a port of Endpoints.
pub fn in_endpoints(name: &str, port: i64, protocol: &str, app_protocol: Option<&str>) -> u128 {
    let app_protocol = app_protocol.unwrap_or("<nil>");
    fnv(&format!(
        "(v1.EndpointPort){{Name:(string){name} Port:(int32){port} Protocol:(v1.Protocol){protocol} \
         AppProtocol:(*string){app_protocol}}}"
    ))
}

/// Of a port of an EndpointSlice, where all is behind pointers and stands in another order.
pub fn in_slice(name: &str, port: i64, protocol: &str, app_protocol: Option<&str>) -> u128 {
    let app_protocol = app_protocol.unwrap_or("<nil>");
    fnv(&format!(
        "(v1.EndpointPort){{Name:(*string){name} Protocol:(*v1.Protocol){protocol} Port:(*int32){port} \
         AppProtocol:(*string){app_protocol}}}"
    ))
}

/// FNV-1a of 128 bits.
fn fnv(text: &str) -> u128 {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    text.bytes().fold(OFFSET, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_stand_as_kube_controller_manager_puts_them() {
        // Seen of v1.36.4 with a Service of the ports y (81) and x (90): y first in Endpoints, x first in the slice.
        assert!(in_endpoints("y", 81, "TCP", None) < in_endpoints("x", 90, "TCP", None));
        assert!(in_slice("x", 90, "TCP", None) < in_slice("y", 81, "TCP", None));
    }
}
