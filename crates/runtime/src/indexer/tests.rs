use super::*;
use crate::testing::map_with;

/// How many objects there are, and the sum of their revisions.
#[derive(Default)]
struct Sum(u64, u64);

impl Tally for Sum {
    fn add(&mut self, obj: &Obj) {
        (self.0, self.1) = (self.0 + 1, self.1 + obj.revision().0);
    }
    fn remove(&mut self, obj: &Obj) {
        (self.0, self.1) = (self.0 - 1, self.1 - obj.revision().0);
    }
}

fn labelled(name: &str, revision: u64, values: &str) -> Arc<Obj> {
    map_with(name, &format!("uid-{name}"), revision, &format!(",\"labels\":{{\"in\":\"{values}\"}}"))
}

#[test]
fn a_tally_follows_every_change() {
    let store = Indexer::default();
    store.add_index("in", |obj| obj.label("in").unwrap_or("").split('.').map(str::to_owned).collect());
    let sum = |value| store.tally("in", value, |Sum(count, revisions)| (*count, *revisions));
    // What is there before the tally counts too, under each of its values once.
    store.begin().put(labelled("a", 1, "x.y.x"));
    store.add_tally::<Sum>("in");
    store.add_tally::<Sum>("in");
    assert_eq!([sum("x"), sum("y"), sum("z")], [(1, 1), (1, 1), (0, 0)]);
    store.begin().put(labelled("b", 2, "x"));
    store.begin().put(labelled("a", 3, "y.z"));
    assert_eq!([sum("x"), sum("y"), sum("z")], [(1, 2), (1, 3), (1, 3)]);
    store.begin().remove("default/b");
    store.begin().remove("default/b");
    assert_eq!([sum("x"), sum("y"), sum("z")], [(0, 0), (1, 3), (1, 3)]);
    store.begin().put(labelled("b", 4, "x"));
    assert_eq!(sum("x"), (1, 4), "a value that comes again begins anew");
    assert_eq!(sum("nothing"), (0, 0));
    for revision in [5, 6] {
        store.begin().put(labelled("a", revision, "x.y.x"));
        assert_eq!([sum("x"), sum("y"), sum("z")], [(2, 4 + revision), (1, revision), (0, 0)]);
        assert_eq!(store.by_index("in", "y")[0].revision().0, revision);
    }
}
