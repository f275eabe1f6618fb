use std::sync::Arc;

use catalog::Catalog;
use env::Env;
use store::testing::reload_suite;
use store::{Entry, Revision, State};

use super::Table;

fn entry(name: &str, data: &str, revision: u64) -> Entry {
    let value = format!(
        r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"{name}","namespace":"d","uid":"u"}},"data":{{"k":"{data}"}}}}"#
    );
    Entry {
        key: format!("/registry/configmaps/d/{name}").into(),
        value: value.into(),
        revision: Revision(revision),
        expires_at: None,
    }
}

fn table() -> Arc<Table> {
    Table::new(Arc::new(Catalog::builtin()), Env::simulated(1))
}

#[test]
fn a_table_passes_the_reload_suite() {
    reload_suite(&*table(), |n, revision| entry(&n.to_string(), "1", revision.0));
}

#[test]
fn a_reload_shares_unchanged_objects_only() {
    let table = table();
    let expiring = |at| Entry { expires_at: Some(at), ..entry("expires", "1", 5) };
    table.reset(Revision(9), vec![entry("a", "1", 2), entry("b", "1", 3), entry("c", "1", 4), expiring(70)]);
    let maps = table.catalog().find_storage("", "configmaps").unwrap().id;
    let get = |name: &str| table.get(maps, &format!("/registry/configmaps/d/{name}")).unwrap();
    let old = ["a", "b", "c", "expires"].map(get);
    // `b` was changed; `c` has another value at the same revision, as after a restore of etcd.
    table
        .reset(Revision(12), vec![entry("a", "1", 2), entry("b", "2", 11), entry("c", "2", 4), expiring(80)]);
    let new = ["a", "b", "c", "expires"].map(get);
    let shared: Vec<bool> = old.iter().zip(&new).map(|(old, new)| Arc::ptr_eq(old, new)).collect();
    assert_eq!(shared, [true, false, false, false]);
    assert_eq!(new.map(|obj| obj.revision().0), [2, 11, 4, 5]);
    assert!(std::str::from_utf8(get("c").body()).unwrap().contains(r#""k":"2""#));
    assert_eq!(get("expires").expires_at(), Some(80));
}
