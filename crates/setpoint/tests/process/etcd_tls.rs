//! etcd over TLS: the right files work, and errors name the wrong ones.

use std::path::Path;
use std::process::Command;

use crate::etcd_server::Etcd;
use crate::harness::*;

/// `ca.pem` and what it signed: `etcd.pem`, `client.pem`. `other.pem` is another authority, `stranger.pem` its own.
fn make_certificates(dir: &Path) {
    let openssl = |more: &[&str]| {
        let common = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2".split(' ');
        let made = run(Command::new("openssl").args(common).args(more).current_dir(dir));
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    };
    for (authority, leaves) in [("ca", &["etcd", "client"][..]), ("other", &["stranger"])] {
        let subject = format!("/CN={authority}");
        let (key, pem) = (format!("{authority}.key"), format!("{authority}.pem"));
        openssl(&["-subj", &subject, "-keyout", &key, "-out", &pem]);
        for leaf in leaves {
            let subject = format!("/CN={leaf}");
            let (leaf_key, leaf_pem) = (format!("{leaf}.key"), format!("{leaf}.pem"));
            openssl(
                &["-subj", &subject, "-keyout", &leaf_key, "-out", &leaf_pem, "-CA", &pem, "-CAkey", &key]
                    .into_iter()
                    .chain(["-addext", "subjectAltName=IP:127.0.0.1"])
                    .chain(["-addext", "basicConstraints=critical,CA:FALSE"])
                    .chain(["-addext", "extendedKeyUsage=serverAuth,clientAuth"])
                    .collect::<Vec<_>>(),
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_on_etcd_over_tls_needs_the_right_files() {
    let folder = folder();
    let certificates = folder.path().join("certificates");
    std::fs::create_dir(&certificates).unwrap();
    if !available("openssl") {
        return;
    }
    make_certificates(&certificates);
    let Some(etcd) = Etcd::start_tls(&folder.path().join("etcd"), &certificates) else { return };
    let store = etcd.tls_store();
    let file = |name: &str| certificates.join(name).to_str().unwrap().to_owned();
    let data = folder.path().join("data");

    let (ca, crt, key) = (file("ca.pem"), file("client.pem"), file("client.key"));
    let good = ["--store", &store, "--etcd-cafile", &ca, "--etcd-certfile", &crt, "--etcd-keyfile", &key];
    let server = Proc::start_with(&data, &good);
    let client = server.client().await;
    let maps = "/api/v1/namespaces/default/configmaps";
    let (code, _) = call(&client, "POST", maps, Some(config_map("kept", "1"))).await;
    assert_eq!(code, 201);
    server.stop();
    // Another server finds it there: it was etcd that kept it.
    let server = Proc::start_with(&folder.path().join("second"), &good);
    let (code, _) = call(&server.client().await, "GET", &format!("{maps}/kept"), None).await;
    assert_eq!(code, 200);
    server.stop();

    let (stranger, stranger_key) = (file("stranger.pem"), file("stranger.key"));
    let (other, missing, garbage) = (file("other.pem"), file("missing.pem"), file("garbage.pem"));
    std::fs::write(&garbage, "no certificate").unwrap();
    let refusals: [(&str, Vec<&str>, &[&str]); 8] = [
        ("no CA", vec![], &["requires --etcd-cafile"]),
        (
            "a missing file",
            vec!["--etcd-cafile", &missing],
            &[&missing, "No such file", "check --etcd-cafile"],
        ),
        ("a file without certificates", vec!["--etcd-cafile", &garbage], &[&garbage, "holds no certificate"]),
        ("half a pair", vec!["--etcd-cafile", &ca, "--etcd-certfile", &crt], &["specified together"]),
        (
            "a key of another certificate",
            vec!["--etcd-cafile", &ca, "--etcd-certfile", &crt, "--etcd-keyfile", &stranger_key],
            &["do not belong together", &stranger_key],
        ),
        (
            "a wrong authority",
            vec!["--etcd-cafile", &other, "--etcd-certfile", &crt, "--etcd-keyfile", &key],
            &["UnknownIssuer", "--etcd-cafile contains the CA"],
        ),
        (
            "no certificate of ours",
            vec!["--etcd-cafile", &ca],
            &["loading from etcd failed", "--etcd-certfile"],
        ),
        (
            "a certificate etcd does not know",
            vec!["--etcd-cafile", &ca, "--etcd-certfile", &stranger, "--etcd-keyfile", &stranger_key],
            // How etcd's refusal is heard (an alert, a closed connection) is a race of TLS 1.3; the advice is the same.
            &["loading from etcd failed", "trusts the certificate in --etcd-certfile"],
        ),
    ];
    for (what, flags, told) in refusals {
        let refused = run(Command::new(SETPOINT)
            .args(["server", "--listen", "127.0.0.1:0", "--store", &store, "--data-dir"])
            .arg(folder.path().join("refused"))
            .args(&flags));
        let text = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success(), "{what}: {text}");
        for words in told {
            assert!(text.contains(words), "{what}: no {words:?} in {text}");
        }
    }
}
