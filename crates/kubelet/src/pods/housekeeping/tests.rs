//! Logs of a container whose runtime does not always listen.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cri::{Call, Code, Error};
use parking_lot::Mutex;
use runtime::{Key, Stopper};
use testkit::TestCluster;

use super::super::cache::{Run, RunState};
use super::super::{Changes, PodTask, Pods, tests};
use super::rotate;

/// Opens the log anew, unless it is told to fail.
#[derive(Default)]
struct Reopening {
    log: Mutex<PathBuf>,
    fails: AtomicBool,
}

impl cri::PartialRuntime for Reopening {
    fn list_pod_sandbox(&self, _: cri::ListPodSandboxRequest) -> Call<'_, cri::ListPodSandboxResponse> {
        Box::pin(async { Ok(Default::default()) })
    }
    fn list_containers(&self, _: cri::ListContainersRequest) -> Call<'_, cri::ListContainersResponse> {
        Box::pin(async { Ok(Default::default()) })
    }
    fn list_images(&self, _: cri::ListImagesRequest) -> Call<'_, cri::ListImagesResponse> {
        Box::pin(async { Ok(Default::default()) })
    }
    fn reopen_container_log(
        &self,
        _: cri::ReopenContainerLogRequest,
    ) -> Call<'_, cri::ReopenContainerLogResponse> {
        if self.fails.load(Ordering::Relaxed) {
            return Box::pin(async { Err(Error { code: Code::Unavailable, message: "busy".to_owned() }) });
        }
        File::create(&*self.log.lock()).unwrap();
        Box::pin(async { Ok(cri::ReopenContainerLogResponse {}) })
    }
}

struct Case {
    cluster: TestCluster,
    pods: Pods,
    task: Arc<PodTask>,
    runtime: Arc<Reopening>,
    log: PathBuf,
    _stopper: Stopper,
}

impl Case {
    /// A running container with a log that is longer than it may be.
    async fn new(root: &Path, seed: u64) -> Case {
        let cluster = TestCluster::simulated(seed).await;
        let client = cluster.local_clients().user("system:node:n", &["system:nodes"]);
        let runtime = Arc::new(Reopening::default());
        let (pods, _stopper) =
            tests::open(root, &cluster, client, runtime.clone(), &Changes::default(), |config| {
                // Only the test looks at the logs.
                config.container_log_monitor_interval = Duration::from_secs(1_000_000);
            })
            .await;
        // The node's own first round is over, and found nothing.
        cluster.env().sleep(Duration::from_secs(1)).await;
        let uid = "2b1f0a34-5b0e-4bd5-8f2c-7f7a0a3c9d12";
        let text = format!(
            "{{metadata: {{name: chatty, namespace: d, uid: {uid}}}, spec: {{containers: [{{name: c, image: 'i:1'}}]}}}}"
        );
        let pod = Arc::new(runtime::parse(&text).unwrap());
        let task = pods.shared.ensure(Key::new("d", "chatty"), uid);
        task.cache.lock().pod = pod.clone();
        task.cache.lock().slot("c").saw(Run {
            id: "c-1".to_owned(),
            hash: 0,
            image_id: String::new(),
            image: String::new(),
            user: None,
            attempt: 0,
            state: RunState::Running { since: 0 },
        });
        let log = pods.shared.log_path(&pod, "c", 0);
        std::fs::create_dir_all(log.parent().unwrap()).unwrap();
        *runtime.log.lock() = log.clone();
        let case = Case { cluster, pods, task, runtime, log, _stopper };
        case.grow();
        case
    }

    fn grow(&self) {
        File::create(&self.log).unwrap().set_len(11 << 20).unwrap();
    }

    async fn rotate(&self) {
        rotate(&self.pods.shared, &self.task).await;
    }

    /// The length of the log that is written now; the number of those that were rotated.
    fn logs(&self) -> (Option<u64>, usize) {
        let files = std::fs::read_dir(self.log.parent().unwrap()).unwrap().count();
        let length = std::fs::metadata(&self.log).ok().map(|metadata| metadata.len());
        (length, files - usize::from(length.is_some()))
    }
}

#[tokio::test(start_paused = true)]
async fn a_log_that_cannot_be_reopened_stays_the_current_one_and_is_rotated_later() {
    let folder = tempfile::tempdir().unwrap();
    let case = Case::new(folder.path(), 46).await;
    case.runtime.fails.store(true, Ordering::Relaxed);
    case.rotate().await;
    assert_eq!(case.logs(), (Some(11 << 20), 0));
    case.runtime.fails.store(false, Ordering::Relaxed);
    case.rotate().await;
    assert_eq!(case.logs(), (Some(0), 1));
    case.cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_log_whose_rotation_was_cut_off_is_reopened() {
    let folder = tempfile::tempdir().unwrap();
    let case = Case::new(folder.path(), 47).await;
    std::fs::rename(&case.log, case.log.with_extension("log.20260102-030405")).unwrap();
    case.rotate().await;
    assert_eq!(case.logs(), (Some(0), 1));
    case.cluster.shutdown().await;
}
