//! "Stop now": one flag all tasks of a component look at.

use tokio::sync::watch;

/// Cheap to clone; every clone sees the same flag.
#[derive(Clone)]
pub struct Stop {
    begun: watch::Receiver<bool>,
}

/// The one who says it. Dropping it stops too.
pub struct Stopper {
    begun: watch::Sender<bool>,
}

impl Stopper {
    pub fn new() -> (Stopper, Stop) {
        let (begun, receiver) = watch::channel(false);
        (Stopper { begun }, Stop { begun: receiver })
    }

    pub fn stop(&self) {
        self.begun.send_replace(true);
    }
}

impl Stop {
    pub fn is_stopped(&self) -> bool {
        *self.begun.borrow() || self.begun.has_changed().is_err()
    }

    pub async fn stopped(&self) {
        let mut begun = self.begun.clone();
        // A dropped stopper means nobody is left to say it: that is a stop too.
        let _ = begun.wait_for(|stop| *stop).await;
    }
}
