//! Runs the sample controller against any cluster: `sample-controller [--kubeconfig PATH] [--install-crd]`.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use catalog::Catalog;
use client::{Client, ListOptions, Status, WriteOptions, resources};
use client_http::{Config, HttpClient};
use env::Env;
use runtime::{ControllerRegistry, Failure, Stopper};
use sample_controller::{CRD, FOOS};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let (config, install_crd) = arguments()?;
    let env = Env::machine();
    let client = HttpClient::new(env.clone(), Arc::new(Catalog::builtin()), &config)?;
    // Asked once by hand: a wrong address or a missing permission is an error now, not a controller that waits quietly.
    for resource in [&resources::DEPLOYMENTS, &FOOS] {
        let one = ListOptions { limit: 1, ..ListOptions::default() };
        match client.list(resource.everywhere(), one).await {
            Err(status) if status.code == 404 && install_crd => {
                define(&client).await.map_err(|error| anyhow!("{}: {error}", config.server))?;
            }
            Err(status) if status.code == 404 => eprintln!("waiting for `kubectl apply -f crd.yaml`"),
            Err(status) => bail!("{}: {}", config.server, status.message),
            Ok(_) => {}
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

/// Defines what a Foo is. Another may do so at the same time.
async fn define(client: &dyn Client) -> Result<(), Failure> {
    let definitions = resources::CUSTOM_RESOURCE_DEFINITIONS.everywhere();
    match client.create(definitions, runtime::parse(CRD)?, WriteOptions::default()).await {
        Err(Status { reason: "AlreadyExists", .. }) => Ok(()),
        made => Ok(made.map(|_| ())?),
    }
}

/// The cluster, and whether to define what a Foo is.
fn arguments() -> Result<(Config, bool)> {
    let (mut config, mut install_crd) = (None, false);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match (&*argument, arguments.len()) {
            ("--install-crd", _) => install_crd = true,
            ("--kubeconfig", 1..) => {
                let path = arguments.next().unwrap_or_default();
                config = Some(Config::from_kubeconfig(Path::new(&path))?);
            }
            _ => bail!("usage: sample-controller [--kubeconfig PATH] [--install-crd]"),
        }
    }
    let config = config.map_or_else(Config::infer, Ok)?;
    Ok((config, install_crd))
}
