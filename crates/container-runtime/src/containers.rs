//! Containers: made of an image and what is asked for, started by the pod's helper, ended, removed.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use container::config::ContainerConfig;
use container::wire::{Reply, Request};
use cri::{Code, ContainerEventType, Error};
use image::Image;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::blocking::block;
use crate::error::{Context, invalid, unknown, unless_missing};
use crate::helper::{Connection, HelperError};
use crate::pods::{Container, Exit, Phase, Sandbox, container_name};
use crate::records::{self, ContainerRecord, FailureRecord};
use crate::{Inner, cgroups, spec};

const KILL: i32 = 9;
/// So long a killed container is waited for, as by containerd's clients.
const KILL_TIMEOUT: Duration = Duration::from_secs(120);
/// The code of a container that did not start.
const START_ERROR: i32 = 128;

impl Inner {
    pub fn create_container(
        self: &Arc<Inner>,
        request: cri::CreateContainerRequest,
    ) -> Result<String, Error> {
        let config = request.config.ok_or_else(|| invalid("container config is required"))?;
        if config.metadata.is_none() {
            return Err(invalid("container config must include metadata"));
        }
        let sandbox = self.ready_sandbox(&request.pod_sandbox_id)?;
        let asked = config.image.clone().unwrap_or_default().image;
        let image = self.find_image(&asked)?.ok_or_else(|| not_found(&asked))?;
        let id = self.new_id();
        let name = container_name(&config, &sandbox.record.config());
        self.pods.lock().reserve("container", &name, &id)?;
        let made = self.make_container(&id, &sandbox, &image, config);
        let container = made.inspect_err(|_| self.pods.lock().release(&id))?;
        self.pods.lock().containers.insert(id.clone(), container.clone());
        // It may have been removed before anybody could see that it is used.
        if self.find_image(image.id.as_str())?.is_none() {
            self.remove_container(&id)?;
            return Err(not_found(&asked));
        }
        self.images.touch(&image.id);
        self.tell(&id, ContainerEventType::CreatedEvent, Some(&sandbox));
        Ok(id)
    }

    fn make_container(
        &self,
        id: &str,
        sandbox: &Arc<Sandbox>,
        image: &Image,
        config: cri::ContainerConfig,
    ) -> Result<Arc<Container>, Error> {
        let directory = records::containers(&self.settings.directory).join(records::short(id));
        let parts = spec::Parts { id, directory: &directory, sandbox, image, config: &config, runtime: self };
        let spec = spec::build(&parts)?;
        // Missing host paths have been made by now.
        spec::mounts::check_propagation(&config.mounts)?;
        let top = spec.root.layers.first().cloned();
        let pod_log = sandbox.record.config().log_directory;
        let log_path = if config.log_path.is_empty() || pod_log.is_empty() {
            String::new()
        } else {
            Path::new(&pod_log).join(&config.log_path).to_string_lossy().into_owned()
        };
        let record = ContainerRecord {
            id: id.to_owned(),
            sandbox_id: sandbox.record.id.clone(),
            created_at: self.now(),
            image_id: image.id.to_string(),
            image_name: image.names.first().cloned().unwrap_or_default(),
            image_ref: image.digests.first().cloned().unwrap_or_else(|| image.id.to_string()),
            spec: serde_json::to_vec(&ContainerConfig { log: log_path.clone().into(), ..spec })
                .context(|| "failed to write the spec".to_owned())?,
            log_path,
            stop_signal: spec::signals::stop_signal(&config, &image.config.stop_signal)?,
            user: spec::users::resolve(&parts),
            config: Some(config.clone()),
        };
        let made = make_directories(&directory, top.as_ref())
            .and_then(|()| spec::mounts::make_volumes(&parts))
            .and_then(|()| records::write(&directory, records::RECORD, &record));
        if let Err(error) = made {
            let _ = container::tree::remove(&directory);
            return Err(unknown(format!("failed to create container root directory: {error}")));
        }
        Ok(Arc::new(new_container(record, directory, sandbox.clone(), Phase::Created)))
    }

    pub fn start_container(self: &Arc<Inner>, id: &str) -> Result<(), Error> {
        let container = self.container(id)?;
        let _operation = container.operation.lock();
        let phase = container.phase.borrow().clone();
        if phase != Phase::Created {
            return Err(unknown(format!(
                "failed to set starting state for container {id:?}: container is in {} state",
                phase.name()
            )));
        }
        let started = self.start(&container);
        let Err(error) = started else { return Ok(()) };
        let failure = FailureRecord { finished_at: self.now(), message: error.message.clone() };
        if let Err(error) = records::write(&container.directory, records::FAILED, &failure) {
            tracing::warn!(container = id, %error, "why a container did not start is not written down");
        }
        self.advance(&container, failure.into());
        Err(error)
    }

    fn start(self: &Arc<Inner>, container: &Arc<Container>) -> Result<(), Error> {
        let sandbox = self.ready_sandbox(&container.sandbox.record.id)?;
        let spec = self.spec_of(container)?;
        let config = container.record.lock().config.clone().unwrap_or_default();
        let resources = config.linux.and_then(|linux| linux.resources).unwrap_or_default();
        cgroups::set_more(&spec.cgroup, &resources).context(|| "failed to set up the cgroup".to_owned())?;
        let failed =
            |error: HelperError| unknown(format!("failed to start container {:?}: {error}", container.id));
        let connection = Connection::open(&sandbox.directory).map_err(|error| failed(error.into()))?;
        connection.ask(&Request::Start(Box::new(spec)), &[]).map_err(|error| match error {
            HelperError::Refused(why) => unknown(format!(
                "failed to start container {:?}: unable to start container process: {why}",
                container.id
            )),
            silent => {
                // It may still start it, for nobody.
                let _ = self.signal(container, KILL);
                failed(silent)
            }
        })?;
        // It runs, or it did: whoever asks from now on hears so.
        self.learn(&connection.watch().map_err(failed)?);
        Ok(())
    }

    /// As the helper needs it, system call filter included.
    pub fn spec_of(&self, container: &Container) -> Result<ContainerConfig, Error> {
        let record = container.record.lock().clone();
        let mut spec: ContainerConfig = serde_json::from_slice(&record.spec)
            .context(|| format!("failed to read the spec of container {:?}", container.id))?;
        let config = record.config.unwrap_or_default();
        spec.process.seccomp = self.filters.of(&config, &spec.process.capabilities)?;
        Ok(spec)
    }

    /// Below the pod's, or where those without are.
    pub fn cgroup_of(&self, container: &Container) -> PathBuf {
        self.cgroup_path(&container.sandbox, &container.id)
    }

    pub fn cgroup_path(&self, sandbox: &Sandbox, id: &str) -> PathBuf {
        let parent = sandbox.record.cgroup_parent();
        if parent.is_empty() {
            self.settings.cgroup.join("default").join(id)
        } else {
            Path::new(parent).join(id)
        }
    }

    pub fn remove_container(self: &Arc<Inner>, id: &str) -> Result<(), Error> {
        let Ok(container) = self.container(id) else { return Ok(()) };
        let _operation = container.operation.lock();
        let was_started = !matches!(*container.phase.borrow(), Phase::Created);
        let helper = Connection::open(&container.sandbox.directory).ok();
        if container.phase.borrow().is_running()
            && let Some(helper) = &helper
        {
            self.kill_and_wait(&container, helper)?;
        }
        // Gone for us first: what the helper still has of one without a record is removed by who finds it.
        let trash = container.directory.with_extension("removed");
        unless_missing(std::fs::rename(&container.directory, &trash), &container.directory)?;
        if let (true, Some(helper)) = (was_started, helper) {
            let request = Request::Remove { container: id.to_owned() };
            if let Err(error) = helper.ask(&request, &[]) {
                tracing::debug!(container = id, %error, "the helper does not know it any more");
            }
        }
        if was_started {
            // Of a helper that is gone, or could not.
            self.remove_cgroup(&container);
        }
        unless_missing(container::tree::remove(&trash), &trash)?;
        {
            let mut pods = self.pods.lock();
            pods.containers.remove(id);
            pods.release(id);
        }
        self.stats.forget(id);
        self.tell(id, ContainerEventType::DeletedEvent, Some(&container.sandbox));
        Ok(())
    }

    /// On a thread that may wait: the helper says when it is over.
    fn kill_and_wait(&self, container: &Arc<Container>, helper: &Connection) -> Result<(), Error> {
        let id = &container.id;
        let failed = |error: HelperError| unknown(format!("failed to stop container {id:?}: {error}"));
        let request = Request::Signal { container: id.clone(), signal: KILL, all: true };
        helper.ask(&request, &[]).map_err(failed)?;
        self.learn(&helper.watch().map_err(failed)?);
        while !container.phase.borrow().is_exited() {
            self.learn(&helper.next_state().map_err(failed)?);
        }
        Ok(())
    }

    pub fn signal(&self, container: &Container, signal: i32) -> Result<(), Error> {
        let asked =
            Connection::open(&container.sandbox.directory).map_err(HelperError::from).and_then(|helper| {
                let request =
                    Request::Signal { container: container.id.clone(), signal, all: signal == KILL };
                helper.ask(&request, &[])
            });
        match asked {
            Ok(_) => Ok(()),
            Err(_) if container.phase.borrow().is_exited() => Ok(()),
            Err(error) => Err(unknown(format!("failed to stop container {:?}: {error}", container.id))),
        }
    }

    pub fn reopen_log(&self, id: &str) -> Result<(), Error> {
        let container = self.container(id)?;
        if !container.phase.borrow().is_running() {
            return Err(unknown("container is not running"));
        }
        let failed = || format!("failed to reopen the log of container {id:?}");
        let helper = Connection::open(&container.sandbox.directory).context(failed)?;
        match helper.ask(&Request::ReopenLog { container: id.to_owned() }, &[]).context(failed)? {
            (Reply::Done, _) => Ok(()),
            _ => Err(unknown(failed())),
        }
    }
}

/// Its signal, the time it is given, then the end.
pub async fn stop(inner: Arc<Inner>, id: String, timeout_seconds: i64) -> Result<(), Error> {
    let Ok(container) = inner.container(&id) else { return Ok(()) };
    let mut phase = container.phase.subscribe();
    if !phase.borrow_and_update().is_running() {
        return Ok(());
    }
    if timeout_seconds > 0 {
        // Once, however often it is asked for.
        if !container.is_signaled.swap(true, Ordering::Relaxed) {
            let (inner, container) = (inner.clone(), container.clone());
            let signal = container.record.lock().stop_signal;
            if let Err(error) = block(move || inner.signal(&container, signal)).await {
                // It gets its time nevertheless, and its end.
                tracing::warn!(container = id, %error, "a container cannot be told to stop");
            }
        }
        let given = Duration::from_secs(timeout_seconds.unsigned_abs());
        if inner.env.timeout(given, phase.wait_for(|phase| !phase.is_running())).await.is_ok() {
            return Ok(());
        }
    }
    let (own, killed) = (inner.clone(), container.clone());
    block(move || own.signal(&killed, KILL)).await?;
    match inner.env.timeout(KILL_TIMEOUT, phase.wait_for(|phase| !phase.is_running())).await {
        Ok(_) => Ok(()),
        Err(_) => Err(Error::new(
            Code::DeadlineExceeded,
            format!("an error occurs during waiting for container {id:?} to be killed"),
        )),
    }
}

pub fn new_container(
    record: ContainerRecord,
    directory: PathBuf,
    sandbox: Arc<Sandbox>,
    phase: Phase,
) -> Container {
    Container {
        id: record.id.clone(),
        sandbox,
        directory,
        record: Mutex::new(record),
        phase: watch::Sender::new(phase),
        operation: Mutex::default(),
        is_signaled: AtomicBool::new(false),
    }
}

impl From<FailureRecord> for Phase {
    fn from(failure: FailureRecord) -> Phase {
        Phase::Exited(Exit {
            started: 0,
            finished: failure.finished_at,
            code: START_ERROR,
            reason: "StartError".to_owned(),
            message: failure.message,
        })
    }
}

fn not_found(image: &str) -> Error {
    Error::new(Code::NotFound, format!("failed to resolve image {image:?}: not found"))
}

/// `top` is the image's topmost layer: the root has its owner and mode.
fn make_directories(directory: &Path, top: Option<&PathBuf>) -> std::io::Result<()> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    std::fs::create_dir(directory)?;
    for part in ["upper", "work", "root"] {
        std::fs::create_dir(directory.join(part))?;
    }
    let upper = directory.join("upper");
    let (mode, uid, gid) = match top.map(std::fs::metadata).transpose()? {
        Some(top) => (top.mode() & 0o7777, top.uid(), top.gid()),
        None => (0o755, 0, 0),
    };
    std::os::unix::fs::chown(&upper, Some(uid), Some(gid))?;
    std::fs::set_permissions(&upper, std::fs::Permissions::from_mode(mode))?;
    Ok(())
}
