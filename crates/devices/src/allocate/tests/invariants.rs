//! What holds whatever is asked for: devices, counters and capacities are given once, and the order of events makes no difference.

use std::collections::{BTreeMap, BTreeSet};

use object::Value;
use object::quantity::Quantity;

use super::cluster::Cluster;
use crate::read::find;
use crate::testing::{Random, json};
use crate::{Allocation, Claim, Slice};

const NODES: [&str; 3] = ["n0", "n1", "n2"];

#[test]
fn nothing_is_given_twice() {
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let mut world = World::new(&mut random);
        for step in 0..40 {
            if !world.held.is_empty() && random.below(3) == 0 {
                let at = random.below(world.held.len());
                let (holder, _) = world.held.remove(at);
                let held = world.cluster.allocated.holds(&holder);
                assert_eq!(world.cluster.allocated.set(&holder, None), held);
            }
            world.cluster.node = NODES[random.below(NODES.len())].to_owned();
            world.cluster.claims = vec![Claim::parse(&claim(&mut random))];
            if let Ok(Some(found)) = world.cluster.allocate() {
                let holder = format!("claim {step}");
                world.cluster.allocated.set(&holder, Some(&found[0]));
                world.held.push((holder, found.into_iter().next().unwrap()));
            }
            world.check(seed);
        }
        assert!(world.given > 0, "seed {seed}: nothing was ever given");
    }
}

#[test]
fn the_order_of_slices_makes_no_difference() {
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let mut trees = slices(&mut random);
        let claims: Vec<Value> = (0..8).map(|_| claim(&mut random)).collect();
        let answers = |trees: &[Value], noise: &[Value]| -> Vec<String> {
            let mut cluster = Cluster::new();
            // What came and went leaves no trace.
            noise.iter().for_each(|tree| cluster.add_slice(tree));
            for tree in noise {
                let name = Slice::parse(tree).name;
                assert!(cluster.slices.set(&name, None).is_some());
            }
            trees.iter().for_each(|tree| cluster.add_slice(tree));
            let ask = |node: &str, claim: &Value| {
                cluster.node = node.to_owned();
                cluster.claims = vec![Claim::parse(claim)];
                cluster.devices()
            };
            let mut ask = ask;
            NODES.iter().flat_map(|node| claims.iter().map(|c| ask(node, c)).collect::<Vec<_>>()).collect()
        };
        let first = answers(&trees, &[]);
        let noise = slices(&mut random);
        for _ in 0..3 {
            random.shuffle(&mut trees);
            assert_eq!(answers(&trees, &noise), first, "seed {seed}");
        }
    }
}

struct World {
    cluster: Cluster,
    held: Vec<(String, Allocation)>,
    given: usize,
}

impl World {
    fn new(random: &mut Random) -> World {
        let mut cluster = Cluster::new();
        slices(random).iter().for_each(|tree| cluster.add_slice(tree));
        World { cluster, held: Vec::new(), given: 0 }
    }

    fn check(&mut self, seed: u64) {
        let mut exclusive = BTreeSet::new();
        let mut shared: BTreeMap<_, BTreeMap<_, Quantity>> = BTreeMap::new();
        let mut drawn: BTreeMap<_, Quantity> = BTreeMap::new();
        let mut drawing = BTreeSet::new();
        for result in self.held.iter().flat_map(|(_, allocation)| &allocation.results) {
            if result.admin_access == Some(true) {
                continue;
            }
            self.given += 1;
            let id = &result.device;
            assert!(self.cluster.allocated.is_allocated(id));
            if result.share_id.is_none() {
                assert!(exclusive.insert(id.clone()), "seed {seed}: {id} is given twice");
            }
            let (_, device) = self.cluster.slices.device(&id.driver, &id.pool, &id.device).unwrap();
            for (name, amount) in result.consumed_capacity.iter().flatten() {
                let total =
                    shared.entry(id.clone()).or_default().entry(name.clone()).or_insert(Quantity::ZERO);
                *total = *total + *amount;
                assert!(
                    *total <= find(&device.capacity, name).unwrap().value,
                    "seed {seed}: {id} has no {name}"
                );
            }
            for set in device.consumes_counters.iter().filter(|_| drawing.insert(id.clone())) {
                for (name, amount) in &set.counters {
                    let key = (id.driver.clone(), id.pool.clone(), set.name.clone(), name.clone());
                    let total = drawn.entry(key).or_insert(Quantity::ZERO);
                    *total = *total + *amount;
                }
            }
        }
        assert!(
            exclusive.iter().all(|id| !shared.contains_key(id)),
            "seed {seed}: an exclusive device is shared"
        );
        for ((driver, pool, set, name), total) in &drawn {
            let mut sets = self.cluster.slices.pool(driver, pool).flat_map(|slice| &slice.shared_counters);
            let set = sets.find(|own| own.name == *set).unwrap();
            assert!(total <= find(&set.counters, name).unwrap(), "seed {seed}: {pool} has no {name} left");
        }
    }
}

fn slices(random: &mut Random) -> Vec<Value> {
    let mut slices = Vec::new();
    for pool in 0..1 + random.below(4) {
        let counted = random.below(2) == 0;
        let with_devices = 1 + random.below(3);
        let count = with_devices + usize::from(counted);
        let head = |at: usize, node: &str| {
            format!(
                r#"{{"metadata":{{"name":"s{pool}-{at}"}},"spec":{{"driver":"d","pool":{{"name":"p{pool}","generation":1,
                "resourceSliceCount":{count}}},{node}"#
            )
        };
        if counted {
            let sets =
                r#""sharedCounters":[{"name":"s","counters":{"x":{"value":"3"},"y":{"value":"2"}}}]}}"#;
            slices.push(json(&format!(r#"{}"allNodes":true,{sets}"#, head(count, ""))));
        }
        for at in 0..with_devices {
            let node = match random.below(3) {
                0 => r#""allNodes":true,"#.to_owned(),
                n => format!(r#""nodeName":"n{n}","#),
            };
            let devices: Vec<String> =
                (0..1 + random.below(4)).map(|i| device(random, &format!("d{at}-{i}"), counted)).collect();
            slices.push(json(&format!(r#"{}"devices":[{}]}}}}"#, head(at, &node), devices.join(","))));
        }
    }
    slices
}

fn device(random: &mut Random, name: &str, counted: bool) -> String {
    let model = random.below(2);
    let mut device = format!(r#"{{"name":"{name}","attributes":{{"model":{{"int":{model}}}}}"#);
    if random.below(3) == 0 {
        device += r#","allowMultipleAllocations":true,"capacity":{"mem":{"value":"4Gi","requestPolicy":{"default":"1Gi"}}}"#;
    }
    if counted && random.below(3) > 0 {
        let amount = 1 + random.below(2);
        device += &format!(
            r#","consumesCounters":[{{"counterSet":"s","counters":{{"x":{{"value":"{amount}"}},"y":{{"value":"1"}}}}}}]"#
        );
    }
    device + "}"
}

fn claim(random: &mut Random) -> Value {
    let requests: Vec<String> = (0..1 + random.below(2))
        .map(|i| {
            let count = 1 + random.below(3);
            let mode = if random.below(6) == 0 { "All" } else { "ExactCount" };
            let capacity = match random.below(4) {
                0 => r#","capacity":{"requests":{"mem":"2Gi"}}"#,
                _ => "",
            };
            let selectors = match random.below(4) {
                0 => r#","selectors":[{"cel":{"expression":"device.attributes['d'].model == 1"}}]"#,
                _ => "",
            };
            let wanted =
                format!(r#""deviceClassName":"c","allocationMode":"{mode}","count":{count}{capacity}{selectors}"#);
            match random.below(8) {
                0 => format!(r#"{{"name":"r{i}","exactly":{{{wanted},"adminAccess":true}}}}"#),
                1 => format!(
                    r#"{{"name":"r{i}","firstAvailable":[{{"name":"x",{wanted}}},{{"name":"y","deviceClassName":"c",
                    "allocationMode":"ExactCount","count":1}}]}}"#
                ),
                _ => format!(r#"{{"name":"r{i}","exactly":{{{wanted}}}}}"#),
            }
        })
        .collect();
    let constraints = match random.below(4) {
        0 => r#","constraints":[{"matchAttribute":"d/model"}]"#,
        1 => r#","constraints":[{"distinctAttribute":"d/model"}]"#,
        _ => "",
    };
    json(&format!(
        r#"{{"metadata":{{"name":"claim","namespace":"ns"}},"spec":{{"devices":{{"requests":[{}]{constraints}}}}}}}"#,
        requests.join(",")
    ))
}
