use super::*;
use crate::testing::tree;

fn parse(rest: &str) -> Result<Config, ConfigError> {
    let head = r#""apiVersion":"kubescheduler.config.k8s.io/v1","kind":"KubeSchedulerConfiguration""#;
    Config::parse(&tree(&format!("{{{head},{rest}}}")))
}

#[test]
fn profiles_have_names_weights_and_arguments() {
    let config = parse(
        r#""percentageOfNodesToScore":30,"podInitialBackoffSeconds":2,
        "profiles":[{"schedulerName":"packed",
          "plugins":{"score":{"disabled":[{"name":"ImageLocality"}],"enabled":[{"name":"NodeAffinity","weight":7}]},
                     "multiPoint":{"disabled":[{"name":"NodePorts"}]},"postFilter":{"disabled":[{"name":"*"}]}},
          "pluginConfig":[
            {"name":"NodeResourcesFit","args":{"scoringStrategy":{"type":"MostAllocated",
                "resources":[{"name":"cpu","weight":3}]}}},
            {"name":"PodTopologySpread","args":{"defaultingType":"List","defaultConstraints":[
                {"maxSkew":1,"topologyKey":"zone","whenUnsatisfiable":"DoNotSchedule"}]}},
            {"name":"InterPodAffinity","args":{"hardPodAffinityWeight":5}}]}]"#,
    )
    .unwrap();
    let profile = &config.profiles[0];
    assert_eq!((config.profile("packed"), config.profile("default-scheduler")), (Some(0), None));
    assert_eq!(config.percentage_of_nodes_to_score, 30);
    assert_eq!(config.initial_backoff, Duration::from_secs(2));
    assert_eq!(profile.weight(Plugin::ImageLocality), 0);
    assert_eq!(profile.weight(Plugin::NodeAffinity), 7);
    assert_eq!(profile.weight(Plugin::TaintToleration), 3);
    assert!(!profile.filter.has(Plugin::NodePorts) && profile.filter.has(Plugin::NodeAffinity));
    assert!(!profile.post_filter.has(Plugin::DefaultPreemption));
    assert_eq!(profile.fit.strategy, Strategy::MostAllocated);
    assert_eq!(profile.fit.resources, [("cpu".to_owned(), 3)]);
    assert_eq!(profile.spread.defaults.len(), 1);
    assert_eq!(profile.inter_pod.hard_pod_affinity_weight, 5);
}

#[test]
fn errors_name_the_path_and_the_valid_values() {
    let error = |rest: &str| parse(rest).unwrap_err().to_string();
    assert!(
        error(r#""percentageOfNodesToScore":101"#)
            .starts_with("percentageOfNodesToScore: not in valid range")
    );
    let unknown = error(r#""profiles":[{"plugins":{"filter":{"enabled":[{"name":"Magic"}]}}}]"#);
    assert!(unknown.starts_with(r#"profiles[0].plugins.filter.enabled[0].name: there is no plugin "Magic""#));
    let shape = r#""profiles":[{"pluginConfig":[{"name":"NodeResourcesFit","args":{"scoringStrategy":
        {"type":"RequestedToCapacityRatio"}}}]}]"#;
    assert!(error(shape).contains("at least one point"));
    let twice = r#""profiles":[{"schedulerName":"a"},{"schedulerName":"a"}]"#;
    assert_eq!(error(twice), r#"profiles[1].schedulerName: Duplicate value: "a""#);
    assert!(Config::parse(&tree("{}")).is_err());
}

#[test]
fn how_long_devices_are_looked_and_waited_for_is_an_argument() {
    let with = |args: &str| {
        parse(&format!(
            r#""profiles":[{{"pluginConfig":[{{"name":"DynamicResources","args":{{{args}}}}}]}}]"#
        ))
    };
    let config = with(r#""filterTimeout":"0s","bindingTimeout":"1m30s""#).unwrap();
    assert_eq!(config.profiles[0].device_filter_timeout, Duration::ZERO);
    assert_eq!(config.profiles[0].device_binding_timeout, Duration::from_secs(90));
    let error = |args: &str| with(args).unwrap_err().to_string();
    let path = "profiles[0].pluginConfig[0].args";
    assert_eq!(error(r#""filterTimeout":"-1s""#), format!("{path}.filterTimeout: must be zero or positive"));
    assert_eq!(
        error(r#""bindingTimeout":"10ms""#),
        format!("{path}.bindingTimeout: must be at least 1 second")
    );
    assert!(
        error(r#""bindingTimeout":"soon""#).starts_with(&format!("{path}.bindingTimeout: invalid duration"))
    );
}
