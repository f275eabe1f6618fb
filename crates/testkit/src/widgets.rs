//! A resource that is not built in, for tests of definitions that come and go.

use catalog::{Catalog, ResourceDef};

const WIDGETS: &str = "\
resource example.io/v1 widgets example.v1.Widget namespaced singular=widget short=wd verbs=all
  sub status example.io/v1/Widget example.v1.Widget get,patch,update
  storage /registry/example.io/widgets/ unconditional-update

type example.v1.Widget gvk=example.io/v1/Widget
  - kind string omitempty
  - apiVersion string omitempty
  1 metadata meta.v1.ObjectMeta omitempty value
  2 spec WidgetSpec omitempty value
  3 status WidgetStatus omitempty value

type example.v1.WidgetList gvk=example.io/v1/WidgetList
  - kind string omitempty
  - apiVersion string omitempty
  1 metadata meta.v1.ListMeta omitempty value
  2 items []Widget required

type example.v1.WidgetSpec
  1 color string omitempty
  2 size int32 ptr omitempty

type example.v1.WidgetStatus
  1 phase string omitempty
";

/// `widgets.example.io`, namespaced, with a status.
pub fn widgets() -> ResourceDef {
    let defs = Catalog::builtin().parse_definitions(&[("widgets.cat", WIDGETS)]);
    defs.expect("the definition parses").remove(0)
}
