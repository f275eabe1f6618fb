//! FlowSchemas and PriorityLevelConfigurations, parsed from their objects.

use object::Value;

pub const EXEMPT: &str = "exempt";
pub const CATCH_ALL: &str = "catch-all";

/// A FlowSchema: which requests it matches, and their priority level.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowSchema {
    pub name: String,
    pub uid: String,
    pub matching_precedence: i64,
    pub level: String,
    pub distinguisher: Option<Distinguisher>,
    pub rules: Vec<Rule>,
}

/// The flow distinguisher method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distinguisher {
    ByUser,
    ByNamespace,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rule {
    pub subjects: Vec<Subject>,
    pub resources: Vec<ResourceRule>,
    pub non_resources: Vec<NonResourceRule>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Subject {
    User(String),
    Group(String),
    ServiceAccount { namespace: String, name: String },
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResourceRule {
    pub verbs: Names,
    pub groups: Names,
    pub resources: Names,
    pub namespaces: Names,
    pub cluster_scope: bool,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct NonResourceRule {
    pub verbs: Names,
    pub urls: Vec<String>,
}

/// A list of names, or all: `*` is only valid alone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Names {
    all: bool,
    names: Vec<String>,
}

impl Names {
    pub fn contains(&self, name: &str) -> bool {
        self.all || self.names.iter().any(|n| n == name)
    }

    /// Whether it contains `resource/subresource`, without allocating.
    pub fn contains_resource(&self, resource: &str, subresource: &str) -> bool {
        if self.all || subresource.is_empty() {
            return self.contains(resource);
        }
        let is_it = |n: &String| n.split_once('/') == Some((resource, subresource));
        self.names.iter().any(is_it)
    }

    fn read(value: Option<&Value>) -> Names {
        let names = strings(value);
        Names { all: names.len() == 1 && names[0] == "*", names }
    }
}

/// A PriorityLevelConfiguration: its seats, and its limit response.
#[derive(Clone, Debug, PartialEq)]
pub struct PriorityLevel {
    pub name: String,
    pub uid: String,
    pub shares: u32,
    pub lendable_percent: u32,
    /// Without one it may borrow without limit.
    pub borrowing_limit_percent: Option<u32>,
    pub response: Response,
}

/// The limit response: what happens to a request without a free seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Response {
    /// Never limited.
    Exempt,
    Reject,
    Queue {
        queues: u32,
        hand_size: u32,
        queue_length_limit: u32,
    },
}

impl FlowSchema {
    pub fn read(object: &Value) -> FlowSchema {
        let spec = |path: &[&str]| object.get("spec").and_then(|spec| spec.at(path));
        let distinguisher = match spec(&["distinguisherMethod", "type"]).and_then(Value::as_str) {
            Some("ByUser") => Some(Distinguisher::ByUser),
            Some("ByNamespace") => Some(Distinguisher::ByNamespace),
            _ => None,
        };
        FlowSchema {
            name: text(object, &["metadata", "name"]),
            uid: text(object, &["metadata", "uid"]),
            matching_precedence: spec(&["matchingPrecedence"]).and_then(Value::as_int).unwrap_or(1000),
            level: text(object, &["spec", "priorityLevelConfiguration", "name"]),
            distinguisher,
            rules: list(spec(&["rules"])).iter().map(Rule::read).collect(),
        }
    }

    /// The mandatory ones, in case their objects are missing.
    pub(crate) fn mandatory(name: &str) -> FlowSchema {
        let all = || Names { all: true, names: vec!["*".to_owned()] };
        let group = |name: &str| Subject::Group(name.to_owned());
        let subjects = match name {
            EXEMPT => vec![group(auth::groups::MASTERS)],
            _ => vec![group(auth::groups::UNAUTHENTICATED), group(auth::groups::AUTHENTICATED)],
        };
        let resource = ResourceRule {
            verbs: all(),
            groups: all(),
            resources: all(),
            namespaces: all(),
            cluster_scope: true,
        };
        let non_resource = NonResourceRule { verbs: all(), urls: vec!["*".to_owned()] };
        FlowSchema {
            name: name.to_owned(),
            uid: String::new(),
            matching_precedence: if name == EXEMPT { 1 } else { 10_000 },
            level: name.to_owned(),
            distinguisher: (name != EXEMPT).then_some(Distinguisher::ByUser),
            rules: vec![Rule { subjects, resources: vec![resource], non_resources: vec![non_resource] }],
        }
    }
}

impl Rule {
    fn read(rule: &Value) -> Rule {
        let names = |rule: &Value, field: &str| Names::read(rule.get(field));
        let resource = |rule: &Value| ResourceRule {
            verbs: names(rule, "verbs"),
            groups: names(rule, "apiGroups"),
            resources: names(rule, "resources"),
            namespaces: names(rule, "namespaces"),
            cluster_scope: rule.get("clusterScope").and_then(Value::as_bool).unwrap_or(false),
        };
        let non_resource = |rule: &Value| NonResourceRule {
            verbs: names(rule, "verbs"),
            urls: strings(rule.get("nonResourceURLs")),
        };
        Rule {
            subjects: list(rule.get("subjects")).iter().filter_map(Subject::read).collect(),
            resources: list(rule.get("resourceRules")).iter().map(resource).collect(),
            non_resources: list(rule.get("nonResourceRules")).iter().map(non_resource).collect(),
        }
    }
}

impl Subject {
    fn read(subject: &Value) -> Option<Subject> {
        let text = |path: &[&str]| subject.str_at(path).map(str::to_owned);
        match subject.get("kind").and_then(Value::as_str)? {
            "User" => Some(Subject::User(text(&["user", "name"])?)),
            "Group" => Some(Subject::Group(text(&["group", "name"])?)),
            "ServiceAccount" => Some(Subject::ServiceAccount {
                namespace: text(&["serviceAccount", "namespace"])?,
                name: text(&["serviceAccount", "name"])?,
            }),
            _ => None,
        }
    }
}

impl PriorityLevel {
    /// `None` if it is inconsistent: it is then ignored.
    pub fn read(object: &Value) -> Option<PriorityLevel> {
        let name = text(object, &["metadata", "name"]);
        let exempt = object.str_at(&["spec", "type"]) == Some("Exempt");
        // A level cannot become exempt or stop being exempt.
        if exempt != (name == EXEMPT) {
            return None;
        }
        let spec = object.at(&["spec", if exempt { "exempt" } else { "limited" }])?;
        let number = |path: &[&str]| {
            let number = spec.at(path).and_then(Value::as_int)?;
            u32::try_from(number).ok()
        };
        let response = match spec.str_at(&["limitResponse", "type"]) {
            _ if exempt => Response::Exempt,
            Some("Queue") => Response::Queue {
                queues: number(&["limitResponse", "queuing", "queues"])?.max(1),
                hand_size: number(&["limitResponse", "queuing", "handSize"])?.max(1),
                queue_length_limit: number(&["limitResponse", "queuing", "queueLengthLimit"])?.max(1),
            },
            _ => Response::Reject,
        };
        if let Response::Queue { queues, hand_size, .. } = response
            && hand_size > queues
        {
            return None;
        }
        Some(PriorityLevel {
            uid: text(object, &["metadata", "uid"]),
            shares: number(&["nominalConcurrencyShares"]).unwrap_or(if exempt { 0 } else { 30 }),
            lendable_percent: number(&["lendablePercent"]).unwrap_or(0).min(100),
            borrowing_limit_percent: number(&["borrowingLimitPercent"]),
            response,
            name,
        })
    }

    /// The mandatory ones, in case their objects are missing.
    pub(crate) fn mandatory(name: &str) -> PriorityLevel {
        let exempt = name == EXEMPT;
        PriorityLevel {
            name: name.to_owned(),
            uid: String::new(),
            shares: if exempt { 0 } else { 5 },
            lendable_percent: 0,
            borrowing_limit_percent: None,
            response: if exempt { Response::Exempt } else { Response::Reject },
        }
    }
}

fn text(object: &Value, path: &[&str]) -> String {
    object.str_at(path).unwrap_or("").to_owned()
}

fn list(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_list).unwrap_or(&[])
}

fn strings(value: Option<&Value>) -> Vec<String> {
    list(value).iter().filter_map(Value::as_str).map(str::to_owned).collect()
}
