//! Allocation on one node, case by case.

use super::*;
use crate::claim::Claim;
use crate::class::DeviceClass;
use crate::slice::Slice;
use crate::testing::json;

#[test]
fn first_device_of_the_node_is_given() {
    let mut slices = Slices::default();
    let slice = r#"{"metadata":{"name":"s"},"spec":{"driver":"d","nodeName":"n","pool":{"name":"p","generation":1,
        "resourceSliceCount":1},"devices":[{"name":"a"},{"name":"b"}]}}"#;
    slices.set("s", Some(Slice::parse(&json(slice))));
    let mut classes = Classes::default();
    classes.set("c", Some(DeviceClass::parse(&json(
        r#"{"metadata":{"name":"c"},"spec":{"selectors":[{"cel":{"expression":"device.driver == 'd'"}}]}}"#,
    ))));
    let claim = Claim::parse(&json(
        r#"{"metadata":{"name":"claim","namespace":"ns"},"spec":{"devices":{"requests":[{"name":"r",
        "exactly":{"deviceClassName":"c","allocationMode":"ExactCount","count":1}}]}}}"#,
    ));
    let (allocated, selectors) = (Allocated::default(), Selectors::new());
    let allocator = Allocator::new(&slices, &classes, &allocated, &selectors);
    let node = NodeView { name: "n", labels: &[] };
    let found = allocator.allocate(&node, &[&claim], &|| false, &|| "id".to_owned()).unwrap().unwrap();
    let text = String::from_utf8(codec::json::to_vec(&found[0].to_value())).unwrap();
    let wanted = r#"{"devices":{"results":[{"request":"r","driver":"d","pool":"p","device":"a"}]},"nodeSelector":{"nodeSelectorTerms":[{"matchFields":[{"key":"metadata.name","operator":"In","values":["n"]}]}]}}"#;
    assert_eq!(text, wanted);
}
