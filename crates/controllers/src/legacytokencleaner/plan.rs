//! Which tokens nobody used for long enough, and what to do with them.

use object::{Obj, Value, time};

pub const LAST_USED: &str = "kubernetes.io/legacy-token-last-used";
pub const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";
const DAY: i64 = 24 * 3600;

/// The days that count now. Dates are text (`2006-01-02`), and are compared as such.
#[derive(Debug, PartialEq, Eq)]
pub struct Times {
    today: String,
    /// Created, used or invalid since then: kept.
    keep_from: i64,
}

impl Times {
    /// `None`: uses were not tracked for long enough, or since nobody knows when.
    pub fn new(tracking: &Value, now: i64, period: i64) -> Option<Times> {
        let since = day(tracking.str_at(&["data", "since"])?)?;
        // It may have begun at the end of that day.
        let tracked_since = since + DAY;
        let times = Times { today: date(now), keep_from: now.saturating_sub(period) };
        (now >= tracked_since.saturating_add(period)).then_some(times)
    }
}

/// The account a token is for.
#[derive(Debug, PartialEq, Eq)]
pub struct Account {
    pub name: String,
    uid: String,
}

impl Account {
    /// It is this one, and names the Secret: the token was made for it, not by a user.
    pub fn is(&self, account: &Obj, body: &Value, secret: &str) -> bool {
        let named = body.get("secrets").and_then(Value::as_list).unwrap_or_default();
        (self.uid.is_empty() || self.uid == account.uid())
            && named.iter().any(|reference| reference.str_at(&["name"]) == Some(secret))
    }
}

/// The account of a token that was not used for long enough; `None`: it stays, or is nobody's.
pub fn unused(secret: &Value, times: &Times) -> Option<Account> {
    let created = secret.str_at(&["metadata", "creationTimestamp"]).and_then(time::parse)?.0;
    if created >= times.keep_from || secret.at(&["metadata", "deletionTimestamp"]).is_some() {
        return None;
    }
    if let Some(used) = secret.str_at(&["metadata", "labels", LAST_USED]) {
        // Without a date nobody knows.
        day(used)?;
        if *used >= *date(times.keep_from) {
            return None;
        }
    }
    let annotation = |name: &str| secret.str_at(&["metadata", "annotations", name]).unwrap_or("").to_owned();
    let name = annotation("kubernetes.io/service-account.name");
    (!name.is_empty()).then(|| Account { name, uid: annotation("kubernetes.io/service-account.uid") })
}

#[derive(Debug, PartialEq)]
pub enum Step {
    /// It is invalid, but not for long enough.
    Keep,
    Invalidate(Value),
    Delete,
}

/// Of a token that is unused.
pub fn step(secret: &Value, times: &Times) -> Step {
    let since = secret.str_at(&["metadata", "labels", INVALID_SINCE]).unwrap_or("");
    if day(since).is_none() {
        return Step::Invalidate(label(secret, INVALID_SINCE, &times.today));
    }
    if *since >= *date(times.keep_from) { Step::Keep } else { Step::Delete }
}

/// A patch that sets a label of the very Secret that was seen.
fn label(secret: &Value, name: &'static str, text: &str) -> Value {
    let mut patch = Value::map();
    let uid = secret.str_at(&["metadata", "uid"]).unwrap_or("").to_owned();
    patch.map_at(&["metadata"]).set("uid", uid);
    patch.map_at(&["metadata", "labels"]).set(name, text.to_owned());
    patch
}

/// The day of a time.
fn date(seconds: i64) -> String {
    time::format_seconds(seconds).chars().take_while(|&c| c != 'T').collect()
}

/// The beginning of a day; `None`: the text is none.
fn day(text: &str) -> Option<i64> {
    let is_date = text.len() == 10;
    is_date.then(|| time::parse(&format!("{text}T00:00:00Z"))).flatten().map(|(seconds, _)| seconds)
}
