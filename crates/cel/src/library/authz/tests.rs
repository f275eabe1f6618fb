//! What an authorizer is asked, and what comes back.

use std::sync::{Arc, Mutex};

use super::*;
use crate::cost::{ActualCall, EstimatedCall, Node};

/// Allows what names `yes`, and writes down what it was asked.
#[derive(Default)]
struct Recorder(Mutex<Vec<String>>);

impl Authorizer for Recorder {
    fn authorize(&self, attributes: &Attributes<'_>) -> Decision {
        let target = match &attributes.target {
            Target::Path(path) => format!("path {path}"),
            Target::Resource(r) => {
                let selector = |selector: Option<Result<String, String>>| match selector {
                    None => String::from("-"),
                    Some(Ok(text)) => text,
                    Some(Err(_)) => String::from("bad"),
                };
                let fields = selector(r.field_selector.clone().map(|s| s.map(|s| s.to_string())));
                let labels = selector(r.label_selector.clone().map(|s| s.map(|s| s.to_string())));
                format!(
                    "{}/{}/{} {}/{} {fields} {labels}",
                    r.group, r.resource, r.subresource, r.namespace, r.name
                )
            }
        };
        self.0.lock().unwrap().push(format!("{:?} {} {target}", attributes.subject, attributes.verb));
        let error = (attributes.verb == "fail").then(|| String::from("webhook failed"));
        Decision { allowed: target.contains("yes"), reason: String::from("because"), error }
    }
}

/// Calls members one after the other.
fn chain(start: Val<'static>, calls: &[(&str, &[&'static str])]) -> Result<Val<'static>, Error> {
    let functions: Vec<Function> = library().functions.into_iter().chain(selectors().functions).collect();
    calls.iter().try_fold(start, |receiver, (name, arguments)| {
        let function = functions.iter().find(|function| function.name == *name).expect("a function");
        let fits = |overload: &&Overload| overload.parameters[0].name() == receiver.ty().name();
        let overload = function.overloads.iter().find(fits).expect("an overload");
        let mut args = vec![receiver.clone()];
        args.extend(arguments.iter().map(|text| Val::from(*text)));
        overload.call.expect("a body")(&args)
    })
}

#[test]
fn checks_reach_the_authorizer_as_they_were_built() {
    let recorder = Arc::new(Recorder::default());
    let start = || authorizer(recorder.clone());
    let allowed = |calls: &[(&str, &[&'static str])]| {
        let mut calls = calls.to_vec();
        calls.extend([("check", &["get"][..]), ("allowed", &[])]);
        chain(start(), &calls).unwrap().as_bool().unwrap()
    };
    assert!(allowed(&[("path", &["/yes"])]));
    assert!(!allowed(&[("group", &["apps"]), ("resource", &["deployments"])]));
    let pods: [(&str, &[&'static str]); 2] = [("group", &[""]), ("resource", &["pods"])];
    let narrow: [(&str, &[&'static str]); 3] =
        [("subresource", &["log"]), ("namespace", &["ns"]), ("name", &["yes"])];
    assert!(allowed(&[&pods[..], &narrow[..]].concat()));
    let select: [(&str, &[&'static str]); 3] =
        [("fieldSelector", &["x=1"]), ("fieldSelector", &["a=b"]), ("labelSelector", &["((("])];
    assert!(!allowed(&[&pods[..], &select[..]].concat()));
    assert!(!allowed(&[("serviceAccount", &["ns", "robot"]), ("path", &["/x"])]));
    let request =
        RequestResource { group: "apps", resource: "yes", namespace: "ns", ..RequestResource::default() };
    let decision = chain(request_resource(recorder.clone(), request), &[("check", &["fail"])]).unwrap();
    assert_eq!(chain(decision.clone(), &[("error", &[])]).unwrap().as_str(), Some("webhook failed"));
    assert_eq!(chain(decision.clone(), &[("errored", &[])]).unwrap().as_bool(), Some(true));
    assert_eq!(chain(decision, &[("reason", &[])]).unwrap().as_str(), Some("because"));
    assert_eq!(
        *recorder.0.lock().unwrap(),
        [
            "User get path /yes",
            "User get apps/deployments/ / - -",
            "User get /pods/log ns/yes - -",
            "User get /pods/ / a=b bad",
            "ServiceAccount { namespace: \"ns\", name: \"robot\" } get path /x",
            "User fail apps/yes/ ns/ - -",
        ]
    );
}

#[test]
fn bad_arguments_are_refused_in_upstreams_words() {
    let start = || authorizer(Arc::new(Recorder::default()));
    for (calls, message) in [
        (&[("path", &[" \t"][..])][..], "path must not be empty"),
        (&[("group", &[""]), ("resource", &[""])], "resource must not be empty"),
        (&[("serviceAccount", &["ns.dots", "x"])], "Invalid service account namespace"),
        (&[("serviceAccount", &["bad@", "bad@"])], "Invalid service account name"),
    ] {
        assert_eq!(chain(start(), calls).unwrap_err().text(), message);
    }
    assert_eq!(crate::ops::equal(&start(), &start()).unwrap_err().text(), "no such overload");
}

#[test]
fn a_selector_costs_by_its_length() {
    let args = [Val::Null, Val::from("y=2")];
    let call = ActualCall { function: "fieldSelector", overload: "", args: &args, result: &Val::Null };
    assert_eq!((SELECTOR.actual)(&call), Some(10 + 1 + 2 * 50));
    let node = Node { path: Vec::new(), ty: &Type::String, size: None, literal: None };
    let call = EstimatedCall {
        function: "fieldSelector",
        overload: "",
        target: None,
        args: std::slice::from_ref(&node),
        sizes: &(),
    };
    assert_eq!((SELECTOR.estimate)(&call).unwrap().cost, Range { min: 10, max: u64::MAX });
}
