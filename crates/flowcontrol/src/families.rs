//! Statistics of each flow schema in each level, and the metrics `apiserver_flowcontrol_*`.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use metrics::{Bounds, Histogram, header, single};

use crate::Nanos;
use crate::control::LevelFigures;

const MILLI: u64 = 1_000_000;

const DURATION: Bounds<13> = Bounds {
    values: [
        0,
        5 * MILLI,
        20 * MILLI,
        50 * MILLI,
        100 * MILLI,
        200 * MILLI,
        500 * MILLI,
        1000 * MILLI,
        2000 * MILLI,
        5000 * MILLI,
        10_000 * MILLI,
        15_000 * MILLI,
        30_000 * MILLI,
    ],
    labels: ["0", "0.005", "0.02", "0.05", "0.1", "0.2", "0.5", "1", "2", "5", "10", "15", "30"],
    per_unit: 1000 * MILLI,
};
const QUEUE_LENGTH: Bounds<8> = Bounds {
    values: [0, 10, 25, 50, 100, 250, 500, 1000],
    labels: ["0", "10", "25", "50", "100", "250", "500", "1000"],
    per_unit: 1,
};
const SEATS: Bounds<8> = Bounds {
    values: [1, 2, 4, 8, 16, 32, 64, 100],
    labels: ["1", "2", "4", "8", "16", "32", "64", "100"],
    per_unit: 1,
};
const WATCHES: Bounds<6> = Bounds {
    values: [0, 1, 10, 100, 1000, 10_000],
    labels: ["0", "1", "10", "100", "1000", "10000"],
    per_unit: 1,
};

/// Why a request was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    ConcurrencyLimit,
    QueueFull,
    /// It waited too long, or its client disconnected.
    TimeOut,
}

impl Reason {
    const ALL: [Reason; 3] = [Reason::ConcurrencyLimit, Reason::QueueFull, Reason::TimeOut];

    pub fn as_str(self) -> &'static str {
        match self {
            Reason::ConcurrencyLimit => "concurrency-limit",
            Reason::QueueFull => "queue-full",
            Reason::TimeOut => "time-out",
        }
    }
}

/// The requests of one flow schema in one priority level.
#[derive(Default)]
pub struct FlowStats {
    pub level: String,
    pub schema: String,
    rejected: [AtomicU64; 3],
    dispatched: AtomicU64,
    no_accommodation: AtomicU64,
    waiting: AtomicI64,
    seats_waiting: AtomicI64,
    executing: AtomicI64,
    seats: AtomicI64,
    queue_length: Histogram<8>,
    waited: [Histogram<13>; 2],
    executed: [Histogram<13>; 2],
    estimated_seats: Histogram<8>,
    watches: Histogram<6>,
}

impl std::fmt::Debug for FlowStats {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.level, self.schema)
    }
}

impl FlowStats {
    pub fn new(level: &str, schema: &str) -> FlowStats {
        FlowStats { level: level.to_owned(), schema: schema.to_owned(), ..FlowStats::default() }
    }

    pub fn estimated(&self, seats: u32) {
        self.estimated_seats.observe(&SEATS, u64::from(seats));
    }

    /// Records how many watches a write notifies.
    pub fn observe_watch_count(&self, watches: usize) {
        self.watches.observe(&WATCHES, watches as u64);
    }

    pub fn rejected(&self, reason: Reason) {
        self.rejected[reason as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub fn entered_queue(&self, seats: u32, length: usize) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        self.seats_waiting.fetch_add(i64::from(seats), Ordering::Relaxed);
        self.queue_length.observe(&QUEUE_LENGTH, length as u64);
    }

    pub fn left_queue(&self, seats: u32) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        self.seats_waiting.fetch_sub(i64::from(seats), Ordering::Relaxed);
    }

    pub fn waited(&self, executed: bool, nanos: Nanos) {
        self.waited[usize::from(executed)].observe(&DURATION, nanos);
    }

    pub fn dispatched(&self, seats: u32) {
        self.dispatched.fetch_add(1, Ordering::Relaxed);
        self.executing.fetch_add(1, Ordering::Relaxed);
        self.seats.fetch_add(i64::from(seats), Ordering::Relaxed);
    }

    pub fn executed(&self, watch: bool, nanos: Nanos) {
        self.executing.fetch_sub(1, Ordering::Relaxed);
        self.executed[usize::from(watch)].observe(&DURATION, nanos);
    }

    pub fn released(&self, seats: u32) {
        self.seats.fetch_sub(i64::from(seats), Ordering::Relaxed);
    }

    pub fn no_accommodation(&self) {
        self.no_accommodation.fetch_add(1, Ordering::Relaxed);
    }

    fn labels(&self) -> String {
        format!("flow_schema=\"{}\",priority_level=\"{}\"", self.schema, self.level)
    }
}

/// `apiserver_flowcontrol_*`.
pub fn write(out: &mut String, flows: &[&FlowStats], levels: &[LevelFigures], fair_fraction: f64) {
    let name = |name: &str| format!("apiserver_flowcontrol_{name}");
    let family = |out: &mut String, short: &str, kind: &str, help: &str| {
        let name = name(short);
        header(out, &name, kind, help);
        name
    };
    let each = |out: &mut String, short: &str, kind: &str, help: &str, value: fn(&FlowStats) -> i64| {
        let name = family(out, short, kind, help);
        for flow in flows {
            let _ = writeln!(out, "{name}{{{}}} {}", flow.labels(), value(flow));
        }
    };
    let help = "Number of requests rejected by API Priority and Fairness.";
    let rejected = family(out, "rejected_requests_total", "counter", help);
    for flow in flows {
        for reason in Reason::ALL {
            let count = flow.rejected[reason as usize].load(Ordering::Relaxed);
            if count > 0 {
                let (labels, reason) = (flow.labels(), reason.as_str());
                let _ = writeln!(out, "{rejected}{{{labels},reason=\"{reason}\"}} {count}");
            }
        }
    }
    each(out, "dispatched_requests_total", "counter", "Number of requests executed.", |flow| {
        flow.dispatched.load(Ordering::Relaxed) as i64
    });
    each(
        out,
        "request_dispatch_no_accommodation_total",
        "counter",
        "How often the next request had to wait for seats.",
        |flow| flow.no_accommodation.load(Ordering::Relaxed) as i64,
    );
    each(out, "current_inqueue_requests", "gauge", "Requests that wait in queues.", |flow| {
        flow.waiting.load(Ordering::Relaxed)
    });
    each(out, "current_inqueue_seats", "gauge", "Seats that requests in queues wait for.", |flow| {
        flow.seats_waiting.load(Ordering::Relaxed)
    });
    each(out, "current_executing_requests", "gauge", "Requests being executed.", |flow| {
        flow.executing.load(Ordering::Relaxed)
    });
    each(out, "current_executing_seats", "gauge", "Seats taken by requests being executed.", |flow| {
        flow.seats.load(Ordering::Relaxed)
    });
    let help = "Length of a queue, as each request finds it with itself in it.";
    let length = family(out, "request_queue_length_after_enqueue", "histogram", help);
    for flow in flows {
        flow.queue_length.write(out, &length, &flow.labels(), &QUEUE_LENGTH, 0);
    }
    let wait =
        family(out, "request_wait_duration_seconds", "histogram", "How long requests waited in queues.");
    for flow in flows {
        for (execute, histogram) in [("false", &flow.waited[0]), ("true", &flow.waited[1])] {
            if histogram.count() > 0 {
                let labels = format!("execute=\"{execute}\",{}", flow.labels());
                histogram.write(out, &wait, &labels, &DURATION, 0);
            }
        }
    }
    let help = "How long requests were executed; of watches, until they began.";
    let execution = family(out, "request_execution_seconds", "histogram", help);
    for flow in flows {
        for (of, histogram) in [("regular", &flow.executed[0]), ("watch", &flow.executed[1])] {
            if histogram.count() > 0 {
                histogram.write(out, &execution, &format!("{},type=\"{of}\"", flow.labels()), &DURATION, 0);
            }
        }
    }
    let help = "Seats that requests were estimated to take.";
    let estimated = family(out, "work_estimated_seats", "histogram", help);
    for flow in flows {
        flow.estimated_seats.write(out, &estimated, &flow.labels(), &SEATS, 0);
    }
    let watches = family(out, "watch_count_samples", "histogram", "Watches that writes concerned.");
    for flow in flows.iter().filter(|flow| flow.watches.count() > 0) {
        flow.watches.write(out, &watches, &flow.labels(), &WATCHES, 0);
    }
    type Figure = (&'static str, &'static str, fn(&LevelFigures) -> f64);
    let figures: [Figure; 10] = [
        ("nominal_limit_seats", "Seats by the level's shares.", |level| f64::from(level.nominal)),
        ("lower_limit_seats", "Seats that are never lent.", |level| f64::from(level.lower)),
        ("upper_limit_seats", "Seats with all that may be borrowed.", |level| f64::from(level.upper)),
        ("current_limit_seats", "Seats with what is lent and borrowed now.", |level| {
            f64::from(level.current)
        }),
        ("current_r", "Seat-seconds given to each queue with work so far.", |level| level.reading),
        ("demand_seats_high_watermark", "Most seats wanted in the last ten seconds.", |level| {
            level.demand.seen.peak
        }),
        ("demand_seats_average", "Seats wanted in the last ten seconds, on average.", |level| {
            level.demand.seen.average
        }),
        ("demand_seats_stdev", "Deviation of the seats wanted in the last ten seconds.", |level| {
            level.demand.seen.deviation
        }),
        ("demand_seats_smoothed", "Seats wanted, smoothed.", |level| level.demand.smoothed),
        ("target_seats", "Seats the level should have had in the last allocation.", |level| level.target),
    ];
    for (short, help, value) in figures {
        let name = family(out, short, "gauge", help);
        for level in levels {
            let _ = writeln!(out, "{name}{{priority_level=\"{}\"}} {}", level.name, value(level));
        }
    }
    let help = "Fraction of its target that each level got whose bounds left it free.";
    single(out, &name("seat_fair_frac"), "gauge", help, fair_fraction);
}
