//! Reading a `KubeSchedulerConfiguration` from a tree, with errors that name the place.

use std::time::Duration;

use object::Value;

use super::{AddedAffinity, Config, ConfigError, Profile, Strategy};
use crate::node_selector::parse_added;
use crate::plugin::{ALL, Plugin, Plugins};
use crate::pod::parse_constraint;
use crate::read::{int, list, strings, text};

type Result<T> = std::result::Result<T, ConfigError>;

impl Config {
    pub fn parse(tree: &Value) -> Result<Config> {
        let mut config = Config::default();
        expect("apiVersion", text(tree, "apiVersion"), "kubescheduler.config.k8s.io/v1")?;
        expect("kind", text(tree, "kind"), "KubeSchedulerConfiguration")?;
        config.percentage_of_nodes_to_score = percentage(tree, "percentageOfNodesToScore")?.unwrap_or(0);
        config.initial_backoff = seconds(tree, "podInitialBackoffSeconds", config.initial_backoff)?;
        config.max_backoff = seconds(tree, "podMaxBackoffSeconds", config.max_backoff)?;
        if config.max_backoff < config.initial_backoff {
            return Err(invalid(
                "podMaxBackoffSeconds",
                "must be greater than or equal to PodInitialBackoffSeconds",
            ));
        }
        let profiles = list(Some(tree), "profiles");
        if !profiles.is_empty() {
            config.profiles.clear();
        }
        for (i, value) in profiles.iter().enumerate() {
            let path = format!("profiles[{i}]");
            let profile = profile(&path, value, profiles.len() > 1)?;
            if config.profile(&profile.scheduler_name).is_some() {
                let problem = format!("Duplicate value: \"{}\"", profile.scheduler_name);
                return Err(invalid(&format!("{path}.schedulerName"), problem));
            }
            config.profiles.push(profile);
        }
        Ok(config)
    }
}

fn profile(path: &str, value: &Value, several: bool) -> Result<Profile> {
    let mut profile = Profile::default();
    match text(value, "schedulerName") {
        "" if several => return Err(invalid(&format!("{path}.schedulerName"), "Required value")),
        "" => {}
        name => profile.scheduler_name = name.into(),
    }
    profile.percentage_of_nodes_to_score = percentage(value, "percentageOfNodesToScore")?;
    if let Some(plugins) = value.get("plugins") {
        self::plugins(&format!("{path}.plugins"), plugins, &mut profile)?;
    }
    let mut seen = Plugins::EMPTY;
    for (i, entry) in list(Some(value), "pluginConfig").iter().enumerate() {
        let path = format!("{path}.pluginConfig[{i}]");
        let name = text(entry, "name");
        let Some(plugin) = Plugin::named(name) else {
            return Err(invalid(&path, format!("there is no plugin {name:?}; remove its configuration")));
        };
        if seen.has(plugin) {
            return Err(invalid(&path, format!("the plugin {name} is configured twice")));
        }
        seen.insert(plugin);
        if let Some(args) = entry.get("args") {
            arguments(&format!("{path}.args"), plugin, args, &mut profile)?;
        }
    }
    Ok(profile)
}

/// `multiPoint` is every extension point at once; a single point has the last word.
fn plugins(path: &str, value: &Value, profile: &mut Profile) -> Result<()> {
    if let Some(set) = value.get("multiPoint") {
        let path = format!("{path}.multiPoint");
        let (enabled, disabled) = sets(&path, set)?;
        for plugin in disabled.iter() {
            for set in [&mut profile.pre_enqueue, &mut profile.filter, &mut profile.post_filter] {
                set.remove(plugin);
            }
            profile.weights[plugin as usize] = 0;
        }
        for (plugin, weight) in enabled {
            for set in [&mut profile.pre_enqueue, &mut profile.filter, &mut profile.post_filter] {
                set.insert(plugin);
            }
            if plugin.default_weight() > 0 {
                profile.weights[plugin as usize] = weight.unwrap_or(1);
            }
        }
    }
    let points = [
        ("preEnqueue", &mut profile.pre_enqueue),
        ("filter", &mut profile.filter),
        ("postFilter", &mut profile.post_filter),
    ];
    for (name, point) in points {
        let Some(set) = value.get(name) else { continue };
        let (enabled, disabled) = sets(&format!("{path}.{name}"), set)?;
        disabled.iter().for_each(|plugin| point.remove(plugin));
        enabled.into_iter().for_each(|(plugin, _)| point.insert(plugin));
    }
    if let Some(set) = value.get("score") {
        let (enabled, disabled) = sets(&format!("{path}.score"), set)?;
        disabled.iter().for_each(|plugin| profile.weights[plugin as usize] = 0);
        for (plugin, weight) in enabled {
            profile.weights[plugin as usize] = weight.unwrap_or(1);
        }
    }
    // The others are read for their names only: nothing here can be turned off at them.
    for name in ["queueSort", "preFilter", "preScore", "reserve", "permit", "preBind", "bind", "postBind"] {
        if let Some(set) = value.get(name) {
            sets(&format!("{path}.{name}"), set)?;
        }
    }
    Ok(())
}

type Enabled = Vec<(Plugin, Option<i64>)>;

fn sets(path: &str, set: &Value) -> Result<(Enabled, Plugins)> {
    let named = |part: &str, i: usize, entry: &Value| {
        let name = text(entry, "name");
        let known = ALL.map(Plugin::name).join(", ");
        Plugin::named(name).ok_or_else(|| {
            invalid(
                &format!("{path}.{part}[{i}].name"),
                format!("there is no plugin {name:?}; there are {known}"),
            )
        })
    };
    let mut disabled = Plugins::EMPTY;
    for (i, entry) in list(Some(set), "disabled").iter().enumerate() {
        if text(entry, "name") == "*" {
            disabled = Plugins::all();
        } else {
            disabled.insert(named("disabled", i, entry)?);
        }
    }
    let mut enabled = Enabled::new();
    for (i, entry) in list(Some(set), "enabled").iter().enumerate() {
        let plugin = named("enabled", i, entry)?;
        let weight = int(entry, "weight").filter(|w| *w != 0);
        if weight.is_some_and(|w| !(1..=i64::from(i32::MAX) / 100).contains(&w)) {
            return Err(invalid(
                &format!("{path}.enabled[{i}].weight"),
                "must be positive and below 21474837",
            ));
        }
        enabled.push((plugin, weight));
    }
    Ok((enabled, disabled))
}

fn arguments(path: &str, plugin: Plugin, args: &Value, profile: &mut Profile) -> Result<()> {
    match plugin {
        Plugin::NodeResourcesFit => {
            profile.fit.ignored_resources = strings(args, "ignoredResources");
            profile.fit.ignored_groups = strings(args, "ignoredResourceGroups");
            if let Some(strategy) = args.get("scoringStrategy") {
                let path = format!("{path}.scoringStrategy");
                profile.fit.strategy = self::strategy(&path, strategy)?;
                if let Some(resources) = resources(&path, strategy)? {
                    profile.fit.resources = resources;
                }
            }
        }
        Plugin::NodeResourcesBalancedAllocation => {
            if let Some(resources) = resources(path, args)? {
                profile.balanced = resources;
            }
        }
        Plugin::PodTopologySpread => spread(path, args, profile)?,
        Plugin::InterPodAffinity => {
            let weight = int(args, "hardPodAffinityWeight").unwrap_or(1);
            if !(0..=100).contains(&weight) {
                return Err(invalid(&format!("{path}.hardPodAffinityWeight"), "not in valid range [0, 100]"));
            }
            profile.inter_pod.hard_pod_affinity_weight = weight;
            let ignore = args.get("ignorePreferredTermsOfExistingPods").and_then(Value::as_bool);
            profile.inter_pod.ignore_preferred_terms_of_existing_pods = ignore.unwrap_or(false);
        }
        Plugin::NodeAffinity => {
            if let Some(added) = args.get("addedAffinity").filter(|v| !v.is_null()) {
                let (required, preferred) = parse_added(added);
                profile.added_affinity = AddedAffinity { required, preferred };
            }
        }
        Plugin::DefaultPreemption => {
            let preemption = &mut profile.preemption;
            if let Some(percentage) = percentage(args, "minCandidateNodesPercentage")? {
                preemption.min_candidate_nodes_percentage = percentage;
            }
            if let Some(least) = int(args, "minCandidateNodesAbsolute") {
                if least < 0 {
                    return Err(invalid(
                        &format!("{path}.minCandidateNodesAbsolute"),
                        "not in valid range [0, inf)",
                    ));
                }
                preemption.min_candidate_nodes_absolute = least;
            }
        }
        Plugin::VolumeBinding => {
            if let Some(seconds) = int(args, "bindTimeoutSeconds") {
                let seconds = u64::try_from(seconds).map_err(|_| {
                    let problem = "invalid BindTimeoutSeconds, should not be a negative value";
                    invalid(&format!("{path}.bindTimeoutSeconds"), problem)
                })?;
                profile.bind_timeout = Duration::from_secs(seconds);
            }
            if args.get("shape").is_some_and(|v| !v.is_null()) {
                let problem =
                    "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring";
                return Err(invalid(&format!("{path}.shape"), problem));
            }
        }
        Plugin::DynamicResources => {
            if let Some(timeout) = duration(path, args, "filterTimeout")? {
                let timeout = u64::try_from(timeout)
                    .map_err(|_| invalid(&format!("{path}.filterTimeout"), "must be zero or positive"))?;
                profile.device_filter_timeout = Duration::from_nanos(timeout);
            }
            if let Some(timeout) = duration(path, args, "bindingTimeout")? {
                let timeout = u64::try_from(timeout).ok().map(Duration::from_nanos);
                let timeout = timeout.filter(|timeout| *timeout >= Duration::from_secs(1));
                profile.device_binding_timeout = timeout
                    .ok_or_else(|| invalid(&format!("{path}.bindingTimeout"), "must be at least 1 second"))?;
            }
        }
        _ => {}
    }
    Ok(())
}

/// A duration as Go writes it, in nanoseconds.
fn duration(path: &str, args: &Value, name: &str) -> Result<Option<i64>> {
    let Some(value) = args.get(name).filter(|v| !v.is_null()) else { return Ok(None) };
    let parsed = value.as_str().and_then(|text| object::time::parse_duration(text).ok());
    parsed.map(Some).ok_or_else(|| invalid(&format!("{path}.{name}"), format!("invalid duration {value:?}")))
}

fn spread(path: &str, args: &Value, profile: &mut Profile) -> Result<()> {
    let constraints = list(Some(args), "defaultConstraints");
    match text(args, "defaultingType") {
        "List" => {}
        "" | "System" if constraints.is_empty() => return Ok(()),
        "" | "System" => {
            let problem = "must be empty when defaultingType is \"System\"; set defaultingType to \"List\"";
            return Err(invalid(&format!("{path}.defaultConstraints"), problem));
        }
        other => {
            let problem = format!("unsupported value {other:?}; use \"System\" or \"List\"");
            return Err(invalid(&format!("{path}.defaultingType"), problem));
        }
    }
    for (i, constraint) in constraints.iter().enumerate() {
        let path = format!("{path}.defaultConstraints[{i}]");
        if int(constraint, "maxSkew").is_none_or(|skew| skew < 1) {
            return Err(invalid(&format!("{path}.maxSkew"), "must be greater than zero"));
        }
        if text(constraint, "topologyKey").is_empty() {
            return Err(invalid(&format!("{path}.topologyKey"), "Required value: can not be empty"));
        }
        if !matches!(text(constraint, "whenUnsatisfiable"), "DoNotSchedule" | "ScheduleAnyway") {
            return Err(invalid(
                &format!("{path}.whenUnsatisfiable"),
                "use \"DoNotSchedule\" or \"ScheduleAnyway\"",
            ));
        }
        if constraint.get("labelSelector").is_some_and(|v| !v.is_null()) {
            let problem = "constraint must not define a selector, as they deduced for each pod";
            return Err(invalid(&format!("{path}.labelSelector"), problem));
        }
    }
    profile.spread.defaults = constraints.iter().map(parse_constraint).collect();
    profile.spread.system = false;
    Ok(())
}

fn strategy(path: &str, value: &Value) -> Result<Strategy> {
    match text(value, "type") {
        "" | "LeastAllocated" => Ok(Strategy::LeastAllocated),
        "MostAllocated" => Ok(Strategy::MostAllocated),
        "RequestedToCapacityRatio" => {
            let path = format!("{path}.requestedToCapacityRatio.shape");
            let points = list(value.get("requestedToCapacityRatio"), "shape");
            let mut shape: Vec<(i64, i64)> = Vec::new();
            for (i, point) in points.iter().enumerate() {
                let (at, score) = (int(point, "utilization").unwrap_or(0), int(point, "score").unwrap_or(0));
                if !(0..=100).contains(&at) {
                    return Err(invalid(&format!("{path}[{i}].utilization"), "not in valid range [0, 100]"));
                }
                if !(0..=10).contains(&score) {
                    return Err(invalid(&format!("{path}[{i}].score"), "not in valid range [0, 10]"));
                }
                if shape.last().is_some_and(|(last, _)| at <= *last) {
                    let problem = "utilization values must be sorted in increasing order";
                    return Err(invalid(&format!("{path}[{i}].utilization"), problem));
                }
                shape.push((at, score * 10));
            }
            if shape.is_empty() {
                return Err(invalid(&path, "Required value: at least one point must be specified"));
            }
            Ok(Strategy::RequestedToCapacityRatio(shape))
        }
        other => {
            let known = "LeastAllocated, MostAllocated or RequestedToCapacityRatio";
            Err(invalid(&format!("{path}.type"), format!("unsupported value {other:?}; use {known}")))
        }
    }
}

fn resources(path: &str, value: &Value) -> Result<Option<Vec<(String, i64)>>> {
    let entries = list(Some(value), "resources");
    let mut resources = Vec::new();
    for (i, entry) in entries.iter().enumerate() {
        let weight = match int(entry, "weight") {
            None | Some(0) => 1,
            Some(weight @ 1..=100) => weight,
            Some(_) => {
                return Err(invalid(&format!("{path}.resources[{i}].weight"), "not in valid range [1, 100]"));
            }
        };
        resources.push((text(entry, "name").to_owned(), weight));
    }
    Ok((!resources.is_empty()).then_some(resources))
}

fn percentage(value: &Value, name: &str) -> Result<Option<i64>> {
    match int(value, name) {
        Some(percentage) if !(0..=100).contains(&percentage) => {
            Err(invalid(name, "not in valid range [0-100]"))
        }
        percentage => Ok(percentage),
    }
}

fn seconds(value: &Value, name: &str, default: Duration) -> Result<Duration> {
    match int(value, name) {
        None => Ok(default),
        Some(seconds @ 1..) => Ok(Duration::from_secs(seconds as u64)),
        Some(_) => Err(invalid(name, "must be greater than 0")),
    }
}

fn expect(path: &str, found: &str, wanted: &str) -> Result<()> {
    if found == wanted { Ok(()) } else { Err(invalid(path, format!("is {found:?}, and must be {wanted:?}"))) }
}

fn invalid(path: &str, problem: impl Into<String>) -> ConfigError {
    ConfigError::Invalid { path: path.to_owned(), problem: problem.into() }
}
