//! What selectors said of the devices of a slice. A slice never changes, so an answer stays true.

use parking_lot::Mutex;

/// Expressions whose answers a slice keeps. More take turns.
const MAX_EXPRESSIONS: usize = 16;

#[derive(Debug, Default)]
pub(crate) struct Verdicts(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    rows: Vec<Row>,
    /// The row to be replaced next.
    next: usize,
}

#[derive(Debug)]
struct Row {
    expression: u64,
    /// One per device.
    answers: Box<[Option<bool>]>,
}

impl Verdicts {
    pub(super) fn get(&self, expression: u64, device: usize) -> Option<bool> {
        let kept = self.0.lock();
        let row = kept.rows.iter().find(|row| row.expression == expression)?;
        row.answers.get(device).copied().flatten()
    }

    pub(super) fn set(&self, expression: u64, devices: usize, device: usize, answer: bool) {
        let mut kept = self.0.lock();
        let at = match kept.rows.iter().position(|row| row.expression == expression) {
            Some(at) => at,
            None => {
                let row = Row { expression, answers: vec![None; devices].into() };
                if kept.rows.len() < MAX_EXPRESSIONS {
                    kept.rows.push(row);
                    kept.rows.len() - 1
                } else {
                    let at = kept.next;
                    kept.next = (at + 1) % MAX_EXPRESSIONS;
                    kept.rows[at] = row;
                    at
                }
            }
        };
        if let Some(own) = kept.rows[at].answers.get_mut(device) {
            *own = Some(answer);
        }
    }
}
