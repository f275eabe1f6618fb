//! The ConversionReview that asks.

use object::Value;

use crate::review::Expected;

/// A version of ConversionReview.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewVersion {
    V1,
    V1beta1,
}

impl ReviewVersion {
    /// The first in the CRD's list that we know.
    pub fn choose<'a>(versions: impl IntoIterator<Item = &'a str>) -> Option<ReviewVersion> {
        versions.into_iter().find_map(|version| match version {
            "v1" => Some(ReviewVersion::V1),
            "v1beta1" => Some(ReviewVersion::V1beta1),
            _ => None,
        })
    }

    pub fn expected(self) -> Expected {
        let version = match self {
            ReviewVersion::V1 => "v1",
            ReviewVersion::V1beta1 => "v1beta1",
        };
        Expected { group: "apiextensions.k8s.io", version, kind: "ConversionReview" }
    }
}

/// A review of the first objects, and how many they are: at least one, and no more after `limit` bytes.
pub fn question<'a>(
    version: ReviewVersion,
    uid: &str,
    desired: &str,
    objects: impl IntoIterator<Item = &'a Value>,
    limit: usize,
) -> (Vec<u8>, usize) {
    let mut out = Vec::with_capacity(1024);
    out.extend_from_slice(br#"{"kind":"ConversionReview","apiVersion":""#);
    out.extend_from_slice(version.expected().api_version().as_bytes());
    out.extend_from_slice(br#"","request":{"uid":"#);
    codec::json::write_string(uid, &mut out);
    out.extend_from_slice(br#","desiredAPIVersion":"#);
    codec::json::write_string(desired, &mut out);
    out.extend_from_slice(br#","objects":["#);
    let mut count = 0;
    for object in objects {
        if count > 0 {
            out.push(b',');
        }
        codec::json::write(object, &mut out);
        count += 1;
        if out.len() >= limit {
            break;
        }
    }
    // Upstream sends the empty answer along.
    out.extend_from_slice(br#"]},"response":{"uid":"","convertedObjects":null,"result":{"metadata":{}}}}"#);
    out.push(b'\n');
    (out, count)
}
