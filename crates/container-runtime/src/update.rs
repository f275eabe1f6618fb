//! Limits of a container that runs, changed in place.

use container::cgroup::Cgroup;
use container::config::ContainerConfig;
use cri::Error;

use crate::error::{Context, unknown};
use crate::pods::Phase;
use crate::spec::resources;
use crate::{Inner, cgroups, records};

impl Inner {
    pub fn update_resources(&self, request: cri::UpdateContainerResourcesRequest) -> Result<(), Error> {
        let id = request.container_id;
        let container = self.container(&id)?;
        let Some(new) = request.linux else { return Ok(()) };
        let _operation = container.operation.lock();
        let failed = || format!("failed to update resources of container {id:?}");
        let phase = container.phase.borrow().clone();
        if let Phase::Exited(_) = phase {
            return Err(unknown(format!("{}: container is in {} state", failed(), phase.name())));
        }
        let mut record = container.record.lock().clone();
        let mut config = record.config.take().unwrap_or_default();
        let asked = config.linux.get_or_insert_default().resources.get_or_insert_default();
        resources::merge(asked, &new);
        // For a start that is still to come.
        let mut spec: ContainerConfig = serde_json::from_slice(&record.spec).context(failed)?;
        let devices = spec.resources.devices.take();
        spec.resources = resources::convert(asked);
        spec.resources.devices = devices;
        if phase.is_running() {
            let path = self.cgroup_of(&container);
            Cgroup::at_host(&path).set(&resources::convert(&new)).context(failed)?;
            cgroups::set_more(&path, &new).context(failed)?;
        }
        record.spec = serde_json::to_vec(&spec).context(failed)?;
        record.config = Some(config);
        records::write(&container.directory, records::RECORD, &record).context(failed)?;
        *container.record.lock() = record;
        Ok(())
    }
}
