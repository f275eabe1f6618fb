use auth::rbac::selectors_of;
use object::Value;

use super::plan::plan;

fn role(text: &str) -> Value {
    runtime::parse(text).expect("a role")
}

fn planned(own: &str, others: &[(&str, &str)]) -> Option<Value> {
    let own = role(own);
    let selectors = selectors_of(&own).expect("valid").expect("aggregated");
    let others: Vec<(String, Value)> =
        others.iter().map(|(name, text)| ((*name).to_owned(), role(text))).collect();
    plan(&own, &others, &selectors)
}

const GET: &str = "{verbs: [get], resources: [widgets]}";

fn part(rule: &str) -> String {
    format!("{{metadata: {{labels: {{to-view: 'true'}}}}, rules: [{rule}]}}")
}

fn view(rules: &str) -> String {
    format!(
        "{{metadata: {{name: view, uid: u1}}, rules: {rules}, aggregationRule: {{clusterRoleSelectors: [{{matchLabels: {{to-view: 'true'}}}}]}}}}"
    )
}

#[test]
fn rules_of_selected_roles_are_applied_to_the_role_that_was_seen() {
    let other = "{metadata: {labels: {to-edit: 'true'}}, rules: [{verbs: [delete], resources: [widgets]}]}";
    let config = planned(&view("null"), &[("a", &part(GET)), ("b", &part(GET)), ("other", other)]);
    let wanted = role(&format!("{{metadata: {{uid: u1}}, rules: [{GET}]}}"));
    assert_eq!(config, Some(wanted));
}

#[test]
fn nothing_is_written_where_the_rules_are_right() {
    assert_eq!(planned(&view(&format!("[{GET}]")), &[("a", &part(GET))]), None);
    assert_eq!(planned(&view("null"), &[]), None);
    assert_eq!(planned(&view("[]"), &[]), None);
}

#[test]
fn rules_go_with_the_roles_they_came_from() {
    let config = planned(&view(&format!("[{GET}]")), &[]);
    assert_eq!(config, Some(role("{metadata: {uid: u1}}")));
}
