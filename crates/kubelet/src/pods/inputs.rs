//! What a sandbox and a container are made of: gathered here, put together by [`crate::generate`].

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use node::pod::{Container, Pod};
use object::Value;

use super::{PodTask, Shared};
use crate::blocking::block;
use crate::generate::cgroups::PodCgroups;
use crate::generate::{
    self, ContainerInputs, DeviceResources, Fetched, GenerateError, IdRange, MountedVolume, NO_RESOLV,
    NodeView, Resolv, UserNamespaces, Wanted, files, has_own_users, labels,
};
use crate::images::{self, ImageError, ImageEvent, PulledImage, WantedImage};
use crate::pod_logs::{ContainerLog, PodLogs};
use crate::probes::{RuntimeTarget, Target};

/// The images that are volumes, by the names of the volumes.
pub type VolumeImages = BTreeMap<String, cri::ImageSpec>;

/// What has to be known of the machine.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    pub memory_capacity: i64,
    pub cpu_capacity_milli: i64,
    pub pid_capacity: i64,
    pub cgroup_v2: bool,
    pub swap_controller: bool,
    pub swap_capacity: i64,
    pub hugepage_sizes: Vec<String>,
    /// Files that would tell a container of its neighbours.
    pub masked_paths: Vec<String>,
    /// What the runtime can run pods by, with what each of them can do.
    pub handlers: Vec<cri::RuntimeHandler>,
}

/// The addresses of the machine, asked each time: the primary first.
pub type AskHostIps = Arc<dyn Fn() -> Vec<IpAddr> + Send + Sync>;

/// What changes while the node runs, as it is at one moment.
pub struct Moment {
    /// Null until it is seen.
    node: Arc<Value>,
    host_ips: Vec<IpAddr>,
}

/// The users of one pod.
struct Users(Result<IdRange, String>);

impl UserNamespaces for Users {
    fn range(&self, _: &str) -> Result<IdRange, String> {
        self.0.clone()
    }
}

impl Facts {
    /// What a handler can do; one that the runtime does not tell of can do nothing.
    pub fn features(&self, handler: &str) -> cri::RuntimeHandlerFeatures {
        let known = self.handlers.iter().find(|known| known.name == handler);
        known.and_then(|known| known.features.clone()).unwrap_or_default()
    }
}

impl Shared {
    pub(super) fn moment(&self) -> Moment {
        Moment { node: self.node.lock().clone(), host_ips: (self.parts.host_ips)() }
    }

    /// For what is the same whatever runs a pod.
    pub(super) fn node_view<'a>(&'a self, moment: &'a Moment) -> NodeView<'a> {
        let parts = &self.parts;
        let facts = &parts.facts;
        NodeView {
            node: moment.node.as_map().map(|_| &*moment.node),
            host_ips: &moment.host_ips,
            memory_capacity: facts.memory_capacity,
            cpu_capacity_milli: facts.cpu_capacity_milli,
            pid_capacity: facts.pid_capacity,
            cgroup_v2: facts.cgroup_v2,
            swap_controller: facts.swap_controller,
            swap_capacity: facts.swap_capacity,
            hugepage_sizes: &facts.hugepage_sizes,
            masked_paths: &facts.masked_paths,
            ..NodeView::new(&parts.config, &NO_RESOLV)
        }
    }

    /// The pod's own, if it has any and the handler can do that. Waits for the disk, and for other agents of the machine.
    async fn users(&self, pod: &Value, runtime_handler: &str) -> Option<Users> {
        let features = self.parts.facts.features(runtime_handler);
        let ranges = self.user_ranges.clone().filter(|_| features.user_namespaces)?;
        let uid = has_own_users(pod).then(|| pod.str_at(&["metadata", "uid"]).unwrap_or("").to_owned())?;
        let range = block(move || ranges.range(&uid)).await;
        Some(Users(range.unwrap_or_else(|error| Err(error.to_string()))))
    }

    /// With what the handler of a pod can do.
    fn pod_view<'a>(
        &'a self,
        moment: &'a Moment,
        runtime_handler: &'a str,
        users: Option<&'a Users>,
    ) -> NodeView<'a> {
        let features = self.parts.facts.features(runtime_handler);
        NodeView {
            runtime_handler,
            recursive_read_only: features.recursive_read_only_mounts,
            user_namespaces: users.map(|users| users as &dyn UserNamespaces),
            ..self.node_view(moment)
        }
    }

    /// And the handler that is to run it.
    pub(super) async fn sandbox_config(
        &self,
        task: &PodTask,
        pod: &Value,
        attempt: u32,
    ) -> Result<(generate::Sandbox, String), GenerateError> {
        let handler = self.parts.objects.runtime_handler(pod);
        let handler = handler.map_err(|error| GenerateError::sandbox(error.to_string()))?;
        let path = self.parts.config.resolv_conf.clone();
        let resolv = block(move || Resolv::read(&path)).await;
        let resolv = resolv.unwrap_or_else(|error| Err(error.to_string())).map_err(GenerateError::sandbox)?;
        let (moment, users) = (self.moment(), self.users(pod, &handler).await);
        let view = NodeView { node_resolv: &resolv, ..self.pod_view(&moment, &handler, users.as_ref()) };
        let volumes = task.cache.lock().volumes.clone().unwrap_or_default();
        let groups: Vec<i64> = volumes.values().filter_map(|volume| volume.group).collect();
        let sandbox = generate::sandbox_config(pod, attempt, &groups, &view)?;
        Ok((sandbox, handler))
    }

    /// What the pod's sandbox was made with; made again where another process made that.
    pub(super) async fn config_of(
        &self,
        task: &PodTask,
        pod: &Value,
    ) -> Result<Arc<cri::PodSandboxConfig>, GenerateError> {
        let (known, attempt) = {
            let cache = task.cache.lock();
            (cache.sandbox_config.clone(), cache.sandbox.as_ref().map_or(0, |sandbox| sandbox.attempt))
        };
        match known {
            Some(known) => Ok(known),
            None => {
                let made = Arc::new(self.sandbox_config(task, pod, attempt).await?.0.config);
                Ok(task.cache.lock().sandbox_config.insert(made).clone())
            }
        }
    }

    /// The limits a running container should have.
    pub(super) fn resources(&self, pod: &Value, container: &Value) -> cri::LinuxContainerResources {
        generate::limits::container_resources(pod, container, &self.node_view(&self.moment()))
    }

    pub(super) async fn container_config(
        &self,
        task: &PodTask,
        tree: &Arc<Value>,
        container: &Container<'_>,
        attempt: u32,
        (image, volume_images): (&PulledImage, &VolumeImages),
    ) -> Result<cri::ContainerConfig, GenerateError> {
        let failed = |message: String| GenerateError { reason: "CreateContainerConfigError", message };
        let volumes = task.cache.lock().volumes.clone().unwrap_or_default();
        let volumes = if volumes.is_empty() {
            Arc::new(self.parts.volumes.mount(tree).await.map_err(|error| failed(error.summary()))?)
        } else {
            volumes
        };
        let mounted: BTreeMap<String, MountedVolume> = volumes
            .iter()
            .map(|(name, volume)| {
                let (host_path, read_only) = (volume.host_path.clone(), volume.read_only);
                let (group, image) = (volume.group, volume_images.get(name).cloned());
                let volume = MountedVolume { host_path, read_only, group, image, ..MountedVolume::default() };
                (name.clone(), volume)
            })
            .collect();
        let sources = self.sources(tree, container.spec, &mounted).await;
        let pod_ips = task.sandbox().map(|sandbox| sandbox.ips).unwrap_or_default();
        let target = {
            let cache = task.cache.lock();
            let id_of = |name: &str| {
                let run = cache.containers.get(name)?.run.as_ref()?;
                run.is_running().then_some(run.id.as_str())
            };
            generate::target_id(container.spec, id_of)?.map(str::to_owned)
        };
        let log = self.write_files(tree, container.spec, &pod_ips).await?;
        let moment = self.moment();
        // Without its class, it has none of what only some handlers can do.
        let handler = self.parts.objects.runtime_handler(tree).ok();
        let users = match &handler {
            Some(handler) => self.users(tree, handler).await,
            None => None,
        };
        let view = match &handler {
            Some(handler) => self.pod_view(&moment, handler, users.as_ref()),
            None => self.node_view(&moment),
        };
        let image_user = image.user.as_ref().map_err(|message| failed(message.clone()))?;
        let (devices, mut parts) = (DeviceResources::default(), BTreeMap::new());
        let none = BTreeMap::new();
        let inputs = || ContainerInputs {
            node: &view,
            pod: tree,
            container: container.spec,
            restart_count: attempt,
            image_ref: &image.spec.image,
            image_user,
            pod_ips: &pod_ips,
            volumes: &mounted,
            sources: &sources,
            parts: &none,
            termination_log: log.as_deref(),
            target_id: target.as_deref(),
            devices: &devices,
        };
        let wanted_parts = generate::wanted_parts(&inputs())?;
        for wanted in wanted_parts {
            let Some(volume) = volumes.get(&wanted.volume) else { continue };
            let of_volume = (wanted.volume.as_str(), volume);
            let prepared = self.parts.volumes.prepare_sub_path(
                &task.uid,
                of_volume,
                &wanted.path,
                container.name,
                wanted.index,
            );
            parts.insert(wanted.index, prepared.await.map_err(failed)?);
        }
        generate::container_config(&ContainerInputs { parts: &parts, ..inputs() })
    }

    /// The files that belong to one run of a container; that of its last words.
    async fn write_files(
        &self,
        pod: &Arc<Value>,
        container: &Value,
        pod_ips: &[String],
    ) -> Result<Option<PathBuf>, GenerateError> {
        let (config, pod, container, pod_ips) =
            (self.parts.config.clone(), pod.clone(), container.clone(), pod_ips.to_vec());
        let id = self.parts.env.random() as u32;
        let written = block(move || {
            files::write_etc_hosts(&config, &pod, &pod_ips)?;
            files::make_log_directory(&config, &pod, container.str_at(&["name"]).unwrap_or(""))?;
            files::create_termination_log(&config, &pod, &container, id)
        });
        let failed = |message: String| GenerateError { reason: "CreateContainerError", message };
        written.await.map_err(|error| failed(error.to_string()))?.map_err(|error| failed(error.to_string()))
    }

    /// The image, pulled if it must be; what happens meanwhile is told of the container.
    pub(super) async fn ensure_image(
        &self,
        task: &PodTask,
        pod: &Arc<Value>,
        container: &str,
        image: &str,
        pull_policy: Option<&str>,
    ) -> Result<PulledImage, ImageError> {
        let (secrets, missing) = images::pull_secrets(&self.parts.objects, pod).await;
        if let Some(event) = missing {
            task.cache.lock().tell("", event.severity, event.reason, event.message);
        }
        let sandbox = self.config_of(task, pod).await.ok();
        let sandbox = sandbox.as_deref();
        let wanted = WantedImage { pod, image, pull_policy, secrets: &secrets, sandbox, runtime_handler: "" };
        let tell = |event: ImageEvent| {
            task.cache.lock().tell(container, event.severity, event.reason, event.message);
            self.wake(task);
        };
        self.parts.images.ensure(wanted, &tell).await
    }

    /// What the variables of a container come from, as far as they name it.
    async fn sources(
        &self,
        pod: &Value,
        container: &Value,
        volumes: &BTreeMap<String, MountedVolume>,
    ) -> Fetched {
        let namespace = pod.str_at(&["metadata", "namespace"]).unwrap_or("");
        let (mut fetched, wanted) = (Fetched::default(), Wanted::of(container));
        let objects = &self.parts.objects;
        for name in wanted.config_maps {
            fetched.config_maps.insert(name.to_owned(), found(objects.config_map(namespace, name).await));
        }
        for name in wanted.secrets {
            fetched.secrets.insert(name.to_owned(), found(objects.secret(namespace, name).await));
        }
        for (volume, path) in wanted.files {
            let Some(volume) = volumes.get(volume) else { continue };
            let (from, of) = (volume.host_path.clone(), path.to_owned());
            let read = block(move || files::read_volume_file(&from, &of));
            let read = read.await.unwrap_or_else(|error| Err(error.to_string()));
            fetched.files.insert((volume.host_path.clone(), path.to_owned()), read);
        }
        let services = objects.services();
        // A pod of the machine's own does not wait for the API.
        if services.has_synced() || Pod::read(pod).is_static() {
            let mut near: BTreeMap<String, Vec<Arc<Value>>> = BTreeMap::new();
            for service in services.store().list() {
                let of = service.namespace();
                if of == namespace || of == "default" {
                    near.entry(of.to_owned()).or_default().push(Arc::new(runtime::tree(&service)));
                }
            }
            fetched.services = Some(near);
        }
        fetched
    }

    pub(super) fn target(&self, task: &Arc<PodTask>, pod: &Value, id: &str) -> Arc<dyn Target> {
        let (task, host_ips) = (Arc::downgrade(task), self.parts.host_ips.clone());
        let host_network = Pod::read(pod).host_network;
        let pod_ip = move || match host_network {
            true => host_ips().first().map(ToString::to_string),
            false => task.upgrade()?.sandbox()?.ips.first().cloned(),
        };
        Arc::new(RuntimeTarget {
            env: self.parts.env.clone(),
            runtime: self.parts.cri.clone(),
            container_id: id.to_owned(),
            pod_ip: Box::new(pod_ip),
        })
    }

    pub(super) fn watch_probes(&self, task: &Arc<PodTask>, pod: &Value, container: &str, id: &str) {
        let since = {
            let cache = task.cache.lock();
            let run = cache.containers.get(container).and_then(|slot| slot.run.as_ref());
            match run.map(|run| &run.state) {
                Some(super::cache::RunState::Running { since }) => *since,
                _ => return,
            }
        };
        let target = self.target(task, pod, id);
        self.probes.set(&task.uid, pod, container, id, since.saturating_mul(1_000_000), target);
    }

    pub(super) fn log_path(&self, pod: &Value, container: &str, attempt: u32) -> PathBuf {
        labels::log_directory(&self.parts.config.pod_logs_directory, pod)
            .join(labels::log_path(container, attempt))
    }

    /// For log collectors, who may be without it.
    pub(super) async fn link_log(&self, pod: &Value, container: &str, id: &str, attempt: u32) {
        let logs = PodLogs::of(&self.parts.config);
        if !logs.are_shared() {
            return;
        }
        let log = self.log_path(pod, container, attempt);
        let text = |name: &str| pod.str_at(&["metadata", name]).unwrap_or("").to_owned();
        let (namespace, pod) = (text("namespace"), text("name"));
        let (container, id) = (container.to_owned(), id.to_owned());
        let linked = block(move || {
            let of = ContainerLog { namespace: &namespace, pod: &pod, container: &container, id: &id };
            logs.link(of, &log)
        });
        if let Err(error) = linked.await.unwrap_or_else(|error| Err(std::io::Error::other(error))) {
            tracing::warn!(%error, "failed to link a container's log");
        }
    }

    /// The number of a container's next run: one that neither the runtime nor a log has.
    pub(super) async fn next_attempt(
        &self,
        task: &PodTask,
        pod: &Arc<Value>,
        container: &str,
        attempt: u32,
    ) -> u32 {
        {
            let mut cache = task.cache.lock();
            let slot = cache.slot(container);
            if slot.run.is_some() {
                return slot.next_attempt(attempt);
            }
        }
        // Its runs were forgotten, if there were any.
        let (config, pod, container) = (self.parts.config.clone(), pod.clone(), container.to_owned());
        let of_logs = block(move || files::restart_count_of_logs(&config, &pod, &container)).await;
        attempt.max(of_logs.unwrap_or(0))
    }

    /// The pod's cgroup, and those above it.
    pub(super) async fn make_groups(self: &Arc<Shared>, pod: &Arc<Value>) -> Result<(), String> {
        let is_burstable = generate::qos_class(pod) == "Burstable";
        let (shared, pod) = (self.clone(), pod.clone());
        let made = block(move || {
            PodCgroups::new(&shared.parts.config)
                .create_pod(&pod, &shared.node_view(&shared.moment()))
                .map(drop)
        });
        made.await.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
        // The shares of the other classes do not depend on their pods.
        if is_burstable {
            self.update_classes().await;
        }
        Ok(())
    }

    /// By uid: the object may have changed, or never have been seen by this process.
    pub(super) async fn remove_groups(self: &Arc<Shared>, uid: &str) -> Result<(), String> {
        let (shared, uid) = (self.clone(), uid.to_owned());
        let removed = block(move || {
            let groups = PodCgroups::new(&shared.parts.config);
            groups.pods().get(&uid).map_or(Ok(()), |path| groups.remove_pod(path))
        });
        removed.await.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
    }
}

fn found(read: Result<Arc<object::Obj>, crate::objects::ObjectError>) -> Result<Option<Arc<Value>>, String> {
    match read {
        Ok(obj) => Ok(Some(Arc::new(runtime::tree(&obj)))),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}
