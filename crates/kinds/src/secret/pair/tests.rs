//! Pairs that belong together and pairs that do not. The keys were made for this test and protect nothing.

use super::check;

const RSA_CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----
MIIB9DCCAV2gAwIBAgIUQjUDEjPnjmHB8/ooahstrYhO008wDQYJKoZIhvcNAQEL
BQAwDDEKMAgGA1UEAwwBYTAeFw0yNjExMTUxMjQyMTJaFw0zNjExMTIxMjQyMTJa
MAwxCjAIBgNVBAMMAWEwgZ8wDQYJKoZIhvcNAQEBBQADgY0AMIGJAoGBAO880C0u
oMGO5nBCskgwCFVPgXkd13fqRQa9RQEWZ+xc4giNLU2NbQ9y1Yh9MeTNTd5GFtbT
ji2a/zf+p76twlUU7NFpX+JiLJJKRZ0Bnq8D3kY31OjZkGnl8b6fHu9mYO4qlPaO
bwcjeFwOC/IbtRHlLKkr9YEjojdAJ0KI7wAHAgMBAAGjUzBRMB0GA1UdDgQWBBQF
7ry+oNquQOZ2Xs4j/YQIImkP6DAfBgNVHSMEGDAWgBQF7ry+oNquQOZ2Xs4j/YQI
ImkP6DAPBgNVHRMBAf8EBTADAQH/MA0GCSqGSIb3DQEBCwUAA4GBAH4HyYIlGbP9
yiCDdPik/Gu4KxqyvqcMASJxr7JUDeE7ysVa8gPVCZxlA/6/CIGIv8io7dsZTeTd
XKBuRQT1VonnL07twRYWheW0iLn7DR83FHBmfGFY9Mi0JihtNlO3MAj6lwCC4rmT
13TZvB3ZHyKPc7y5ivKWdR3H4nAxlSET
-----END CERTIFICATE-----
";
const RSA_KEY: &str = "-----BEGIN PRIVATE KEY-----
MIICdwIBADANBgkqhkiG9w0BAQEFAASCAmEwggJdAgEAAoGBAO880C0uoMGO5nBC
skgwCFVPgXkd13fqRQa9RQEWZ+xc4giNLU2NbQ9y1Yh9MeTNTd5GFtbTji2a/zf+
p76twlUU7NFpX+JiLJJKRZ0Bnq8D3kY31OjZkGnl8b6fHu9mYO4qlPaObwcjeFwO
C/IbtRHlLKkr9YEjojdAJ0KI7wAHAgMBAAECgYBuzCtdwYqSGix/MWSAKj6xw/Ci
tz9jOgxd4qpipo3a2emVLE0e7bDkxro+TD0fSjYWCz/onnHqjS5GMJpfpPmqqJmV
tgXAi2pBQb7f7AxW2CV2OaQY7af/nJ3H9mGFo5KS5hUM+8y8Vv7XRjlE4PItwvJT
JYczRE9r+3rjeT9FAQJBAPlh9akSwSZ7ng9SDDAjmM0SDsApze02IrQBVo38GIhY
lsmSBBGl1g6u52tkv76uIIPMJYbg4x5pmQe4D6+225kCQQD1lfBEUhFMmpSVovyN
F70+hWG233GuZx8Tdl+HrVTeGSfNts9CIrrVZq/V7fOpFFBXhmI++JvDnOIkrHmH
AvyfAkBnnrNzeA53jf/D/+R+kBvqgalNYVFmUgsjXjb3shsDdEPbJ2e3aX/DBBu2
PNuLQFDUUpv5KjJUra3fTjR+X21pAkEAmTQ0cyqPSC6WytKmoo5QrJQg5Sh3jske
BdIuvkFPVE51GkwU97kavM4Wm2qaOrxFcpSO7aHB6kIQgbhnB+bBGQJBAJyljThE
nPNiLgWKAS9735kKVBnvedzAgm4/Yk3zyv71o3unVwpOh+sXhN0nI+N86ErAskxf
2v6OV1jHlwG4+7o=
-----END PRIVATE KEY-----
";
const OTHER_RSA_KEY: &str = "-----BEGIN RSA PRIVATE KEY-----
MIICXQIBAAKBgQDeOdwqcULTyIVSXSq/3f0r37uNWTJQWB5QzV522Sl3dnxU042X
Hf7KCmiwmQ+YnBJzKJxagrIFFxiB4DxlMlF6zgSMt7GKEMEsPTd8HalUtW1iWPbU
rTMcxdb5tiJ5/hUwlTWiERBrEpT8BeL5yqeWmgiQ3/50Cm3NlUp4heYzFQIDAQAB
AoGBALmAzSN0xlcplPkrIotlUHg2XEZixdhBppTGymslXjMF6kWZDyGtfUnEpJ1+
N4GqDtCoftQjM12CaQfJWkETXuU40vndHtrf/ZY0PO1wO26oga1Lu5o2t+CN8ajC
wrSfhVq6wSiaa16RN49sOW7CbwAv70K1aM3O+3WvDCZB7dtFAkEA+MSvpBn5mOUQ
ByWVF8Yzhs1QUZv/WAbZs6ZMN7NdfPjyCZ2c4xmUKao94uiW39aIs2Tt1VJ44zv/
fP73jwALXwJBAOSvpfh4nBCNtsxoIyYYviyRxVgh45lTB7jc13UbDCc3vV9gxJwF
WcEqCy0C9F/ph5wUPG6FIFnrNkpWiCgMCgsCQE8yTrhvjIagZfngfRaUgtLniipw
/1mG1MfcqWcSMzEWD/f/tXKXMhQRnqIeaenY4qw59X10RAgTkcK5aRadbQECQQCa
4L7WDdEcgO25eBm99mntw3fU3XbIY2xKbf7Zx8yuTtjJXL8rL5B++xuAi4y33HBE
a4wWCcFERMGLDRm/jY/LAkAv4thELU1aOsrNZrJYmDnC2csKK3Fu+vSsGgooi3GO
qZUZ/GrF7Vq4VWB4uLF9FfdfRhnjR4ETerDIFM69DHgp
-----END RSA PRIVATE KEY-----
";
const EC_CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----
MIIBbTCCAROgAwIBAgIURJw0/0bfeNcpqVFmWFDiEPCypUowCgYIKoZIzj0EAwIw
DDEKMAgGA1UEAwwBYjAeFw0yNjExMTUxMjQyMTJaFw0zNjExMTIxMjQyMTJaMAwx
CjAIBgNVBAMMAWIwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAQ7ozH7IvOauKxR
WmtGQVf3rC/L0KWoEOVmrY9zOlgpfOutPscQrXZWFjkfWR2K8nrcZZDYRVKkAdqz
lJKutpF1o1MwUTAdBgNVHQ4EFgQUtbhR2wVa1nIw/CvNGsE2jSmXJZswHwYDVR0j
BBgwFoAUtbhR2wVa1nIw/CvNGsE2jSmXJZswDwYDVR0TAQH/BAUwAwEB/zAKBggq
hkjOPQQDAgNIADBFAiEApcV63ZKlooGN+i09CyaCjcM3aJ5QtzwbOC0+1lyCBCAC
IANa+NYJS8NL7yEajGX7UR7MxW3rPGNOpjfmphw0KWbd
-----END CERTIFICATE-----
";
const EC_KEY: &str = "-----BEGIN EC PRIVATE KEY-----
MHcCAQEEIAhc1ksydEiqoSDPQLn97xBABPbvto2oUHEYS320BHemoAoGCCqGSM49
AwEHoUQDQgAEO6Mx+yLzmrisUVprRkFX96wvy9ClqBDlZq2PczpYKXzrrT7HEK12
VhY5H1kdivJ63GWQ2EVSpAHas5SSrraRdQ==
-----END EC PRIVATE KEY-----
";
const OTHER_EC_KEY: &str = "-----BEGIN EC PRIVATE KEY-----
MHcCAQEEIGWsTG4VhTODuOmQrTAOfEzjDUE1FvEaRQZJhtS0Z3MToAoGCCqGSM49
AwEHoUQDQgAEphHOKBm4G4F7P6QYscwQ8LwDOkADAXQOEjW3j7Pc0UctcQQePQJY
LUpuXDYZbGJ5vemzJJElzdD47BGAWlE8Aw==
-----END EC PRIVATE KEY-----
";
const ED_CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----
MIIBLDCB36ADAgECAhRgntXavKIeQ1NhpUkIHuxAehcdVDAFBgMrZXAwDDEKMAgG
A1UEAwwBYzAeFw0yNjExMTUxMjQyMTJaFw0zNjExMTIxMjQyMTJaMAwxCjAIBgNV
BAMMAWMwKjAFBgMrZXADIQC7nAn/RTDbxXmrMyMsPGzjkuNV4ApWnAefZ1qplwbl
qKNTMFEwHQYDVR0OBBYEFL5GArZisPBc7vM1ERdNTMQmFjNkMB8GA1UdIwQYMBaA
FL5GArZisPBc7vM1ERdNTMQmFjNkMA8GA1UdEwEB/wQFMAMBAf8wBQYDK2VwA0EA
fo7OHXBP3+ZUwbGULJ17UmZukO4uXWdKhNr9X1uIFN8uxPCFymNuEtfsRA3verj7
TdKMQbbnpwtUw36AADE0Ag==
-----END CERTIFICATE-----
";
const ED_KEY: &str = "-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIBgxbDdLRbf1OUevedaR01IgOWnknNXcJHGG5BRIByfl
-----END PRIVATE KEY-----
";

fn said(certificate: &str, key: &str) -> String {
    check(certificate.as_bytes(), key.as_bytes()).err().unwrap_or_default()
}

#[test]
fn a_matching_key_pair_gets_no_warning() {
    for (certificate, key) in [(RSA_CERTIFICATE, RSA_KEY), (EC_CERTIFICATE, EC_KEY), (ED_CERTIFICATE, ED_KEY)]
    {
        assert_eq!(said(certificate, key), "", "{certificate}");
        let chain = format!("a comment\n{certificate}\n{RSA_CERTIFICATE}");
        assert_eq!(said(&chain, key), "", "the first certificate counts");
    }
}

#[test]
fn invalid_key_pairs_get_gos_error() {
    let cases = [
        ("", "", "tls: failed to find any PEM data in certificate input"),
        ("junk", RSA_KEY, "tls: failed to find any PEM data in certificate input"),
        (
            RSA_KEY,
            RSA_CERTIFICATE,
            "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may have been switched",
        ),
        (RSA_CERTIFICATE, "", "tls: failed to find any PEM data in key input"),
        (
            RSA_CERTIFICATE,
            RSA_CERTIFICATE,
            "tls: found a certificate rather than a key in the PEM for the private key",
        ),
        (
            "-----BEGIN X-----\nAAAA\n-----END X-----\n",
            "",
            "tls: failed to find \"CERTIFICATE\" PEM block in certificate input after skipping PEM blocks of the following types: [X]",
        ),
        (RSA_CERTIFICATE, OTHER_RSA_KEY, "tls: private key does not match public key"),
        (EC_CERTIFICATE, OTHER_EC_KEY, "tls: private key does not match public key"),
        (EC_CERTIFICATE, RSA_KEY, "tls: private key type does not match public key type"),
        (
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            RSA_KEY,
            "x509: malformed certificate",
        ),
        (
            RSA_CERTIFICATE,
            "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
            "tls: failed to parse private key",
        ),
    ];
    for (certificate, key, expected) in cases {
        assert_eq!(said(certificate, key), expected);
    }
}

#[test]
fn truncated_certificates_and_keys_never_panic() {
    for cut in (0..RSA_CERTIFICATE.len()).step_by(7) {
        said(&RSA_CERTIFICATE[..cut], RSA_KEY);
        said(RSA_CERTIFICATE, &RSA_KEY[..cut.min(RSA_KEY.len())]);
    }
}
