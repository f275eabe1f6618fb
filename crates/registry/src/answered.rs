//! Bodies that are answered and never stored, reviews and requests for tokens: as in objects, their managers are noted in them.

use managed_fields::{FieldManager, TypeRef};
use object::Value;
use object::normalise::{Strict, normalise};

use crate::managed_fields::OneVersion;
use crate::{BodyType, Registry, RequestContext, convert};

impl Registry {
    /// Notes who asked what, in a body that is complete with its defaults. `request` has the options of the write.
    pub fn track_answered(&self, request: &RequestContext<'_>, of: BodyType<'_>, body: &mut Value) {
        let (api_version, ty) = (of.api_version(), TypeRef::built_in(of.schema, of.ty));
        let mut empty = Value::map();
        convert::set_type(&mut empty, of.kind, api_version.to_string());
        // A type always has an empty value.
        let _ = normalise(of.schema, of.ty, &mut empty, &mut Strict::off());
        let manager = FieldManager {
            api_version: &api_version,
            kind: of.kind,
            ty,
            subresource: request.subresource.unwrap_or(""),
            converter: &OneVersion { api_version: &api_version, ty },
            reset: &[],
            empty: &empty,
            now: self.env().now_seconds() as i64,
        };
        if let Err(error) = manager.update(&empty, body, &request.field_manager()) {
            tracing::warn!(kind = of.kind, %error, "the managers of a request's fields were dropped");
        }
    }
}
