//! What a published object shows, and what it costs.

use super::*;

const LABELLED: &str =
    r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","uid":"u","labels":{"x":"y"}}}"#;
const PLAIN: &str = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","uid":"u"}}"#;

fn with_storage(test: impl FnOnce(&Storage)) {
    let catalog = catalog::Catalog::builtin();
    test(catalog.find_storage("", "configmaps").unwrap());
}

#[test]
fn another_encoding_is_made_once_on_first_use() {
    with_storage(|storage| {
        for value in [PLAIN, LABELLED] {
            let obj = Obj::publish(storage, "/k/d/a", value.as_bytes(), Revision(1), None).unwrap();
            let mut made = 0;
            for id in [1, 2, 1, 2] {
                let form = obj.form(id, |_| {
                    made += 1;
                    Bytes::from(id.to_string())
                });
                assert_eq!(form, id.to_string());
            }
            assert_eq!(made, 2, "{value}");
        }
    });
}

#[test]
fn the_spliced_revision_is_cut_out_again() {
    let metadata = [
        (
            "{\"name\":\"a\",\"uid\":\"u\",\"labels\":{\"x\":\"y\"}}",
            "{\"name\":\"a\",\"uid\":\"u\",\"resourceVersion\":\"R\",\"labels\":{\"x\":\"y\"}}",
        ),
        ("{\"name\":\"a\",\"uid\":\"u\"}", "{\"name\":\"a\",\"uid\":\"u\",\"resourceVersion\":\"R\"}"),
        ("{\"name\":\"a\",\"uid\":\"\"}", "{\"resourceVersion\":\"R\",\"name\":\"a\",\"uid\":\"\"}"),
        ("{\"name\":\"a\"}", "{\"resourceVersion\":\"R\",\"name\":\"a\"}"),
        ("{}", "{\"resourceVersion\":\"R\"}"),
    ];
    with_storage(|storage| {
        for (stored, shown) in metadata {
            let whole = |metadata: &str| {
                format!(
                    "{{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\"metadata\":{metadata},\"data\":{{\"k\":\"v\"}}}}"
                )
            };
            let stored = whole(stored);
            for revision in [0, 1, 9, 10, 99, 12345, u64::MAX] {
                let obj =
                    Obj::publish(storage, "/k/d/a", stored.as_bytes(), Revision(revision), None).unwrap();
                let shown = whole(shown).replace("\"R\"", &format!("\"{revision}\""));
                assert_eq!(std::str::from_utf8(obj.body()).unwrap(), shown);
                assert_eq!(std::str::from_utf8(&obj.stored_value()).unwrap(), stored, "{revision}");
                assert!(obj.is_stored_as(stored.as_bytes()), "{stored} at {revision}");
                assert_eq!(obj.key(), "/k/d/a");
            }
            let unpublished = Obj::unpublished(storage, "/k/d/a", stored.as_bytes()).unwrap();
            assert_eq!(
                (unpublished.body(), unpublished.stored_value()),
                (stored.as_bytes(), stored.clone().into_bytes())
            );
        }
    });
}

/// There is one for every object of a cluster; the allocator's next size up would cost each of them 16 bytes.
#[test]
fn the_header_of_an_object_stays_small() {
    const { assert!(size_of::<Obj>() <= 48) };
}
