//! Every flag of kube-apiserver v1.36, and what becomes of it here: one row each.

/// How a flag's value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `--flag`, `--flag=true` or `--flag=false`.
    Switch,
    /// One value: the last one counts.
    One(&'static str),
    /// Several values: all of them count.
    Many(&'static str),
}

/// How far a flag is supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// It does what it does in kube-apiserver.
    Honoured,
    /// It has no effect, and nobody is worse off: why.
    NoEffect(&'static str),
    /// These values say what is the case anyway; any other is refused: why.
    Only(&'static [&'static str], &'static str),
    /// It cannot be used: why.
    Refused(&'static str),
}
use Form::{Many, One, Switch};
use Support::{Honoured, NoEffect, Only, Refused};

#[derive(Debug)]
pub struct Flag {
    pub name: &'static str,
    pub form: Form,
    pub support: Support,
    pub help: &'static str,
}

const fn flag(name: &'static str, form: Form, support: Support, help: &'static str) -> Flag {
    Flag { name, form, support, help }
}

const ON: &[&str] = &["true"];
const OFF: &[&str] = &["false"];
const NO_AUDIT: Support = Refused("there is no audit log yet");
const AUDIT_DETAIL: Support =
    NoEffect("there is no audit log yet, and the flags that turn it on are refused");
const NO_WEBHOOK_TOKENS: Support = Refused("tokens are not verified by webhooks");
const NO_OIDC: Support = Refused("OpenID Connect tokens are not verified");
const NO_WEBHOOK_AUTHORIZER: Support = Refused("requests are not authorized by webhooks");
const NO_PEERS: Support = Refused("requests are not passed on to other API servers of this cluster");
const LOGS: Support = NoEffect("the log is text on standard error");
const METRICS: Support = NoEffect("all metrics are shown");
const ETCD_TUNING: Support = NoEffect("etcd is watched and compacted at fixed intervals");
const ELECTION: Support = NoEffect("coordinated leader election is off in v1.36");
const FIXED_TOLERATION: Support = Only(&["300"], "pods tolerate such nodes for 300 s");

/// Under the headings of kube-apiserver's help.
pub const GROUPS: &[(&str, &[Flag])] = &[
    (
        "Generic",
        &[
            flag("advertise-address", One("ip"), Honoured, "Address of the kubernetes Service's endpoint"),
            flag(
                "cors-allowed-origins",
                Many("strings"),
                Refused("requests from other origins are not answered for browsers"),
                "Origins of browsers that may ask",
            ),
            flag(
                "emulated-version",
                Many("strings"),
                Only(&["1.36", "kube=1.36"], "the API is that of v1.36"),
                "Version to behave like",
            ),
            flag(
                "emulation-forward-compatible",
                Switch,
                Only(OFF, "no other version is emulated"),
                "Serve later versions of APIs than those of the emulated version",
            ),
            flag(
                "external-hostname",
                One("string"),
                NoEffect("documents name the address that is listened on"),
                "Host name in generated URLs",
            ),
            flag(
                "feature-gates",
                Many("name=bool,..."),
                Honoured,
                "Feature gates, each with its default of v1.36: one that would change something is refused",
            ),
            flag(
                "goaway-chance",
                One("float"),
                NoEffect("connections are not rebalanced"),
                "Share of requests that end their connection",
            ),
            flag(
                "livez-grace-period",
                One("duration"),
                NoEffect("/livez tells the truth from the start"),
                "How long /livez may lie while starting",
            ),
            flag("max-mutating-requests-inflight", One("int"), Honoured, "Added to --max-requests-inflight"),
            flag(
                "max-requests-inflight",
                One("int"),
                Honoured,
                "Maximum number of requests in flight, shared among the priority levels",
            ),
            flag(
                "min-compatibility-version",
                Many("strings"),
                Only(&["1.35", "1.36", "kube=1.35", "kube=1.36"], "the API is that of v1.36"),
                "Oldest version to be compatible with",
            ),
            flag(
                "min-request-timeout",
                One("int"),
                NoEffect("a watch ends after 30 to 60 minutes"),
                "Seconds a watch is kept open at least",
            ),
            flag(
                "request-timeout",
                One("duration"),
                NoEffect("a request may take 60 s"),
                "How long a request may take",
            ),
            flag(
                "runtime-config-emulation-forward-compatible",
                Switch,
                Only(OFF, "no other version is emulated"),
                "As --emulation-forward-compatible",
            ),
            flag(
                "shutdown-delay-duration",
                One("duration"),
                NoEffect("a stop begins at once"),
                "How long to go on after SIGTERM",
            ),
            flag(
                "shutdown-send-retry-after",
                Switch,
                NoEffect("requests in flight are finished within 4 s"),
                "Refuse new requests politely while stopping",
            ),
            flag(
                "shutdown-watch-termination-grace-period",
                One("duration"),
                NoEffect("watches end when a stop begins"),
                "How long watches go on while stopping",
            ),
            flag(
                "storage-initialization-timeout",
                One("duration"),
                NoEffect("the server is ready when its store is"),
                "How long to wait for the store",
            ),
            flag(
                "strict-transport-security-directives",
                Many("strings"),
                Refused("no HSTS header is sent"),
                "Directives of the HSTS header",
            ),
        ],
    ),
    (
        "Etcd",
        &[
            flag(
                "default-watch-cache-size",
                One("int"),
                NoEffect("history is kept for five minutes"),
                "Size of the cache of a resource that --watch-cache-sizes does not name",
            ),
            flag(
                "delete-collection-workers",
                One("int"),
                NoEffect("collections are deleted in order"),
                "Workers of a deletecollection",
            ),
            flag(
                "enable-garbage-collector",
                Switch,
                Only(ON, "owner references and finalizers always work"),
                "Support garbage collection",
            ),
            flag(
                "encryption-provider-config",
                One("string"),
                Refused("objects are not encrypted where they are stored"),
                "Encryption of stored objects",
            ),
            flag(
                "encryption-provider-config-automatic-reload",
                Switch,
                Only(OFF, "objects are not encrypted where they are stored"),
                "Reload --encryption-provider-config",
            ),
            flag("etcd-cafile", One("string"), Honoured, "CA bundle to verify etcd's certificate"),
            flag("etcd-certfile", One("string"), Honoured, "Client certificate for etcd"),
            flag("etcd-compaction-interval", One("duration"), ETCD_TUNING, "How often etcd is compacted"),
            flag(
                "etcd-count-metric-poll-period",
                One("duration"),
                ETCD_TUNING,
                "How often objects are counted",
            ),
            flag(
                "etcd-db-metric-poll-interval",
                One("duration"),
                ETCD_TUNING,
                "How often etcd's size is read",
            ),
            flag("etcd-healthcheck-timeout", One("duration"), ETCD_TUNING, "Timeout of etcd's health check"),
            flag("etcd-keyfile", One("string"), Honoured, "Private key of --etcd-certfile"),
            flag(
                "etcd-prefix",
                One("string"),
                Only(&["/registry", "/registry/"], "keys begin with /registry"),
                "Prefix of keys",
            ),
            flag(
                "etcd-readycheck-timeout",
                One("duration"),
                ETCD_TUNING,
                "Timeout of etcd's readiness check",
            ),
            flag(
                "etcd-servers",
                Many("strings"),
                Honoured,
                "URLs of etcd; if it is the stand-in beside this program, objects are stored in its data directory",
            ),
            flag(
                "etcd-servers-overrides",
                Many("strings"),
                Refused("all resources are in one store"),
                "Other etcds for some resources",
            ),
            flag("lease-reuse-duration-seconds", One("int"), ETCD_TUNING, "How long an etcd lease is reused"),
            flag(
                "storage-backend",
                One("string"),
                Only(&["", "etcd3"], "there is no other"),
                "Kind of store",
            ),
            flag(
                "storage-media-type",
                One("string"),
                NoEffect("objects are stored as JSON; all media types are served"),
                "Encoding of stored objects",
            ),
            flag(
                "watch-cache",
                Switch,
                NoEffect("reads and watches are always served from memory"),
                "Serve watches from a cache",
            ),
            flag(
                "watch-cache-sizes",
                Many("strings"),
                NoEffect("history is kept for five minutes"),
                "Sizes of that cache",
            ),
        ],
    ),
    (
        "Secure serving",
        &[
            flag("bind-address", One("ip"), Honoured, "Address to listen on [default: 127.0.0.1]"),
            flag(
                "cert-dir",
                One("string"),
                Honoured,
                "Where apiserver.crt and apiserver.key are, or are written if they are missing; not read with --tls-cert-file",
            ),
            flag(
                "disable-http2-serving",
                Switch,
                Only(OFF, "HTTP/2 is always served"),
                "Serve HTTP/1.1 only",
            ),
            flag(
                "http2-max-streams-per-connection",
                One("int"),
                NoEffect("a connection has a fixed number of streams"),
                "Streams of a connection",
            ),
            flag(
                "permit-address-sharing",
                Switch,
                NoEffect("addresses can always be bound again"),
                "Use SO_REUSEADDR",
            ),
            flag(
                "permit-port-sharing",
                Switch,
                Only(OFF, "the port is this server's alone"),
                "Use SO_REUSEPORT",
            ),
            flag("secure-port", One("int"), Honoured, "Port to listen on [default: 6443]"),
            flag("tls-cert-file", One("string"), Honoured, "Serving certificate, followed by its CA if any"),
            flag(
                "tls-cipher-suites",
                Many("strings"),
                Refused("the cipher suites of TLS 1.2 and 1.3 are fixed, to safe ones"),
                "Cipher suites",
            ),
            flag(
                "tls-curve-preferences",
                Many("ints"),
                Refused("the key exchange is fixed, to safe curves"),
                "Key exchanges",
            ),
            flag(
                "tls-min-version",
                One("string"),
                Only(&["", "VersionTLS10", "VersionTLS11", "VersionTLS12"], "TLS 1.2 and 1.3 are served"),
                "Oldest version of TLS",
            ),
            flag("tls-private-key-file", One("string"), Honoured, "Private key of --tls-cert-file"),
            flag(
                "tls-sni-cert-key",
                Many("certificate,key"),
                Refused("there is one serving certificate"),
                "Certificates for other host names",
            ),
        ],
    ),
    (
        "Auditing",
        &[
            flag("audit-log-batch-buffer-size", One("int"), AUDIT_DETAIL, "Buffered events"),
            flag("audit-log-batch-max-size", One("int"), AUDIT_DETAIL, "Events of a batch"),
            flag("audit-log-batch-max-wait", One("duration"), AUDIT_DETAIL, "How long a batch waits"),
            flag("audit-log-batch-throttle-burst", One("int"), AUDIT_DETAIL, "Batches at once"),
            flag("audit-log-batch-throttle-enable", Switch, AUDIT_DETAIL, "Limit batches"),
            flag("audit-log-batch-throttle-qps", One("float32"), AUDIT_DETAIL, "Batches a second"),
            flag("audit-log-compress", Switch, AUDIT_DETAIL, "Compress old files"),
            flag("audit-log-format", One("string"), AUDIT_DETAIL, "Format of the file"),
            flag("audit-log-maxage", One("int"), AUDIT_DETAIL, "Days to keep old files"),
            flag("audit-log-maxbackup", One("int"), AUDIT_DETAIL, "Old files to keep"),
            flag("audit-log-maxsize", One("int"), AUDIT_DETAIL, "Megabytes of a file"),
            flag("audit-log-mode", One("string"), AUDIT_DETAIL, "Whether requests wait for it"),
            flag("audit-log-path", One("string"), NO_AUDIT, "File to log requests to"),
            flag("audit-log-truncate-enabled", Switch, AUDIT_DETAIL, "Truncate large events"),
            flag("audit-log-truncate-max-batch-size", One("int"), AUDIT_DETAIL, "Bytes of a batch"),
            flag("audit-log-truncate-max-event-size", One("int"), AUDIT_DETAIL, "Bytes of an event"),
            flag("audit-log-version", One("string"), AUDIT_DETAIL, "Version of events"),
            flag("audit-policy-file", One("string"), NO_AUDIT, "What is logged of which requests"),
            flag("audit-webhook-batch-buffer-size", One("int"), AUDIT_DETAIL, "Buffered events"),
            flag("audit-webhook-batch-max-size", One("int"), AUDIT_DETAIL, "Events of a batch"),
            flag("audit-webhook-batch-max-wait", One("duration"), AUDIT_DETAIL, "How long a batch waits"),
            flag("audit-webhook-batch-throttle-burst", One("int"), AUDIT_DETAIL, "Batches at once"),
            flag("audit-webhook-batch-throttle-enable", Switch, AUDIT_DETAIL, "Limit batches"),
            flag("audit-webhook-batch-throttle-qps", One("float32"), AUDIT_DETAIL, "Batches a second"),
            flag(
                "audit-webhook-config-file",
                One("string"),
                NO_AUDIT,
                "Kubeconfig of a webhook that is sent events",
            ),
            flag(
                "audit-webhook-batch-initial-backoff",
                One("duration"),
                AUDIT_DETAIL,
                "As --audit-webhook-initial-backoff, its older name",
            ),
            flag(
                "audit-webhook-initial-backoff",
                One("duration"),
                AUDIT_DETAIL,
                "Wait before the first retry",
            ),
            flag("audit-webhook-mode", One("string"), AUDIT_DETAIL, "Whether requests wait for it"),
            flag("audit-webhook-truncate-enabled", Switch, AUDIT_DETAIL, "Truncate large events"),
            flag("audit-webhook-truncate-max-batch-size", One("int"), AUDIT_DETAIL, "Bytes of a batch"),
            flag("audit-webhook-truncate-max-event-size", One("int"), AUDIT_DETAIL, "Bytes of an event"),
            flag("audit-webhook-version", One("string"), AUDIT_DETAIL, "Version of events"),
        ],
    ),
    (
        "Features",
        &[
            flag("contention-profiling", Switch, NoEffect("there are no profiles"), "Profile locks"),
            flag(
                "debug-socket-path",
                One("string"),
                Refused("there is no socket without authentication"),
                "Socket for profiles",
            ),
            flag(
                "enable-priority-and-fairness",
                Switch,
                Only(ON, "requests are always queued fairly"),
                "Queue requests by priority level",
            ),
            flag("profiling", Switch, NoEffect("there are no profiles"), "Serve profiles"),
        ],
    ),
    (
        "Authentication",
        &[
            flag(
                "anonymous-auth",
                Switch,
                Honoured,
                "Let requests without credentials through to authorization; always off with AlwaysAllow",
            ),
            flag(
                "api-audiences",
                Many("strings"),
                Honoured,
                "Audiences of service account tokens [default: the issuers]",
            ),
            flag(
                "authentication-config",
                One("string"),
                Refused("authentication is configured by flags"),
                "Configuration of authentication",
            ),
            flag(
                "authentication-token-webhook-cache-ttl",
                One("duration"),
                NO_WEBHOOK_TOKENS,
                "How long its answers count",
            ),
            flag(
                "authentication-token-webhook-config-file",
                One("string"),
                NO_WEBHOOK_TOKENS,
                "Kubeconfig of a webhook that verifies tokens",
            ),
            flag(
                "authentication-token-webhook-version",
                One("string"),
                NO_WEBHOOK_TOKENS,
                "Version of its TokenReviews",
            ),
            flag("client-ca-file", One("string"), Honoured, "CAs whose client certificates are accepted"),
            flag("enable-bootstrap-token-auth", Switch, Honoured, "Accept bootstrap tokens"),
            flag("oidc-ca-file", One("string"), NO_OIDC, "CA of the issuer"),
            flag("oidc-client-id", One("string"), NO_OIDC, "Audience of the tokens"),
            flag("oidc-groups-claim", One("string"), NO_OIDC, "Claim with the groups"),
            flag("oidc-groups-prefix", One("string"), NO_OIDC, "Prefix of groups"),
            flag("oidc-issuer-url", One("string"), NO_OIDC, "URL of the issuer"),
            flag("oidc-required-claim", Many("claim=value"), NO_OIDC, "Claims a token must have"),
            flag("oidc-signing-algs", Many("strings"), NO_OIDC, "Algorithms of signatures"),
            flag("oidc-username-claim", One("string"), NO_OIDC, "Claim with the user's name"),
            flag("oidc-username-prefix", One("string"), NO_OIDC, "Prefix of users"),
            flag(
                "requestheader-allowed-names",
                Many("strings"),
                Honoured,
                "Common names of front proxies' certificates",
            ),
            flag(
                "requestheader-client-ca-file",
                One("string"),
                Honoured,
                "CA of front proxies, whose headers say who asks",
            ),
            flag(
                "requestheader-extra-headers-prefix",
                Many("strings"),
                Honoured,
                "Prefixes of headers with the user's extra",
            ),
            flag("requestheader-group-headers", Many("strings"), Honoured, "Headers with the user's groups"),
            flag("requestheader-uid-headers", Many("strings"), Honoured, "Headers with the user's UID"),
            flag("requestheader-username-headers", Many("strings"), Honoured, "Headers with the user's name"),
            flag(
                "service-account-extend-token-expiration",
                Switch,
                Honoured,
                "Extend the lifetime of projected tokens to one year",
            ),
            flag(
                "service-account-issuer",
                Many("strings"),
                Honoured,
                "Issuer of service account tokens: the first signs, all are accepted",
            ),
            flag(
                "service-account-jwks-uri",
                One("string"),
                Refused("the discovery document names this server's own keys"),
                "URI of the keys in the discovery document",
            ),
            flag(
                "service-account-key-file",
                Many("files"),
                Honoured,
                "Keys or certificates that verify service account tokens",
            ),
            flag(
                "service-account-lookup",
                Switch,
                Only(ON, "a token of a deleted account is never valid"),
                "Look up the accounts of tokens",
            ),
            flag(
                "service-account-max-token-expiration",
                One("duration"),
                Honoured,
                "Longest lifetime of a requested token",
            ),
            flag("token-auth-file", One("string"), Honoured, "Static tokens, in CSV"),
        ],
    ),
    (
        "Authorization",
        &[
            flag(
                "authorization-config",
                One("string"),
                Refused("authorization is configured by --authorization-mode"),
                "Configuration of authorization",
            ),
            flag(
                "authorization-mode",
                Many("strings"),
                Honoured,
                "Node, RBAC, AlwaysAllow, AlwaysDeny; ABAC and Webhook are refused [default: RBAC]",
            ),
            flag("authorization-policy-file", One("string"), Refused("there is no ABAC"), "Policies of ABAC"),
            flag(
                "authorization-webhook-cache-authorized-ttl",
                One("duration"),
                NO_WEBHOOK_AUTHORIZER,
                "How long a yes counts",
            ),
            flag(
                "authorization-webhook-cache-unauthorized-ttl",
                One("duration"),
                NO_WEBHOOK_AUTHORIZER,
                "How long a no counts",
            ),
            flag(
                "authorization-webhook-config-file",
                One("string"),
                NO_WEBHOOK_AUTHORIZER,
                "Kubeconfig of a webhook that authorizes",
            ),
            flag(
                "authorization-webhook-version",
                One("string"),
                NO_WEBHOOK_AUTHORIZER,
                "Version of its SubjectAccessReviews",
            ),
        ],
    ),
    (
        "API enablement",
        &[flag(
            "runtime-config",
            Many("version=bool,..."),
            Honoured,
            "Versions that are served, as they are: one that would change something is refused; api/all=true means those there are",
        )],
    ),
    (
        "Egress selector",
        &[flag(
            "egress-selector-config-file",
            One("string"),
            Refused("connections are made directly"),
            "Proxies for outgoing connections",
        )],
    ),
    (
        "Admission",
        &[
            flag(
                "admission-control",
                Many("strings"),
                Refused("use --enable-admission-plugins and --disable-admission-plugins"),
                "All plugins, in order",
            ),
            flag(
                "admission-control-config-file",
                One("string"),
                Honoured,
                "Configuration of admission plugins",
            ),
            flag(
                "default-not-ready-toleration-seconds",
                One("int"),
                FIXED_TOLERATION,
                "How long pods tolerate a node that is not ready",
            ),
            flag(
                "default-unreachable-toleration-seconds",
                One("int"),
                FIXED_TOLERATION,
                "How long pods tolerate a node that is unreachable",
            ),
            flag(
                "disable-admission-plugins",
                Many("strings"),
                Honoured,
                "Default admission plugins to disable",
            ),
            flag(
                "enable-admission-plugins",
                Many("strings"),
                Honoured,
                "Admission plugins to enable in addition to the defaults",
            ),
        ],
    ),
    (
        "Metrics",
        &[
            flag("allow-metric-labels", Many("label=values"), METRICS, "Values of labels to show"),
            flag("allow-metric-labels-manifest", One("string"), METRICS, "The same in a file"),
            flag("disabled-metrics", Many("strings"), METRICS, "Metrics not to show"),
            flag(
                "show-hidden-metrics-for-version",
                One("string"),
                METRICS,
                "Show metrics of an earlier version",
            ),
        ],
    ),
    (
        "Logs",
        &[
            flag("log-flush-frequency", One("duration"), LOGS, "How often the log is flushed"),
            flag("log-json-info-buffer-size", One("quantity"), LOGS, "Buffer of the log in JSON"),
            flag("log-json-split-stream", Switch, LOGS, "Split the log in JSON"),
            flag("log-text-info-buffer-size", One("quantity"), LOGS, "Buffer of the log"),
            flag("log-text-split-stream", Switch, LOGS, "Split the log"),
            flag("logging-format", One("string"), LOGS, "Format of the log"),
            flag("v", One("level"), Honoured, "How much is logged: 0 to 3 info, from 4 on debug"),
            flag("vmodule", Many("pattern=level"), LOGS, "The same by source file"),
        ],
    ),
    (
        "Traces",
        &[flag(
            "tracing-config-file",
            One("string"),
            Refused("there are no traces"),
            "Configuration of traces",
        )],
    ),
    (
        "Misc",
        &[
            flag(
                "aggregator-reject-forwarding-redirect",
                Switch,
                Only(ON, "redirects of aggregated servers are never passed on"),
                "Refuse redirects of aggregated servers",
            ),
            flag(
                "allow-privileged",
                Switch,
                Only(ON, "privileged containers are allowed; restrict them by Pod Security admission"),
                "Allow privileged containers",
            ),
            flag(
                "apiserver-count",
                One("int"),
                NoEffect("every server enters its own address"),
                "Number of API servers of the cluster",
            ),
            flag(
                "coordinated-leadership-lease-duration",
                One("duration"),
                ELECTION,
                "Duration of its leases",
            ),
            flag(
                "coordinated-leadership-renew-deadline",
                One("duration"),
                ELECTION,
                "Deadline of its renewals",
            ),
            flag("coordinated-leadership-retry-period", One("duration"), ELECTION, "Period of its retries"),
            flag(
                "enable-aggregator-routing",
                Switch,
                NoEffect("requests always go to a Service's endpoints"),
                "Route requests of aggregated APIs to endpoints",
            ),
            flag("enable-logs-handler", Switch, Only(OFF, "/logs is not served"), "Serve /logs"),
            flag(
                "endpoint-reconciler-type",
                One("string"),
                NoEffect("every server enters its own address"),
                "How the kubernetes Service gets its endpoints",
            ),
            flag(
                "event-ttl",
                One("duration"),
                NoEffect("events are kept for one hour"),
                "How long events are kept",
            ),
            flag(
                "kubelet-certificate-authority",
                One("string"),
                Honoured,
                "CA that verifies kubelets' serving certificates",
            ),
            flag("kubelet-client-certificate", One("string"), Honoured, "Client certificate for kubelets"),
            flag("kubelet-client-key", One("string"), Honoured, "Key of --kubelet-client-certificate"),
            flag(
                "kubelet-preferred-address-types",
                Many("strings"),
                Honoured,
                "Types of node addresses to reach kubelets at, best first",
            ),
            flag(
                "kubelet-port",
                One("uint"),
                Only(&["10250"], "a node that names no port is asked at 10250"),
                "Port of kubelets that name none",
            ),
            flag(
                "kubelet-read-only-port",
                One("uint"),
                NoEffect("that port is never asked"),
                "Port of kubelets without authentication",
            ),
            flag(
                "kubelet-timeout",
                One("duration"),
                Honoured,
                "How long a connection to a kubelet may take to be opened",
            ),
            flag(
                "kubernetes-service-node-port",
                One("int"),
                Only(&["0"], "the kubernetes Service has no node port"),
                "Node port of the kubernetes Service",
            ),
            flag(
                "max-connection-bytes-per-sec",
                One("int"),
                Only(&["0"], "connections are not slowed down"),
                "Bandwidth of a connection",
            ),
            flag("peer-advertise-ip", One("string"), NO_PEERS, "Address for them"),
            flag("peer-advertise-port", One("string"), NO_PEERS, "Port for them"),
            flag("peer-ca-file", One("string"), NO_PEERS, "CA of them"),
            flag(
                "proxy-client-cert-file",
                One("string"),
                Honoured,
                "Client certificate for aggregated API servers",
            ),
            flag("proxy-client-key-file", One("string"), Honoured, "Key of --proxy-client-cert-file"),
            flag(
                "service-account-signing-endpoint",
                One("string"),
                Refused("tokens are signed with --service-account-signing-key-file"),
                "Socket of an external signer",
            ),
            flag(
                "service-account-signing-key-file",
                One("string"),
                Honoured,
                "Private key that signs service account tokens",
            ),
            flag(
                "service-cluster-ip-range",
                One("CIDR[,CIDR]"),
                Honoured,
                "CIDR for Service cluster IPs; dual-stack with two [default: 10.0.0.0/24]",
            ),
            flag("service-node-port-range", One("first-last"), Honoured, "Port range for NodePort Services"),
        ],
    ),
    (
        "Global",
        &[
            flag("help", Switch, Honoured, "Print this"),
            flag("version", One("raw"), Honoured, "Print the version; --version=raw prints all of it"),
        ],
    ),
];

/// By its name, with words separated by dashes or underscores.
pub fn find(name: &str) -> Option<&'static Flag> {
    let name = name.replace('_', "-");
    GROUPS.iter().flat_map(|(_, flags)| flags.iter()).find(|flag| flag.name == name)
}
