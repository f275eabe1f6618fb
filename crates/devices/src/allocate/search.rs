//! The search: claim by claim, request by request, device by device, turning back where it cannot go on.
//!
//! The first solution is taken. Devices of one request are tried in their order only, as the order within a request makes no
//! difference.

use std::collections::HashMap;
use std::sync::Arc;

use object::quantity::Quantity;

use super::counters::Draw;
use super::ground::Ground;
use super::requests::{ClaimState, Given};
use super::{AllocateError, MAX_RESULTS, capacity};
use crate::allocated::{Use, add_amounts, subtract_amounts};
use crate::claim::Mode;
use crate::taint::Taint;

pub(super) struct Search<'s, 'a, 'c> {
    ground: &'s Ground<'s, 'a>,
    claims: Vec<ClaimState<'c, 'a>>,
    /// For each device the claims about to get it.
    taken: Vec<Vec<usize>>,
    /// Devices about to be shared.
    shares: HashMap<usize, Share>,
    /// By pool, once a device draws on its counters.
    draws: Vec<Option<Draw>>,
    interrupted: &'s dyn Fn() -> bool,
}

#[derive(Default)]
struct Share {
    count: usize,
    consumed: Vec<(Arc<str>, Quantity)>,
}

/// What is to be found next: a device of a choice of a request of a claim.
#[derive(Clone, Copy, Default)]
struct Next {
    claim: usize,
    request: usize,
    choice: usize,
    /// How many devices it has so far.
    count: usize,
    /// The choice is made, or there is none.
    chosen: bool,
    /// The device to begin with.
    start: usize,
}

enum Stop {
    /// A claim would get more devices than it can: another choice may need fewer.
    TooMany,
    Failed(AllocateError),
}

impl<'s, 'a, 'c> Search<'s, 'a, 'c> {
    pub(super) fn new(
        ground: &'s Ground<'s, 'a>,
        claims: Vec<ClaimState<'c, 'a>>,
        interrupted: &'s dyn Fn() -> bool,
    ) -> Self {
        Search {
            ground,
            claims,
            taken: vec![Vec::new(); ground.devices.len()],
            shares: HashMap::new(),
            draws: ground.pools.iter().map(|_| None).collect(),
            interrupted,
        }
    }

    /// The claims with what they get, if there is enough for all.
    pub(super) fn run(mut self) -> Result<Option<Vec<ClaimState<'c, 'a>>>, AllocateError> {
        match self.find(Next::default()) {
            Ok(found) => Ok(found.then_some(self.claims)),
            Err(Stop::TooMany) => Err(AllocateError::Fatal("allocation max size exceeded".to_owned())),
            Err(Stop::Failed(error)) => Err(error),
        }
    }

    fn find(&mut self, next: Next) -> Result<bool, Stop> {
        if (self.interrupted)() {
            return Err(Stop::Failed(AllocateError::Interrupted));
        }
        object::deep(|| self.find_from(next))
    }

    fn find_from(&mut self, next: Next) -> Result<bool, Stop> {
        let Some(claim) = self.claims.get(next.claim) else { return Ok(true) };
        let Some(request) = claim.requests.get(next.request) else {
            return match self.find(Next { claim: next.claim + 1, ..Next::default() }) {
                // With other devices for this claim the next one may make another choice.
                Err(Stop::TooMany) => Ok(false),
                answer => answer,
            };
        };
        if request.is_list && !next.chosen {
            return self.find_choice(next, request.choices.len());
        }
        let target = &request.choices[next.choice];
        let all = target.wanted.mode == Mode::All;
        if all && target.all.is_empty() {
            return Ok(false);
        }
        if next.count >= target.count {
            return self.find(Next { claim: next.claim, request: next.request + 1, ..Next::default() });
        }
        if claim.given.len() + target.count - next.count > MAX_RESULTS {
            return Err(Stop::TooMany);
        }
        if all { self.find_this(next, target.all[next.count]) } else { self.find_any(next) }
    }

    /// The first choice that can be had.
    fn find_choice(&mut self, next: Next, choices: usize) -> Result<bool, Stop> {
        let mut too_many = true;
        for choice in 0..choices {
            match self.find(Next { choice, chosen: true, start: 0, ..next }) {
                Err(Stop::TooMany) => {}
                Ok(false) => too_many = false,
                Ok(true) => {
                    self.claims[next.claim].requests[next.request].chosen = choice;
                    return Ok(true);
                }
                failed => return failed,
            }
        }
        if too_many { Err(Stop::TooMany) } else { Ok(false) }
    }

    /// A device that is one of all that are wanted.
    fn find_this(&mut self, next: Next, device: usize) -> Result<bool, Stop> {
        if !self.take(next, device, true).map_err(Stop::Failed)? {
            return Ok(false);
        }
        let answer = self.find(Next { count: next.count + 1, start: 0, ..next });
        if !matches!(answer, Ok(true)) {
            self.give_back(next);
        }
        answer
    }

    /// Any device that will do.
    fn find_any(&mut self, next: Next) -> Result<bool, Stop> {
        for device in next.start..self.ground.devices.len() {
            if !self.is_candidate(next, device).map_err(Stop::Failed)?
                || !self.take(next, device, false).map_err(Stop::Failed)?
            {
                continue;
            }
            let answer = self.find(Next { count: next.count + 1, start: device + 1, ..next });
            if matches!(answer, Ok(true)) {
                return answer;
            }
            self.give_back(next);
            answer?;
        }
        Ok(false)
    }

    fn is_candidate(&mut self, next: Next, device: usize) -> Result<bool, AllocateError> {
        let wanted = self.claims[next.claim].requests[next.request].choices[next.choice].wanted;
        let taken =
            if wanted.is_admin() { self.taken[device].contains(&next.claim) } else { self.is_in_use(device) };
        if taken {
            return Ok(false);
        }
        let state = &mut self.claims[next.claim];
        let target = &mut state.requests[next.request].choices[next.choice];
        Ok(target.selects(self.ground, state.claim, device)?
            && self.ground.fits(wanted, device, self.consuming(device)))
    }

    /// Gives a device to a claim, if that is possible. One that `must` be had and cannot is an error where the claim itself is why.
    fn take(&mut self, next: Next, index: usize, must: bool) -> Result<bool, AllocateError> {
        let ground = self.ground;
        let (slice, place) = ground.slice(index);
        let device = &slice.devices[place];
        let request = &self.claims[next.claim].requests[next.request];
        let (wanted, whom) = (request.choices[next.choice].wanted, request.whom(next.choice));
        let shared = device.allow_multiple_allocations;
        if wanted.is_admin() {
            if !shared && self.taken[index].contains(&next.claim) {
                return Ok(false);
            }
        } else if self.is_in_use(index) {
            return Ok(false);
        }
        // Shares of a device draw on counters once.
        let is_shared =
            shared && (self.shares.contains_key(&index) || ground.used(index).is_some_and(Use::consumes));
        let draws = !is_shared && !device.consumes_counters.is_empty();
        if draws && !self.draw(index).take(device) {
            return Ok(false);
        }
        let tolerates =
            |taint: &Taint| wanted.tolerations.iter().any(|toleration| toleration.tolerates(taint));
        let refused = device.taints.iter().any(|taint| taint.prevents_allocation() && !tolerates(taint));
        let fits = !refused && ground.fits(wanted, index, self.consuming(index));
        let claim = &mut self.claims[next.claim];
        let failed = claim.checks.iter_mut().position(|check| !check.add(whom, device, &slice.driver));
        if refused || !fits || failed.is_some() {
            let added = failed.unwrap_or(claim.checks.len());
            claim.checks[..added].iter_mut().rev().for_each(|check| check.remove(whom));
            if draws {
                self.draw(index).give_back(device);
            }
            if must && !refused && failed.is_some() {
                let (claim, id) = (self.claims[next.claim].claim.key(), ground.id(index));
                return Err(AllocateError::Fatal(format!(
                    "claim {claim}, request {}: cannot add device {id} because a claim constraint would not be satisfied",
                    wanted.name
                )));
            }
            return Ok(false);
        }
        let consumed = shared.then(|| capacity::consumes(&wanted.capacity, &device.capacity));
        let (request, choice) = (next.request, next.choice);
        match &consumed {
            Some(consumed) => {
                let share = self.shares.entry(index).or_default();
                share.count += 1;
                add_amounts(&mut share.consumed, consumed);
            }
            None => self.taken[index].push(next.claim),
        }
        claim.given.push(Given { device: index, request, choice, draws, consumed });
        Ok(true)
    }

    /// Takes back the device that a claim was given last.
    fn give_back(&mut self, next: Next) {
        let ground = self.ground;
        let claim = &mut self.claims[next.claim];
        let Some(given) = claim.given.pop() else { return };
        let whom = claim.requests[given.request].whom(given.choice);
        claim.checks.iter_mut().rev().for_each(|check| check.remove(whom));
        match &given.consumed {
            Some(consumed) => {
                if let Some(share) = self.shares.get_mut(&given.device) {
                    share.count -= 1;
                    subtract_amounts(&mut share.consumed, consumed);
                    if share.count == 0 {
                        self.shares.remove(&given.device);
                    }
                }
            }
            None => self.taken[given.device].retain(|claim| *claim != next.claim),
        }
        if given.draws {
            self.draw(given.device).give_back(ground.device(given.device));
        }
    }

    /// Whether someone has a device for himself, or is about to.
    fn is_in_use(&self, device: usize) -> bool {
        !self.taken[device].is_empty() || self.ground.used(device).is_some_and(Use::is_exclusive)
    }

    /// What is about to be consumed of a device.
    fn consuming(&self, device: usize) -> &[(Arc<str>, Quantity)] {
        self.shares.get(&device).map_or(&[], |share| &share.consumed)
    }

    /// The counters a device draws on.
    fn draw(&mut self, device: usize) -> &mut Draw {
        let pool = self.ground.devices[device].pool;
        let ground = self.ground;
        self.draws[pool].get_or_insert_with(|| Draw::new(ground.allocator.available(&ground.pools[pool])))
    }
}
