//! Who is believed to be the webhook.

use std::time::Duration;

use webhook::Credentials;

use super::hook::*;

fn after_url(error: &str) -> &str {
    error.split_once("?timeout=20s\": ").map_or(error, |(_, why)| why)
}

#[tokio::test]
async fn certificates_are_verified() {
    let (ca, stranger) = (Ca::new(), Ca::new());
    let unverified = "tls: failed to verify certificate: x509: ";
    for (identity, bundle, expected) in [
        (ca.serving(&["127.0.0.1"]), &stranger, "certificate signed by unknown authority"),
        (ca.serving(&["10.0.0.1", "a.example.com"]), &ca, "certificate is valid for 10.0.0.1, not 127.0.0.1"),
        (
            ca.serving(&["a.example.com"]),
            &ca,
            "cannot validate certificate for 127.0.0.1 because it doesn't contain any IP SANs",
        ),
        (ca.client(), &ca, ""),
    ] {
        let hook = Hook::start(&identity, Speaks::Both, |_| Reply::json("{}")).await;
        let error = refused(&client(), &config(&hook.url("/"), bundle.issuer.ca_pem()), LONG).await;
        let why = after_url(&error);
        assert!(why.starts_with(unverified), "{why}");
        if !expected.is_empty() {
            assert_eq!(why, format!("{unverified}{expected}"));
        }
        assert_eq!(hook.requests(), 0);
    }
}

#[tokio::test]
async fn a_certificate_that_ended_is_told_with_its_end() {
    let ca = Ca::new();
    let hook = Hook::start(&ca.expired(&["127.0.0.1"]), Speaks::Both, |_| Reply::json("{}")).await;
    let error = refused(&client(), &config(&hook.url("/"), ca.issuer.ca_pem()), LONG).await;
    let invalid = "x509: certificate has expired or is not yet valid: current time 20";
    assert!(error.contains(invalid) && error.contains("Z is after 20"), "{error}");
}

#[tokio::test]
async fn the_bundle_may_hold_the_serving_certificate() {
    let ca = Ca::new();
    let identity = ca.serving(&["127.0.0.1"]);
    let hook = Hook::start(&identity, Speaks::Both, |_| Reply::json("{}")).await;
    post(&client(), &config(&hook.url("/"), &identity.certificate_pem)).await.unwrap();
    // Which does not make up for a wrong name or a time that is over.
    let identity = ca.serving(&["localhost"]);
    let hook = Hook::start(&identity, Speaks::Both, |_| Reply::json("{}")).await;
    let error = refused(&client(), &config(&hook.url("/"), &identity.certificate_pem), LONG).await;
    assert!(error.ends_with("because it doesn't contain any IP SANs"), "{error}");
    let localhost = format!("https://localhost:{}/", hook.address.port());
    post(&client(), &config(&localhost, &identity.certificate_pem)).await.unwrap();
    let identity = ca.expired(&["127.0.0.1"]);
    let hook = Hook::start(&identity, Speaks::Both, |_| Reply::json("{}")).await;
    let error = refused(&client(), &config(&hook.url("/"), &identity.certificate_pem), LONG).await;
    assert!(error.contains("certificate has expired or is not yet valid: current time"), "{error}");
}

/// As generators of certificates without options make them.
#[tokio::test]
async fn a_serving_certificate_may_say_it_is_an_authority() {
    let bundle = include_str!("certificates/ca.pem");
    let start = async |pem| Hook::start(&Identity::stored(pem), Speaks::Both, |_| Reply::json("{}")).await;
    let hook = start(include_str!("certificates/authority.pem")).await;
    post(&client(), &config(&hook.url("/"), bundle)).await.unwrap();
    let stranger = Ca::new();
    for (certificate, bundle, expected) in [
        (
            include_str!("certificates/authority.pem"),
            stranger.issuer.ca_pem(),
            "certificate signed by unknown authority",
        ),
        (
            include_str!("certificates/authority-client.pem"),
            bundle,
            "certificate specifies an incompatible key usage",
        ),
        (
            include_str!("certificates/authority-elsewhere.pem"),
            bundle,
            "certificate is valid for 10.0.0.1, not 127.0.0.1",
        ),
    ] {
        let hook = start(certificate).await;
        let error = refused(&client(), &config(&hook.url("/"), bundle), LONG).await;
        assert_eq!(after_url(&error), format!("tls: failed to verify certificate: x509: {expected}"));
    }
}

#[tokio::test]
async fn an_authority_of_the_bundle_that_has_expired_is_not_believed() {
    let bundle = concat!(include_str!("certificates/expired-ca.pem"), include_str!("certificates/ca.pem"));
    for certificate in [
        include_str!("certificates/of-expired-ca.pem"),
        include_str!("certificates/authority-of-expired-ca.pem"),
    ] {
        let hook = Hook::start(&Identity::stored(certificate), Speaks::Both, |_| Reply::json("{}")).await;
        let error = refused(&client(), &config(&hook.url("/"), bundle), LONG).await;
        let invalid = "tls: failed to verify certificate: x509: certificate has expired or is not yet valid: current time 20";
        let why = after_url(&error);
        assert!(why.starts_with(invalid) && why.ends_with("Z is after 2021-01-01T00:00:00Z"), "{why}");
    }
}

#[tokio::test]
async fn each_connection_is_verified() {
    let ca = Ca::new();
    let hook =
        Hook::start_with(&ca.serving(&["127.0.0.1"]), Speaks::Http1, None, true, |_| Reply::json("{}")).await;
    let (client, config) = (client(), config(&hook.url("/"), ca.issuer.ca_pem()));
    while hook.opened() < 3 {
        post(&client, &config).await.unwrap();
        hook.all_closed().await;
    }
    assert_eq!(hook.resumed(), 0);
}

#[tokio::test]
async fn a_bundle_is_usable_as_long_as_one_certificate_is() {
    let ca = Ca::new();
    let hook = Hook::start(&ca.serving(&["127.0.0.1"]), Speaks::Both, |_| Reply::json("{}")).await;
    let broken = "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n";
    for bundle in [format!("{broken}{}", ca.issuer.ca_pem()), format!("{}{broken}", ca.issuer.ca_pem())] {
        post(&client(), &config(&hook.url("/"), &bundle)).await.unwrap();
    }
}

#[tokio::test]
async fn without_a_bundle_the_machine_decides() {
    let ca = Ca::new();
    let hook = Hook::start(&ca.serving(&["127.0.0.1"]), Speaks::Both, |_| Reply::json("{}")).await;
    let error = refused(&client(), &config(&hook.url("/"), " "), LONG).await;
    // It trusts others, or has no authorities at all.
    assert!(
        error.ends_with("x509: certificate signed by unknown authority")
            || error.contains("certificate-authority"),
        "{error}"
    );
    assert_eq!(hook.requests(), 0);
}

#[tokio::test]
async fn a_bundle_of_rubbish_is_refused() {
    let error = refused(&client(), &config("https://127.0.0.1:1/", "rubbish"), LONG).await;
    assert_eq!(error, "unable to load root certificates: unable to parse bytes as PEM block");
    let broken = "-----BEGIN CERTIFICATE-----\neA==\n-----END CERTIFICATE-----\n";
    let error = refused(&client(), &config("https://127.0.0.1:1/", broken), LONG).await;
    assert_eq!(
        error,
        "unable to load root certificates: failed to parse certificate: x509: malformed certificate"
    );
}

#[tokio::test]
async fn a_client_certificate_is_shown() {
    let ca = Ca::new();
    let identity = ca.serving(&["127.0.0.1"]);
    let hook = Hook::start_with(&identity, Speaks::Both, Some(&ca), false, |_| Reply::json("{}")).await;
    let config = config(&hook.url("/"), ca.issuer.ca_pem());
    let error = refused(&client(), &config, LONG).await;
    assert_eq!(after_url(&error), "remote error: tls: certificate required");
    let mine = ca.client();
    let certificate_pem = Some((mine.certificate_pem.clone().into_bytes(), mine.key_pem().into_bytes()));
    let known = Credentials { certificate_pem, ..Credentials::default() };
    post(&client(), &config.with_credentials(known)).await.unwrap();
}

#[tokio::test]
async fn a_server_without_tls_is_told() {
    let ca = Ca::new();
    let hook = Hook::start(&ca.serving(&["127.0.0.1"]), Speaks::Plain, |_| Reply::json("{}")).await;
    let error =
        refused(&client(), &config(&hook.url("/"), ca.issuer.ca_pem()), Duration::from_secs(20)).await;
    assert_eq!(after_url(&error), "http: server gave HTTP response to HTTPS client");
}
