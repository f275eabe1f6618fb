//! Sandboxes: from what is asked for to a helper with its namespaces on the network, and back to nothing.

use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use container::config::PodConfig;
use container::wire::{Reply, Request};
use cri::{ContainerEventType, Error, NamespaceMode};
use parking_lot::Mutex;

use crate::error::{Context, invalid, no_sandbox, unknown, unless_missing};
use crate::helper::{self, Connection};
use crate::pods::{Container, KILLED_END, Sandbox, SandboxState, sandbox_name};
use crate::records::{self, SandboxRecord};
use crate::{Inner, cgroups, pod_network, spec};

impl Inner {
    pub fn run_sandbox(self: &Arc<Inner>, request: cri::RunPodSandboxRequest) -> Result<String, Error> {
        let config = request.config.ok_or_else(|| invalid("sandbox config is required"))?;
        if config.metadata.is_none() {
            return Err(invalid("sandbox config must include metadata"));
        }
        if !request.runtime_handler.is_empty() {
            let handler = request.runtime_handler;
            return Err(unknown(format!(
                "unable to get OCI runtime for sandbox: no runtime for {handler:?} is configured"
            )));
        }
        let id = self.new_id();
        self.pods.lock().reserve("sandbox", &sandbox_name(&config), &id)?;
        let made = self.make_sandbox(&id, config);
        let sandbox = made.inspect_err(|_| self.pods.lock().release(&id))?;
        self.pods.lock().sandboxes.insert(id.clone(), sandbox.clone());
        for kind in [ContainerEventType::CreatedEvent, ContainerEventType::StartedEvent] {
            self.tell(&id, kind, Some(&sandbox));
        }
        Ok(id)
    }

    /// 64 hexadecimal digits.
    pub fn new_id(&self) -> String {
        (0..4).map(|_| format!("{:016x}", self.env.random())).collect()
    }

    fn make_sandbox(
        self: &Arc<Inner>,
        id: &str,
        config: cri::PodSandboxConfig,
    ) -> Result<Arc<Sandbox>, Error> {
        let directory = records::sandboxes(&self.settings.directory).join(records::short(id));
        let mut record = SandboxRecord {
            id: id.to_owned(),
            config: Some(config),
            created_at: self.now(),
            addresses: Vec::new(),
        };
        let namespaces = record.namespaces();
        let own_network = namespaces.network() != NamespaceMode::Node;
        let mut addresses = Vec::new();
        if own_network {
            let failed = || format!("failed to setup network for sandbox {id:?}");
            if !self.network.is_ready() {
                return Err(unknown(format!("{}: {}", failed(), pod_network::NO_RANGE)));
            }
            addresses = self.network.take().context(failed)?;
            record.addresses = addresses.iter().map(ToString::to_string).collect();
        }
        // Nobody else's: what fails from here on is taken down again.
        if let Err(error) = std::fs::create_dir(&directory) {
            self.network.give_back(&addresses);
            return Err(unknown(format!("failed to create {}: {error}", directory.display())));
        }
        let made = self.set_up(&directory, &record, own_network, &addresses);
        let made = made.and_then(|pid| {
            let state = SandboxState { ready: true, pid, ..SandboxState::default() };
            let sandbox = Arc::new(Sandbox {
                record,
                directory: directory.clone(),
                state: Mutex::new(state),
                operation: Mutex::default(),
                task: Mutex::default(),
            });
            self.attend(&sandbox).context(|| "failed to watch the pod's helper".to_owned())?;
            Ok(sandbox)
        });
        made.inspect_err(|_| {
            if let Err(error) = self.take_down(id, &directory, &addresses) {
                tracing::warn!(sandbox = id, %error, "what is left of a sandbox stays until the next start");
            }
        })
    }

    fn set_up(
        &self,
        directory: &Path,
        record: &SandboxRecord,
        own_network: bool,
        addresses: &[IpAddr],
    ) -> Result<i32, Error> {
        let id = &record.id;
        // Before anything happens, so that an agent that is killed now finds what to take down.
        records::write(directory, records::RECORD, record)
            .context(|| "failed to write the record".to_owned())?;
        let config = record.config();
        spec::files::write(directory, &config, own_network, self.env.hostname())
            .context(|| "failed to write the pod's files".to_owned())?;
        let pod = pod_config(directory, record, own_network, self.env.hostname())?;
        let pid = self.spawner.spawn(pod).context(|| "failed to start sandbox".to_owned())?;
        if own_network {
            let failed = || format!("failed to setup network for sandbox {id:?}");
            let namespace = std::fs::File::open(format!("/proc/{pid}/ns/net")).context(failed)?;
            let namespace = OwnedFd::from(namespace);
            network::node::set_loopback_up(&namespace).context(failed)?;
            self.network.connect(id, &namespace, addresses).context(failed)?;
            self.network.open_ports(id, &config.port_mappings, addresses).context(failed)?;
        }
        records::mark(directory, records::READY).context(|| "failed to write the record".to_owned())?;
        Ok(pid)
    }

    /// Ends the helper with all containers; gives addresses and ports back; done twice, it does nothing.
    pub fn stop_sandbox(self: &Arc<Inner>, id: &str) -> Result<(), Error> {
        let Ok(sandbox) = self.sandbox(id) else { return Ok(()) };
        let _operation = sandbox.operation.lock();
        if sandbox.state.lock().stopped {
            return Ok(());
        }
        let was_ready = {
            let mut state = sandbox.state.lock();
            state.stopping = true;
            std::mem::take(&mut state.ready)
        };
        end_helper(&sandbox.directory).context(|| format!("failed to stop sandbox {id:?}"))?;
        self.learn(&helper::saved_state(&sandbox.directory));
        self.end_containers(&sandbox, KILLED_END);
        self.remove_cgroups(&sandbox);
        if !sandbox.state.lock().disconnected {
            self.network
                .disconnect(id, &addresses_of(&sandbox.record))
                .context(|| format!("failed to destroy network for sandbox {id:?}"))?;
            sandbox.state.lock().disconnected = true;
        }
        records::mark(&sandbox.directory, records::STOPPED)
            .context(|| "failed to write the record".to_owned())?;
        sandbox.state.lock().stopped = true;
        if was_ready {
            self.tell(id, ContainerEventType::StoppedEvent, Some(&sandbox));
        }
        Ok(())
    }

    pub fn remove_sandbox(self: &Arc<Inner>, id: &str) -> Result<(), Error> {
        if self.sandbox(id).is_err() {
            return Ok(());
        }
        self.stop_sandbox(id)?;
        let containers = self.pods.lock().containers_of(id);
        for container in containers {
            self.remove_container(&container.id)?;
        }
        let sandbox = match self.pods.lock().sandboxes.remove(id) {
            Some(sandbox) => sandbox,
            None => return Ok(()),
        };
        if let Some(task) = sandbox.task.lock().take() {
            task.abort();
        }
        unless_missing(container::tree::remove(&sandbox.directory), &sandbox.directory)?;
        self.pods.lock().release(id);
        self.stats.forget(id);
        self.tell(id, ContainerEventType::DeletedEvent, None);
        Ok(())
    }

    /// Removes what was made of a sandbox that did not become one.
    pub fn take_down(&self, id: &str, directory: &Path, addresses: &[IpAddr]) -> Result<(), Error> {
        let ended = end_helper(directory);
        // Of one that does not end as well: nobody will ask for this sandbox again, and its addresses and ports are to be another's.
        let disconnected = self.network.disconnect(id, addresses);
        let disconnected = disconnected.inspect_err(|_| self.network.withhold(id, addresses));
        ended.context(|| "failed to end the pod's helper".to_owned())?;
        disconnected.context(|| "failed to destroy its network".to_owned())?;
        unless_missing(container::tree::remove(directory), directory)
    }

    /// Those its helper did not get to.
    fn remove_cgroups(&self, sandbox: &Sandbox) {
        let containers = self.pods.lock().containers_of(&sandbox.record.id);
        for container in containers {
            self.remove_cgroup(&container);
        }
    }

    pub fn remove_cgroup(&self, container: &Container) {
        let path = self.cgroup_of(container);
        if let Err(error) = cgroups::remove(&path) {
            tracing::warn!(cgroup = %path.display(), %error, "a container's cgroup stays");
        }
    }

    pub fn ready_sandbox(&self, id: &str) -> Result<Arc<Sandbox>, Error> {
        let sandbox = self.sandbox(id).map_err(|_| no_sandbox(id))?;
        let is_ready = sandbox.state.lock().ready;
        if is_ready { Ok(sandbox) } else { Err(unknown(format!("sandbox container {id:?} is not running"))) }
    }
}

/// Tells the helper to end everything and then itself; one that is not there has.
pub fn end_helper(directory: &Path) -> Result<(), helper::HelperError> {
    let Ok(connection) = Connection::open(directory) else { return Ok(()) };
    match connection.ask(&Request::Shutdown, &[]) {
        Ok((Reply::Done, _)) => Ok(()),
        Ok(_) => Err(helper::HelperError::Silent(std::io::ErrorKind::InvalidData.into())),
        // It was on its way out already.
        Err(_) if Connection::open(directory).is_err() => Ok(()),
        Err(error) => Err(error),
    }
}

pub fn addresses_of(record: &SandboxRecord) -> Vec<IpAddr> {
    record.addresses.iter().filter_map(|address| address.parse().ok()).collect()
}

fn pod_config(
    directory: &Path,
    record: &SandboxRecord,
    own_network: bool,
    node: &str,
) -> Result<PodConfig, Error> {
    let config = record.config();
    let namespaces = record.namespaces();
    let mut sysctls: Vec<(String, String)> =
        config.linux.clone().unwrap_or_default().sysctls.into_iter().collect();
    let own_ipc = namespaces.ipc() != NamespaceMode::Node;
    for (name, _) in &sysctls {
        check_sysctl(name, own_network, own_ipc)?;
    }
    if own_network {
        // As containerd does: ports below 1024 and ping need no privilege within a pod.
        for (name, value) in
            [("net.ipv4.ip_unprivileged_port_start", "0"), ("net.ipv4.ping_group_range", "0 2147483647")]
        {
            if !sysctls.iter().any(|(given, _)| given == name) {
                sysctls.push((name.to_owned(), value.to_owned()));
            }
        }
    }
    let (uid_mappings, gid_mappings) = record.users()?;
    Ok(PodConfig {
        uid: config.metadata.unwrap_or_default().uid,
        directory: directory.to_owned(),
        hostname: if config.hostname.is_empty() && !own_network { node.to_owned() } else { config.hostname },
        own_network,
        own_ipc,
        // A name belongs to a network.
        own_uts: own_network,
        shared_pid: namespaces.pid() == NamespaceMode::Pod,
        sysctls,
        shm_bytes: 0,
        uid_mappings,
        gid_mappings,
        ..PodConfig::default()
    })
}

/// Only what belongs to a namespace that is the pod's own: anything else would be the machine's.
fn check_sysctl(name: &str, own_network: bool, own_ipc: bool) -> Result<(), Error> {
    let name = name.replace('/', ".");
    let of_ipc = ["kernel.shm", "kernel.msg", "fs.mqueue."].iter().any(|start| name.starts_with(start));
    let (what, is_own) = match () {
        () if name.starts_with("net.") => ("network", own_network),
        () if of_ipc || name == "kernel.sem" => ("ipc", own_ipc),
        () => return Err(unknown(format!("sysctl {name:?} is not in a separate kernel namespace"))),
    };
    if is_own {
        Ok(())
    } else {
        Err(unknown(format!("sysctl {name:?} is not allowed in the host {what} namespace")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_does_not_set_what_is_the_machines() {
        for (name, own_network, own_ipc, allowed) in [
            ("net.core.somaxconn", true, false, true),
            ("net/core/somaxconn", false, true, false),
            ("kernel.shm_rmid_forced", false, true, true),
            ("kernel.msgmax", true, false, false),
            ("fs.mqueue.msg_max", false, true, true),
            ("kernel.pid_max", true, true, false),
            ("vm.swappiness", true, true, false),
        ] {
            assert_eq!(check_sysctl(name, own_network, own_ipc).is_ok(), allowed, "{name}");
        }
    }
}
