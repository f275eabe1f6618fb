//! Runs the sample controller against any cluster: `sample-controller [--kubeconfig PATH]`.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use catalog::Catalog;
use client::{Client, ListOptions, resources};
use client_http::{Config, HttpClient};
use env::Env;
use runtime::{ControllerRegistry, Stopper};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let config = config()?;
    let env = Env::machine();
    let client = HttpClient::new(env.clone(), Arc::new(Catalog::builtin()), &config)?;
    // Asked once by hand: a wrong address or a missing permission is an error now, not a controller that waits quietly.
    for resource in [&resources::CONFIG_MAPS, &resources::DEPLOYMENTS] {
        let one = ListOptions { limit: 1, ..ListOptions::default() };
        if let Err(status) = client.list(resource.everywhere(), one).await {
            bail!("{}: {}", config.server, status.message);
        }
    }
    let (stopper, stop) = Stopper::new();
    let tasks =
        sample_controller::start(&env, Arc::new(client), &Arc::new(ControllerRegistry::default()), stop);
    eprintln!("sample-controller works on {}; stop it with Ctrl-C", config.server);
    tokio::signal::ctrl_c().await.context("cannot wait for Ctrl-C")?;
    stopper.stop();
    for task in tasks {
        task.await?;
    }
    Ok(())
}

fn config() -> Result<Config> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        [] => Ok(Config::infer()?),
        ["--kubeconfig", path] => Ok(Config::from_kubeconfig(Path::new(path))?),
        _ => bail!("usage: sample-controller [--kubeconfig PATH]"),
    }
}
