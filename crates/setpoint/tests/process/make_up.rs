//! `make up` and `make down`, by the scripts behind them: they return when done, print what to do next, and leave the user's own
//! files alone.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::harness::*;

/// The folder of a user with a kubeconfig of their own, and the one the server runs in.
struct Home {
    folder: tempfile::TempDir,
    config: PathBuf,
    before: (Vec<u8>, std::time::SystemTime),
}

impl Home {
    fn new() -> Home {
        let folder = folder();
        let config = folder.path().join("home/.kube/config");
        std::fs::create_dir_all(config.parent().unwrap()).unwrap();
        std::fs::write(&config, "apiVersion: v1\nkind: Config\n# somebody's own\n").unwrap();
        let before = (std::fs::read(&config).unwrap(), changed(&config));
        Home { folder, config, before }
    }

    fn run(&self) -> PathBuf {
        self.folder.path().join("run")
    }

    fn script(&self, name: &str, flags: &str) -> std::process::Output {
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts");
        let mut command = Command::new(scripts.join(name));
        command
            .arg(SETPOINT)
            .arg(self.run())
            .env("HOME", self.folder.path().join("home"))
            .env_remove("KUBECONFIG");
        command.env("SETPOINT_FLAGS", flags).current_dir(self.folder.path());
        run(&mut command)
    }

    /// The process of the server, as it wrote it down itself.
    fn pid(&self) -> Option<String> {
        Some(std::fs::read_to_string(self.run().join("data/setpoint.pid")).ok()?.trim().to_owned())
    }

    fn assert_untouched(&self) {
        assert_eq!((std::fs::read(&self.config).unwrap(), changed(&self.config)), self.before);
        let names = |path: &Path| -> Vec<_> {
            std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name()).collect()
        };
        assert_eq!(names(&self.folder.path().join("home")), [".kube"]);
        assert_eq!(names(&self.folder.path().join("home/.kube")), ["config"]);
    }
}

impl Drop for Home {
    /// A test that failed half way leaves no server behind.
    fn drop(&mut self) {
        if let Some(pid) = self.pid().filter(|pid| is_alive(pid)) {
            signal(pid.parse().unwrap(), "KILL");
        }
    }
}

fn changed(path: &Path) -> std::time::SystemTime {
    std::fs::metadata(path).unwrap().modified().unwrap()
}

/// Running, and not only waiting for somebody to hear of its end.
fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.trim().is_empty() && !rest.trim().starts_with('Z'))
}

fn said(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[tokio::test(flavor = "multi_thread")]
async fn up_returns_when_the_server_is_ready_and_down_when_it_has_stopped() {
    let home = Home::new();
    let flags = "--listen 127.0.0.1:0 --simulated-nodes 3";
    let nothing = home.script("down", "");
    assert!(nothing.status.success() && said(&nothing).starts_with("Not running"), "{}", said(&nothing));

    let up = home.script("up", flags);
    let text = said(&up);
    assert!(up.status.success(), "{text}");
    let kubeconfig = home.run().join("kubeconfig");
    let shown = kubeconfig.display().to_string();
    assert!(text.starts_with("setpoint is ready.\n"), "{text}");
    assert!(text.contains("  nodes       3 simulated: pods run without containers\n"), "{text}");
    assert!(text.contains(&format!("  kubeconfig  {shown}\n")), "{text}");
    assert!(text.contains(&format!("\nNext: export KUBECONFIG={shown} && kubectl ")), "{text}");
    assert!(text.contains("make down"), "{text}");
    let pid = home.pid().expect("a pid");
    assert!(is_alive(&pid));
    // Ready means that it answers now, and that what people type first comes to run.
    let config = kube::config::Kubeconfig::read_from(&kubeconfig).unwrap();
    let config = kube::Config::from_custom_kubeconfig(config, &Default::default()).await.unwrap();
    let client = kube::Client::try_from(config).unwrap();
    let labels = json!({"app": "web"});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": 3, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels}, "spec": {"containers": [{"name": "nginx", "image": "nginx"}]}}},
    });
    let path = "/apis/apps/v1/namespaces/default/deployments";
    assert_eq!(call(&client, "POST", path, Some(deployment)).await.0, 201);
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (_, deployment) = call(&client, "GET", &format!("{path}/web"), None).await;
        if deployment["status"]["readyReplicas"] == 3 {
            break;
        }
        assert!(Instant::now() < deadline, "a first Deployment does not run: {deployment:#}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }

    let again = home.script("up", flags);
    let text = said(&again);
    assert!(again.status.success() && text.starts_with("Already running"), "{text}");
    assert_eq!(home.pid(), Some(pid.clone()), "the same one");

    let down = home.script("down", "");
    let text = said(&down);
    assert!(down.status.success(), "{text}");
    let data = home.run().join("data");
    assert_eq!(text, format!("Stopped. The data is kept in {}; `up` starts it again.\n", data.display()));
    assert!(!is_alive(&pid) && home.pid().is_none(), "nothing is left behind");
    assert!(home.script("down", "").status.success());
    home.assert_untouched();

    // And it goes on where it was, with the nodes that are asked for now.
    let up = home.script("up", "--listen 127.0.0.1:0 --simulated-nodes 1");
    assert!(up.status.success() && said(&up).contains(" 1 simulated"), "{}", said(&up));
    assert_ne!(home.pid(), Some(pid));
    assert!(home.script("down", "").status.success());
    home.assert_untouched();
}
