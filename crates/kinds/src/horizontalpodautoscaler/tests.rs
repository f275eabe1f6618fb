//! Autoscalers keep everything through v1 and back.

use catalog::{Catalog, Resource};
use object::Value;
use object::normalise::{Strict, normalise};

use super::*;
use crate::tests::{json, text};

fn canonical(catalog: &Catalog, resource: &Resource, value: &mut Value) {
    normalise(catalog.schema(), resource.ty, value, &mut Strict::default()).unwrap();
}

const V2: &str = r#"{"kind":"HorizontalPodAutoscaler","apiVersion":"autoscaling/v2","metadata":{"name":"h","namespace":"n","annotations":{"mine":"1"}},"spec":{"scaleTargetRef":{"kind":"Deployment","name":"d","apiVersion":"apps/v1"},"minReplicas":1,"maxReplicas":5,"metrics":[{"type":"Object","object":{"describedObject":{"kind":"Ingress","name":"i"},"target":{"type":"AverageValue","averageValue":"3"},"metric":{"name":"rps","selector":{"matchLabels":{"a":"b"}}}}},{"type":"Object","object":{"describedObject":{"kind":"Ingress","name":"i"},"target":{"type":"Value","value":"10k"},"metric":{"name":"rps"}}},{"type":"Pods","pods":{"metric":{"name":"q"},"target":{"type":"AverageValue","averageValue":"7"}}},{"type":"Resource","resource":{"name":"memory","target":{"type":"AverageValue","averageValue":"1Gi"}}},{"type":"ContainerResource","containerResource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":70},"container":"app"}},{"type":"External","external":{"metric":{"name":"queue","selector":{"matchLabels":{"q":"1"}}},"target":{"type":"Value","value":"30"}}},{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":60}}}],"behavior":{"scaleUp":{"stabilizationWindowSeconds":10,"selectPolicy":"Max","policies":[{"type":"Pods","value":4,"periodSeconds":60}],"tolerance":"100m"},"scaleDown":{"selectPolicy":"Disabled"}}},"status":{"currentReplicas":2,"desiredReplicas":3,"currentMetrics":[{"type":"Resource","resource":{"name":"cpu","current":{"averageValue":"50m","averageUtilization":40}}},{"type":"External","external":{"metric":{"name":"queue"},"current":{"value":"3"}}}],"conditions":[{"type":"AbleToScale","status":"True","lastTransitionTime":"2023-11-14T22:13:20Z","reason":"R","message":"M"}]}}"#;

#[test]
fn v2_survives_v1() {
    let catalog = Catalog::builtin();
    let v1 = catalog.find("autoscaling", "v1", "horizontalpodautoscalers").unwrap();
    let v2 = catalog.find("autoscaling", "v2", "horizontalpodautoscalers").unwrap();
    let mut hpa = json(V2);
    canonical(&catalog, v2, &mut hpa);
    let before = text(&hpa);
    KIND.from_storage(&mut hpa, v1);
    canonical(&catalog, v1, &mut hpa);
    assert_eq!(hpa.at(&["spec", "targetCPUUtilizationPercentage"]), Some(&Value::Int(60)));
    assert_eq!(hpa.at(&["status", "currentCPUUtilizationPercentage"]), Some(&Value::Int(40)));
    assert_eq!(hpa.at(&["spec", "metrics"]), None);
    let annotation = |name| hpa.str_at(&["metadata", "annotations", name]).unwrap();
    assert_eq!(
        annotation(BEHAVIOR),
        r#"{"ScaleUp":{"StabilizationWindowSeconds":10,"SelectPolicy":"Max","Policies":[{"Type":"Pods","Value":4,"PeriodSeconds":60}],"Tolerance":"100m"},"ScaleDown":{"StabilizationWindowSeconds":null,"SelectPolicy":"Disabled","Policies":null,"Tolerance":null}}"#
    );
    assert!(annotation(METRICS).starts_with(r#"[{"type":"Object","object":{"target":{"kind":"Ingress","name":"i"},"metricName":"rps","targetValue":"0","selector":{"matchLabels":{"a":"b"}},"averageValue":"3"}}"#), "{}", annotation(METRICS));
    assert!(!annotation(METRICS).contains(r#""targetAverageUtilization":60"#));
    KIND.to_storage(&mut hpa, v1).unwrap();
    canonical(&catalog, v2, &mut hpa);
    assert_eq!(text(&hpa), before);
}

#[test]
fn v1_survives_v2_and_defaults_to_eighty_percent() {
    let catalog = Catalog::builtin();
    let v1 = catalog.find("autoscaling", "v1", "horizontalpodautoscalers").unwrap();
    let v2 = catalog.find("autoscaling", "v2", "horizontalpodautoscalers").unwrap();
    for (percent, wanted) in [(r#","targetCPUUtilizationPercentage":50"#, 50), ("", 80)] {
        let mut hpa = json(&format!(
            r#"{{"kind":"HorizontalPodAutoscaler","apiVersion":"autoscaling/v1","metadata":{{"name":"h"}},"spec":{{"scaleTargetRef":{{"kind":"Deployment","name":"d"}},"maxReplicas":5{percent}}},"status":{{"currentReplicas":1,"desiredReplicas":1,"currentCPUUtilizationPercentage":9}}}}"#
        ));
        KIND.to_storage(&mut hpa, v1).unwrap();
        canonical(&catalog, v2, &mut hpa);
        assert_eq!(
            text(hpa.at(&["spec", "metrics"]).unwrap()),
            format!(
                r#"[{{"type":"Resource","resource":{{"name":"cpu","target":{{"type":"Utilization","averageUtilization":{wanted}}}}}}}]"#
            )
        );
        KIND.from_storage(&mut hpa, v1);
        canonical(&catalog, v1, &mut hpa);
        assert_eq!(hpa.at(&["spec", "targetCPUUtilizationPercentage"]), Some(&Value::Int(wanted)));
        assert_eq!(hpa.at(&["status", "currentCPUUtilizationPercentage"]), Some(&Value::Int(9)));
    }
}

#[test]
fn broken_annotations_are_dropped_and_never_reach_v2() {
    let catalog = Catalog::builtin();
    let v1 = catalog.find("autoscaling", "v1", "horizontalpodautoscalers").unwrap();
    let v2 = catalog.find("autoscaling", "v2", "horizontalpodautoscalers").unwrap();
    for broken in ["", "{", "[]", "{}", "7", "[1]", "[{}]", r#"[{"object":3}]"#, r#"{"ScaleUp":4}"#] {
        for version in [v1, v2] {
            let mut hpa = json(r#"{"metadata":{"name":"h"},"spec":{"maxReplicas":1}}"#);
            for name in ROUND_TRIP {
                hpa.map_at(&["metadata", "annotations"]).set(name, broken);
            }
            hpa.map_at(&["metadata", "annotations"]).set("mine", "1");
            KIND.to_storage(&mut hpa, version).unwrap();
            assert_eq!(text(hpa.at(&["metadata", "annotations"]).unwrap()), r#"{"mine":"1"}"#, "{broken}");
        }
    }
}
