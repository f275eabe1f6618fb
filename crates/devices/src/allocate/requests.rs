//! What is known of claims before the search: how many devices, of which class, and what can never be given.

use std::sync::Arc;

use object::quantity::Quantity;

use super::constraints::{Check, For};
use super::ground::Ground;
use super::{AllocateError, MAX_RESULTS};
use crate::claim::{Choice, Claim, Mode, Request, Selector, Wanted};
use crate::class::DeviceClass;
use crate::selectors::Outcome;
use crate::slices::State;

pub(super) struct ClaimState<'c, 'a> {
    pub claim: &'c Claim,
    pub requests: Vec<RequestState<'c, 'a>>,
    pub checks: Vec<Check<'c>>,
    /// What it is about to get.
    pub given: Vec<Given>,
}

pub(super) struct RequestState<'c, 'a> {
    pub request: &'c Request,
    /// One, or those of which the first available is taken.
    pub choices: Vec<Target<'c, 'a>>,
    pub is_list: bool,
    /// The choice that was taken.
    pub chosen: usize,
}

/// A request or subrequest to be satisfied.
pub(super) struct Target<'c, 'a> {
    pub wanted: &'c Wanted,
    pub class: &'a Arc<DeviceClass>,
    pub count: usize,
    /// The devices, where all are wanted.
    pub all: Vec<usize>,
    /// Which devices are selected, as far as it was asked.
    pub selected: Vec<Option<bool>>,
    class_selectors: Lazy<'a>,
    selectors: Lazy<'c>,
}

/// A device given to a claim.
pub(super) struct Given {
    pub device: usize,
    pub request: usize,
    pub choice: usize,
    /// It draws on the counters of its pool.
    pub draws: bool,
    /// What is consumed of a device that others may have, too.
    pub consumed: Option<Vec<(Arc<str>, Quantity)>>,
}

/// Selectors, compiled when they are first needed: without devices, none of them can be wrong.
struct Lazy<'c> {
    selectors: &'c [Selector],
    compiled: Vec<Outcome>,
}

impl<'c, 'a> ClaimState<'c, 'a> {
    pub(super) fn new(ground: &Ground<'_, 'a>, claim: &'c Claim) -> Result<Self, AllocateError> {
        let mut requests = Vec::with_capacity(claim.requests.len());
        let mut least: usize = 0;
        for request in &claim.requests {
            let wanted: &[Wanted] = match &request.choice {
                Choice::Exactly(wanted) => std::slice::from_ref(wanted),
                Choice::FirstAvailable(choices) => choices,
                Choice::Unknown => {
                    return Err(refuse(
                        claim,
                        &request.name,
                        "missing device class name (unsupported request type?)",
                    ));
                }
            };
            let choices: Result<Vec<_>, _> =
                wanted.iter().map(|wanted| Target::new(ground, claim, wanted)).collect();
            let choices = choices?;
            least = least.saturating_add(choices.iter().map(|choice| choice.count).min().unwrap_or(0));
            let is_list = matches!(request.choice, Choice::FirstAvailable(_));
            requests.push(RequestState { request, choices, is_list, chosen: 0 });
        }
        if least > MAX_RESULTS {
            let claim = claim.key();
            return Err(AllocateError::Fatal(format!(
                "claim {claim}: number of requested devices {least} exceeds the claim limit of {MAX_RESULTS}"
            )));
        }
        let checks = Check::all(claim).map_err(AllocateError::Fatal)?;
        Ok(ClaimState { claim, requests, checks, given: Vec::with_capacity(least) })
    }
}

impl<'c> RequestState<'c, '_> {
    pub(super) fn whom(&self, choice: usize) -> For<'c> {
        let subrequest = self.is_list.then(|| &self.choices[choice].wanted.name);
        For { request: &self.request.name, subrequest }
    }

    /// How results call it.
    pub(super) fn name(&self, choice: usize) -> String {
        match self.whom(choice).subrequest {
            Some(subrequest) => format!("{}/{subrequest}", self.request.name),
            None => self.request.name.to_string(),
        }
    }
}

impl<'c, 'a> Target<'c, 'a> {
    fn new(ground: &Ground<'_, 'a>, claim: &'c Claim, wanted: &'c Wanted) -> Result<Self, AllocateError> {
        let refuse = |words: &str| refuse(claim, &wanted.name, words);
        if let Some(i) = wanted.selectors.iter().position(|selector| selector.expression.is_none()) {
            let (claim, request) = (claim.key(), &wanted.name);
            return Err(AllocateError::Fatal(format!(
                "claim {claim}, request {request}, selector #{i}: CEL expression empty (unsupported selector type?)"
            )));
        }
        if wanted.class.is_empty() {
            return Err(refuse("missing device class name (unsupported request type?)"));
        }
        let Some(class) = ground.allocator.classes.get(&wanted.class) else {
            let class = &wanted.class;
            return Err(refuse(&format!(
                "could not retrieve device class {class}: deviceclass.resource.k8s.io \"{class}\" not found"
            )));
        };
        let mut target = Target {
            wanted,
            class,
            count: 0,
            all: Vec::new(),
            selected: vec![None; ground.devices.len()],
            class_selectors: Lazy::new(&class.selectors),
            selectors: Lazy::new(&wanted.selectors),
        };
        match &wanted.mode {
            Mode::ExactCount => target.count = usize::try_from(wanted.count).unwrap_or(0),
            Mode::All => {
                let broken = ground.pools.iter().position(|pool| pool.state != State::Usable);
                // Pools before it are asked for first, and their answer may be an error.
                let end = broken.map_or(ground.devices.len(), |pool| ground.first_device(pool));
                for device in 0..end {
                    if target.selects(ground, claim, device)? && ground.fits(wanted, device, &[]) {
                        target.all.push(device);
                    }
                }
                if let Some(pool) = broken {
                    let pool = &ground.pools[pool];
                    let state = if pool.state == State::Incomplete { "being updated" } else { "invalid" };
                    let pool = pool.id;
                    return Err(refuse(&format!(
                        "asks for all devices, but resource pool {pool} is currently {state}"
                    )));
                }
                target.count = target.all.len();
            }
            Mode::Other(mode) => return Err(refuse(&format!("unsupported count mode {mode}"))),
        }
        Ok(target)
    }

    /// Whether the class and the request select a device, and the node can use it.
    pub(super) fn selects(
        &mut self,
        ground: &Ground<'_, '_>,
        claim: &Claim,
        device: usize,
    ) -> Result<bool, AllocateError> {
        if let Some(known) = self.selected[device] {
            return Ok(known);
        }
        let answer = self.ask(ground, claim, device).map_err(AllocateError::Fatal)?;
        self.selected[device] = Some(answer);
        Ok(answer)
    }

    fn ask(&mut self, ground: &Ground<'_, '_>, claim: &Claim, device: usize) -> Result<bool, String> {
        let class = || format!("class {}", self.class.name);
        if !self.class_selectors.select(ground, device, &class)?
            || !self.selectors.select(ground, device, &|| format!("claim {}", claim.key()))?
        {
            return Ok(false);
        }
        let (slice, place) = ground.slice(device);
        if slice.per_device {
            return slice.devices[place].node.matches(ground.node).map_err(str::to_owned);
        }
        Ok(true)
    }
}

impl<'c> Lazy<'c> {
    fn new(selectors: &'c [Selector]) -> Lazy<'c> {
        Lazy { selectors, compiled: Vec::new() }
    }

    fn select(
        &mut self,
        ground: &Ground<'_, '_>,
        device: usize,
        owner: &dyn Fn() -> String,
    ) -> Result<bool, String> {
        let (slice, place) = ground.slice(device);
        for (i, selector) in self.selectors.iter().enumerate() {
            if self.compiled.len() <= i {
                let expression = selector.expression.clone().unwrap_or_default();
                self.compiled.push(ground.allocator.selectors.get(&expression));
            }
            let failed =
                |step: &str, error: &str| format!("{}: selector #{i}: CEL {step} error: {error}", owner());
            let compiled =
                self.compiled[i].as_ref().map_err(|error| failed("compile", &error.to_string()))?;
            if !compiled.matches(slice, place).map_err(|error| failed("runtime", &error))? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn refuse(claim: &Claim, request: &str, words: &str) -> AllocateError {
    AllocateError::Fatal(format!("claim {}, request {request}: {words}", claim.key()))
}
