//! Builds levels and schemas from the API objects, and divides the seats among the levels.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use http::HeaderValue;

use crate::allocate::{Claim, allocate};
use crate::families::FlowStats;
use crate::level::{Clock, Level};
use crate::spec::{CATCH_ALL, EXEMPT, FlowSchema, PriorityLevel, Response};

/// The configuration requests are classified by; replaced as a whole.
pub struct Config {
    /// In order of precedence.
    pub schemas: Vec<Arc<Schema>>,
    pub levels: BTreeMap<String, Arc<Level>>,
}

/// A FlowSchema whose level exists.
pub struct Schema {
    pub spec: FlowSchema,
    pub level: Arc<Level>,
    /// The UIDs of both objects, for the response headers; empty without an object.
    pub uids: [HeaderValue; 2],
    pub stats: Arc<FlowStats>,
}

impl Config {
    pub fn empty() -> Config {
        Config { schemas: Vec::new(), levels: BTreeMap::new() }
    }

    /// The next configuration. Levels keep their requests; a removed level stays until its last
    /// request is done.
    pub fn next(
        &self,
        clock: &Clock,
        mut schemas: Vec<FlowSchema>,
        mut levels: Vec<PriorityLevel>,
    ) -> Config {
        for name in [EXEMPT, CATCH_ALL] {
            if !levels.iter().any(|level| level.name == name) {
                levels.push(PriorityLevel::mandatory(name));
            }
        }
        let mut next = BTreeMap::new();
        for spec in levels {
            let level = match self.levels.get(&spec.name) {
                Some(level) => level.clone(),
                None => Level::new(spec.clone(), clock.clone()),
            };
            {
                let mut state = level.lock();
                state.spec = spec;
                state.quiescing = false;
                level.removed.store(false, Ordering::Release);
            }
            next.insert(level.name.clone(), level);
        }
        // A dangling reference is reported in the object's status; here the schema matches nothing.
        schemas.retain(|schema| next.contains_key(&schema.level));
        for name in [EXEMPT, CATCH_ALL] {
            if !schemas.iter().any(|schema| schema.name == name) {
                schemas.push(FlowSchema::mandatory(name));
            }
        }
        schemas.sort_by(|a, b| (a.matching_precedence, &a.name).cmp(&(b.matching_precedence, &b.name)));
        for (name, level) in &self.levels {
            if next.contains_key(name) {
                continue;
            }
            let mut state = level.lock();
            state.quiescing = true;
            let idle = state.set.is_idle();
            drop(state);
            level.removed.store(idle, Ordering::Release);
            if !idle {
                next.insert(name.clone(), level.clone());
            }
        }
        let schemas = schemas.into_iter().filter_map(|spec| self.schema(spec, &next)).collect();
        Config { schemas, levels: next }
    }

    fn schema(&self, spec: FlowSchema, levels: &BTreeMap<String, Arc<Level>>) -> Option<Arc<Schema>> {
        let level = levels.get(&spec.level)?.clone();
        // Counters continue.
        let before = self.schemas.iter().find(|s| s.spec.name == spec.name && s.spec.level == spec.level);
        let stats = match before {
            Some(schema) => schema.stats.clone(),
            None => Arc::new(FlowStats::new(&spec.level, &spec.name)),
        };
        let uid = |uid: &str| HeaderValue::from_str(uid).unwrap_or(HeaderValue::from_static(""));
        let uids = [uid(&spec.uid), uid(&level.lock().spec.uid)];
        Some(Arc::new(Schema { spec, level, uids, stats }))
    }

    /// Divides the server's seats by nominal shares, then rebalances.
    pub fn divide(&self, server_seats: u32, server_bytes: u64) -> f64 {
        let shares: u64 = self.levels.values().map(|level| u64::from(level.lock().spec.shares)).sum();
        for level in self.levels.values() {
            let mut state = level.lock();
            let part = f64::from(server_seats) * f64::from(state.spec.shares) / shares.max(1) as f64;
            let max_seats = state.set_limits(part.ceil() as u32, server_seats, server_bytes);
            level.max_seats.store(max_seats, Ordering::Relaxed);
        }
        self.rebalance()
    }

    /// Lending and borrowing: every ten seconds, by each level's seat demand since the last time. Returns the fraction
    /// of its target that each level within its bounds got.
    pub fn rebalance(&self) -> f64 {
        let mut claims = Vec::new();
        let (mut remaining, mut lower_sum, mut floor_sum) = (0_i64, 0_i64, 0_i64);
        for level in self.levels.values() {
            level.change(|state, now| {
                state.observe_demand(now);
                let (limits, peak) = (state.limits, state.demand.peak());
                remaining += i64::from(limits.nominal);
                if state.spec.response == Response::Exempt {
                    remaining -= i64::from(limits.lower.max(peak));
                    return;
                }
                let floor = limits.lower.max(limits.nominal.min(peak));
                lower_sum += i64::from(limits.lower);
                floor_sum += i64::from(floor);
                state.target = f64::from(floor).max(state.demand.smoothed);
                let upper = f64::from(limits.upper);
                claims.push(Claim { lower: f64::from(floor), upper, target: state.target });
            });
        }
        let nominal_sum: u32 = self.levels.values().map(|level| level.lock().limits.nominal).sum();
        // What the exempt levels leave is divided; if that is less than all minimums, each minimum is scaled down.
        let enough = remaining > floor_sum;
        let (parts, fraction) = match allocate(f64::from(nominal_sum), &claims).filter(|_| enough) {
            Some((parts, fraction)) => (Some(parts), fraction),
            None => (None, 0.0),
        };
        let part_way = if remaining <= lower_sum || floor_sum == lower_sum {
            0.0
        } else {
            ((remaining - lower_sum) as f64 / (floor_sum - lower_sum) as f64).min(1.0)
        };
        let mut limited = 0;
        for level in self.levels.values() {
            level.change(|state, now| {
                let limits = state.limits;
                let peak = state.demand.peak();
                if state.spec.response == Response::Exempt {
                    state.limits.current = limits.lower.max(peak);
                } else {
                    let floor = limits.lower.max(limits.nominal.min(peak));
                    state.limits.current = match parts.as_ref().and_then(|parts| parts.get(limited)) {
                        Some(part) => part.round() as u32,
                        // Bounds that cannot be met change nothing.
                        None if enough => limits.current,
                        None => limits.lower + (f64::from(floor - limits.lower) * part_way).round() as u32,
                    };
                    limited += 1;
                }
                state.apply_limits(now);
            });
        }
        fraction
    }
}
