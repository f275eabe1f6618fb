//! A case is data: a request and its name. A scenario is an ordered list of them in a namespace of its own.
//!
//! Texts may hold marks that the player replaces, the same way for every server:
//!
//! | mark | becomes |
//! |---|---|
//! | `$NS` | the scenario's namespace |
//! | `$RUN` | a word no other run has: the beginning of every cluster-wide name |
//! | `$UID`, `$RV` | uid and resourceVersion of the last object this server answered with |
//! | `$RV1` | resourceVersion of the first one in this scenario |
//! | `$HOOK`, `$CA` | URL and CA bundle of the webhooks, in cases about admission |

use object::Value;

#[derive(Debug, Clone)]
pub struct Scenario {
    /// `v1 configmaps life`: what the names of its cases begin with.
    pub name: String,
    /// `v1 configmaps`: what `--only` and the summary go by.
    pub resource: String,
    /// About custom resources, whose errors kube-apiserver finds in the order of a Go map: any.
    pub custom: bool,
    pub steps: Vec<Step>,
}

impl Scenario {
    /// About admission: webhooks are configured, and what they are asked is compared too.
    pub fn is_admission(&self) -> bool {
        self.resource == crate::generate::admission::RESOURCE
    }
}

/// One request.
#[derive(Debug, Clone, Default)]
pub struct Step {
    pub name: String,
    pub method: &'static str,
    pub path: String,
    pub accept: Option<String>,
    pub content_type: Option<String>,
    pub body: Option<String>,
    /// Asked again until this holds: definitions of resources take effect some time after they are written.
    pub until: Option<Until>,
}

/// What a server's answer is waited for to be.
#[derive(Debug, Clone)]
pub struct Until {
    pub status: u16,
    /// Text that is in the normalised body, whose members are in alphabetical order.
    pub contains: String,
}

pub const JSON: &str = "application/json";
pub const MERGE: &str = "application/merge-patch+json";
pub const STRATEGIC: &str = "application/strategic-merge-patch+json";
pub const JSON_PATCH: &str = "application/json-patch+json";
pub const APPLY: &str = "application/apply-patch+yaml";
pub const YAML: &str = "application/yaml";
pub const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
pub const PARTIAL: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
pub const PARTIAL_LIST: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

impl Step {
    pub fn new(name: impl Into<String>, method: &'static str, path: impl Into<String>) -> Step {
        Step { name: name.into(), method, path: path.into(), ..Step::default() }
    }

    /// A request with an object in it.
    pub fn with(
        name: impl Into<String>,
        method: &'static str,
        path: impl Into<String>,
        body: &Value,
    ) -> Step {
        Step::text(name, method, path, JSON, text_of(body))
    }

    pub fn text(
        name: impl Into<String>,
        method: &'static str,
        path: impl Into<String>,
        content_type: &str,
        body: impl Into<String>,
    ) -> Step {
        Step {
            content_type: Some(content_type.to_owned()),
            body: Some(body.into()),
            ..Step::new(name, method, path)
        }
    }

    pub fn accept(mut self, media: &str) -> Step {
        self.accept = Some(media.to_owned());
        self
    }

    pub fn until(mut self, status: u16, contains: impl Into<String>) -> Step {
        self.until = Some(Until { status, contains: contains.into() });
        self
    }

    /// Tells two requests apart, for recorded answers: they belong to this request only.
    pub fn fingerprint(&self) -> String {
        let mut hash = Fnv::new();
        let none = String::new();
        for part in [
            &self.method.to_owned(),
            &self.path,
            self.accept.as_ref().unwrap_or(&none),
            self.content_type.as_ref().unwrap_or(&none),
            self.body.as_ref().unwrap_or(&none),
        ] {
            hash.add(part.as_bytes());
            hash.add(&[0]);
        }
        hash.text()
    }
}

/// FNV-1a: short, stable over machines and versions, which the standard library's hashers are not.
pub struct Fnv(u64);

impl Fnv {
    pub fn new() -> Fnv {
        Fnv(0xcbf2_9ce4_8422_2325)
    }

    pub fn of(text: &str) -> Fnv {
        let mut hash = Fnv::new();
        hash.add(text.as_bytes());
        hash
    }

    pub fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    pub fn number(&self) -> u64 {
        // The low bits of FNV mix badly; fold the high ones in.
        self.0 ^ (self.0 >> 32)
    }

    pub fn text(&self) -> String {
        format!("{:08x}", self.number() as u32)
    }
}

impl Default for Fnv {
    fn default() -> Self {
        Fnv::new()
    }
}

pub fn text_of(value: &Value) -> String {
    String::from_utf8_lossy(&codec::json::to_vec(value)).into_owned()
}

pub fn parse(text: &str) -> Option<Value> {
    codec::json::parse(text.as_bytes(), None).ok()
}
