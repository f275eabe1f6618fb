//! The buckets of the families, as kube-apiserver has them.

use metrics::Bounds;

const MILLI: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MILLI;

/// Of `apiserver_request_duration_seconds` and `etcd_request_duration_seconds`.
pub const LATENCY: Bounds<23> = Bounds {
    values: [
        5 * MILLI,
        25 * MILLI,
        50 * MILLI,
        100 * MILLI,
        200 * MILLI,
        400 * MILLI,
        600 * MILLI,
        800 * MILLI,
        SECOND,
        1250 * MILLI,
        1500 * MILLI,
        2 * SECOND,
        3 * SECOND,
        4 * SECOND,
        5 * SECOND,
        6 * SECOND,
        8 * SECOND,
        10 * SECOND,
        15 * SECOND,
        20 * SECOND,
        30 * SECOND,
        45 * SECOND,
        60 * SECOND,
    ],
    labels: [
        "0.005", "0.025", "0.05", "0.1", "0.2", "0.4", "0.6", "0.8", "1", "1.25", "1.5", "2", "3", "4", "5",
        "6", "8", "10", "15", "20", "30", "45", "60",
    ],
    per_unit: SECOND,
};

/// `apiserver_request_sli_duration_seconds` has these of [`LATENCY`]'s bounds: all from this one on.
pub const SLI_FROM: usize = 2;

/// Of `authentication_duration_seconds` and `authorization_duration_seconds`: a millisecond, doubled 14 times.
pub const AUTH: Bounds<15> = Bounds {
    values: {
        let mut values = [0; 15];
        let mut at = 0;
        while at < values.len() {
            values[at] = MILLI << at;
            at += 1;
        }
        values
    },
    labels: [
        "0.001", "0.002", "0.004", "0.008", "0.016", "0.032", "0.064", "0.128", "0.256", "0.512", "1.024",
        "2.048", "4.096", "8.192", "16.384",
    ],
    per_unit: SECOND,
};

/// Of `apiserver_request_filter_duration_seconds`.
pub const FILTER: Bounds<13> = Bounds {
    values: [
        MILLI / 10,
        3 * MILLI / 10,
        MILLI,
        3 * MILLI,
        10 * MILLI,
        30 * MILLI,
        100 * MILLI,
        300 * MILLI,
        SECOND,
        5 * SECOND,
        10 * SECOND,
        15 * SECOND,
        30 * SECOND,
    ],
    labels: ["0.0001", "0.0003", "0.001", "0.003", "0.01", "0.03", "0.1", "0.3", "1", "5", "10", "15", "30"],
    per_unit: SECOND,
};

/// Of the admission families.
pub const ADMISSION: Bounds<6> = Bounds {
    values: [5 * MILLI, 25 * MILLI, 100 * MILLI, 500 * MILLI, SECOND, 2500 * MILLI],
    labels: ["0.005", "0.025", "0.1", "0.5", "1", "2.5"],
    per_unit: SECOND,
};

/// Of `apiserver_response_sizes`, in bytes.
pub const RESPONSE: Bounds<7> = Bounds {
    values: [1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000],
    labels: ["1000", "10000", "100000", "1e+06", "1e+07", "1e+08", "1e+09"],
    per_unit: 1,
};

/// Of `apiserver_watch_events_sizes`, in bytes.
pub const EVENT: Bounds<8> = Bounds {
    values: [1024, 2048, 4096, 8192, 16_384, 32_768, 65_536, 131_072],
    labels: ["1024", "2048", "4096", "8192", "16384", "32768", "65536", "131072"],
    per_unit: 1,
};

/// Of `apiserver_client_certificate_expiration_seconds`.
pub const EXPIRATION: Bounds<14> = Bounds {
    values: [
        0, 1_800, 3_600, 7_200, 21_600, 43_200, 86_400, 172_800, 345_600, 604_800, 2_592_000, 7_776_000,
        15_552_000, 31_104_000,
    ],
    labels: [
        "0",
        "1800",
        "3600",
        "7200",
        "21600",
        "43200",
        "86400",
        "172800",
        "345600",
        "604800",
        "2.592e+06",
        "7.776e+06",
        "1.5552e+07",
        "3.1104e+07",
    ],
    per_unit: 1,
};
