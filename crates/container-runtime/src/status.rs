//! Sandboxes and containers as CRI shows them.

use std::collections::BTreeMap;

use cri::NamespaceMode;

use crate::Inner;
use crate::pods::{Container, Phase, Sandbox};
use crate::spec::signals;

pub fn of_sandbox(sandbox: &Sandbox) -> cri::PodSandboxStatus {
    let record = &sandbox.record;
    let config = record.config();
    let namespaces = record.namespaces();
    let state = *sandbox.state.lock();
    // A pod on the node's network has no address of its own, one that was taken down none any more.
    let has_address = namespaces.network() != NamespaceMode::Node && !state.stopped;
    let mut addresses = if has_address { record.addresses.clone() } else { Vec::new() }.into_iter();
    let network = cri::PodSandboxNetworkStatus {
        ip: addresses.next().unwrap_or_default(),
        additional_ips: addresses.map(|ip| cri::PodIP { ip }).collect(),
    };
    cri::PodSandboxStatus {
        id: record.id.clone(),
        metadata: config.metadata,
        state: state_of(sandbox).into(),
        created_at: record.created_at,
        network: Some(network),
        linux: Some(cri::LinuxPodSandboxStatus {
            namespaces: Some(cri::Namespace { options: Some(namespaces) }),
        }),
        labels: config.labels,
        annotations: config.annotations,
        runtime_handler: String::new(),
    }
}

fn state_of(sandbox: &Sandbox) -> cri::PodSandboxState {
    if sandbox.state.lock().ready { cri::PodSandboxState::Ready } else { cri::PodSandboxState::NotReady }
}

pub fn of_container(container: &Container) -> cri::ContainerStatus {
    let record = container.record.lock().clone();
    let config = record.config.unwrap_or_default();
    let phase = container.phase.borrow().clone();
    let mut status = cri::ContainerStatus {
        id: record.id,
        metadata: config.metadata,
        state: phase.to_cri().into(),
        created_at: record.created_at,
        image: Some(image_spec(config.image, &record.image_name)),
        image_ref: record.image_ref,
        labels: config.labels,
        annotations: config.annotations,
        mounts: config.mounts,
        log_path: record.log_path,
        resources: Some(cri::ContainerResources { linux: config.linux.and_then(|linux| linux.resources) }),
        image_id: record.image_id,
        user: Some(cri::ContainerUser { linux: record.user }),
        stop_signal: signals::to_cri(record.stop_signal).into(),
        ..cri::ContainerStatus::default()
    };
    match phase {
        Phase::Created => {}
        Phase::Running { started, .. } => status.started_at = started,
        Phase::Exited(exit) => {
            status.started_at = exit.started;
            status.finished_at = exit.finished;
            status.exit_code = exit.code;
            status.reason = exit.reason;
            status.message = exit.message;
        }
    }
    status
}

/// Under the image's name, whatever it was asked for as.
fn image_spec(asked: Option<cri::ImageSpec>, name: &str) -> cri::ImageSpec {
    let asked = asked.unwrap_or_default();
    if name.is_empty() { asked } else { cri::ImageSpec { image: name.to_owned(), ..asked } }
}

impl Inner {
    pub fn list_sandboxes(&self, request: cri::ListPodSandboxRequest) -> Vec<cri::PodSandbox> {
        let filter = request.filter.unwrap_or_default();
        let all: Vec<_> = self.pods.lock().sandboxes.values().cloned().collect();
        let shown = all.into_iter().map(|sandbox| {
            let config = sandbox.record.config();
            cri::PodSandbox {
                id: sandbox.record.id.clone(),
                metadata: config.metadata,
                state: state_of(&sandbox).into(),
                created_at: sandbox.record.created_at,
                labels: config.labels,
                annotations: config.annotations,
                runtime_handler: String::new(),
            }
        });
        shown
            .filter(|sandbox| {
                (filter.id.is_empty() || filter.id == sandbox.id)
                    && filter.state.as_ref().is_none_or(|wanted| wanted.state == sandbox.state)
                    && selects(&filter.label_selector, &sandbox.labels)
            })
            .collect()
    }

    pub fn list_containers(&self, request: cri::ListContainersRequest) -> Vec<cri::Container> {
        let filter = request.filter.unwrap_or_default();
        let all: Vec<_> = self.pods.lock().containers.values().cloned().collect();
        let shown = all.into_iter().map(|container| {
            let state = container.phase.borrow().to_cri().into();
            let record = container.record.lock().clone();
            let config = record.config.unwrap_or_default();
            cri::Container {
                id: record.id,
                pod_sandbox_id: record.sandbox_id,
                metadata: config.metadata,
                image: Some(image_spec(config.image, &record.image_name)),
                image_ref: record.image_ref,
                state,
                created_at: record.created_at,
                labels: config.labels,
                annotations: config.annotations,
                image_id: record.image_id,
            }
        });
        shown
            .filter(|container| {
                (filter.id.is_empty() || filter.id == container.id)
                    && (filter.pod_sandbox_id.is_empty() || filter.pod_sandbox_id == container.pod_sandbox_id)
                    && filter.state.as_ref().is_none_or(|wanted| wanted.state == container.state)
                    && selects(&filter.label_selector, &container.labels)
            })
            .collect()
    }
}

pub fn selects(selector: &BTreeMap<String, String>, labels: &BTreeMap<String, String>) -> bool {
    selector.iter().all(|(name, value)| labels.get(name) == Some(value))
}
