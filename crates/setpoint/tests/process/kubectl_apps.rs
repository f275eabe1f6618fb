//! A Deployment's life through kubectl, on the simulated nodes of `setpoint up`: created, rolled, undone, scaled, drained, deleted.

use crate::harness::*;
use crate::kubectl::{Kubectl, holds};

fn with_cluster(test: impl FnOnce(&Kubectl)) {
    let folder = folder();
    let server = Proc::up(&folder.path().join("data"), &["--simulated-nodes", "3"]);
    if let Some(kubectl) = Kubectl::new(&server, folder.path()) {
        test(&kubectl);
    }
    server.stop();
}

/// What a jsonpath gives.
fn ask(kubectl: &Kubectl, what: &str, path: &str) -> String {
    kubectl.words(&["get", what, "-o", &format!("jsonpath={path}")])
}

fn lines(text: &str) -> usize {
    text.lines().filter(|line| !line.is_empty()).count()
}

#[test]
fn a_deployment_lives_from_create_to_running_pods_and_back() {
    with_cluster(|kubectl| {
        kubectl.run("wait --for=condition=Ready nodes --all --timeout=60s");
        kubectl.run("create deployment web --image=nginx --replicas=3");
        holds(&kubectl.run("rollout status deployment/web --timeout=60s"), &["successfully rolled out"]);
        let pods = kubectl.run("get pods -l app=web --no-headers");
        assert_eq!(lines(&pods), 3, "{pods}");
        assert_eq!(pods.matches("1/1").count(), 3, "{pods}");
        assert_eq!(pods.matches("Running").count(), 3, "{pods}");
        holds(
            &kubectl.run("describe deployment web"),
            &["ScalingReplicaSet", "Scaled up replica set web-", "NewReplicaSetAvailable"],
        );
        holds(
            &kubectl.run("get events"),
            &["Scheduled", "Successfully assigned default/web-", "SuccessfulCreate", "Started"],
        );

        kubectl.run("scale deployment/web --replicas=5");
        kubectl.run("rollout status deployment/web --timeout=60s");
        assert_eq!(ask(kubectl, "deployment/web", "{.status.readyReplicas}"), "5");

        kubectl.run("set image deployment/web nginx=nginx:2");
        kubectl.run("rollout status deployment/web --timeout=60s");
        let images = ask(kubectl, "pods", "{range .items[*]}{.spec.containers[0].image}{\"\\n\"}{end}");
        assert!(images.lines().all(|image| image == "nginx:2"), "{images}");
        let history = kubectl.run("rollout history deployment/web");
        holds(&history, &["1", "2"]);

        kubectl.run("rollout undo deployment/web");
        kubectl.run("rollout status deployment/web --timeout=60s");
        assert_eq!(ask(kubectl, "deployment/web", "{.spec.template.spec.containers[0].image}"), "nginx");
        holds(&kubectl.run("rollout history deployment/web"), &["2", "3"]);

        kubectl.run("rollout pause deployment/web");
        kubectl.run("set image deployment/web nginx=nginx:3");
        let sets = || lines(&kubectl.run("get replicasets -l app=web --no-headers"));
        assert_eq!(sets(), 2, "a paused deployment makes no replica set");
        kubectl.run("rollout resume deployment/web");
        kubectl.run("rollout status deployment/web --timeout=60s");
        assert_eq!(sets(), 3);

        let victim = ask(kubectl, "pods", "{.items[0].metadata.name}");
        kubectl.run(&format!("delete pod {victim}"));
        kubectl.run("rollout status deployment/web --timeout=60s");
        wait_until("the pod is replaced", || {
            ask(kubectl, "deployment/web", "{.status.readyReplicas}") == "5"
                && !ask(kubectl, "pods", "{.items[*].metadata.name}").contains(&victim)
        });

        kubectl.run("cordon sim-0");
        holds(&kubectl.run("get node sim-0"), &["SchedulingDisabled"]);
        kubectl.run("drain sim-1 --ignore-daemonsets --delete-emptydir-data --timeout=60s");
        wait_until("every pod is on the node that is left", || {
            let places =
                ask(kubectl, "pods", "{range .items[*]}{.spec.nodeName} {.status.phase}{\"\\n\"}{end}");
            !places.contains("sim-1") && places.matches("Running").count() == 5
        });
        kubectl.run("uncordon sim-0");

        kubectl.run("delete deployment web --cascade=orphan");
        assert_eq!(sets(), 3, "orphans stay");
        kubectl.run("delete replicasets -l app=web --cascade=foreground --timeout=60s");
        wait_until("the pods are gone", || lines(&kubectl.run("get pods -l app=web --no-headers")) == 0);
    });
}

#[test]
fn a_namespace_takes_everything_with_it_and_jobs_complete() {
    with_cluster(|kubectl| {
        kubectl.run("create namespace shop");
        kubectl.run("create deployment web --image=nginx --replicas=2 -n shop");
        kubectl.run("expose deployment web --port=80 -n shop");
        // A list is validated against another document than its items.
        kubectl.file(
            "list.json",
            r#"{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"settings","namespace":"shop"},"data":{"a":"b"}}]}"#,
        );
        kubectl.run("create -f list.json");
        kubectl.run("rollout status deployment/web -n shop --timeout=60s");
        wait_until("the service has endpoints", || {
            let path = "jsonpath={.items[*].endpoints[*].conditions.ready}";
            kubectl.words(&["get", "endpointslices", "-n", "shop", "-o", path]) == "true true"
        });
        kubectl.words(&["create", "job", "once", "--image=busybox", "--", "sh", "-c", "exit 0"]);
        kubectl.run("wait --for=condition=complete job/once --timeout=60s");
        assert_eq!(ask(kubectl, "job/once", "{.status.succeeded}"), "1");
        kubectl.run("delete namespace shop --timeout=60s");
        holds(&kubectl.fails("get namespace shop"), &["not found"]);
        kubectl.run("delete job once --timeout=60s");
        wait_until("the job's pods are gone", || lines(&kubectl.run("get pods --no-headers")) == 0);
    });
}

#[test]
fn an_unschedulable_pod_says_why_and_is_bound_once_it_fits() {
    with_cluster(|kubectl| {
        kubectl.file(
            "picky.yaml",
            "apiVersion: v1\nkind: Pod\nmetadata: {name: picky}\nspec:\n  nodeSelector: {disk: fast}\n  containers: [{name: c, image: nginx}]\n",
        );
        kubectl.run("create -f picky.yaml");
        wait_until("it says why", || {
            kubectl
                .run("describe pod picky")
                .contains("0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector")
        });
        kubectl.run("label node sim-2 disk=fast");
        kubectl.run("wait --for=condition=Ready pod/picky --timeout=60s");
        assert_eq!(ask(kubectl, "pod/picky", "{.spec.nodeName}"), "sim-2");
    });
}

/// The mark that a pod is going is seen by its node, which may remove it before the server does: no error for the caller.
#[test]
fn pods_deleted_without_grace_are_gone_whoever_removed_them() {
    with_cluster(|kubectl| {
        kubectl.run("wait --for=condition=Ready nodes --all --timeout=60s");
        let names: Vec<String> = (0..30).map(|pod| format!("p{pod}")).collect();
        let pod = |name| {
            format!(
                "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{containers: [{{name: c, image: nginx}}]}}\n---\n"
            )
        };
        kubectl.file("pods.yaml", &names.iter().map(pod).collect::<String>());
        kubectl.run("create -f pods.yaml");
        kubectl.run("wait --for=condition=Ready pods --all --timeout=60s");
        kubectl.run(&format!("delete pod {} --grace-period=0 --force", names.join(" ")));
    });
}

/// `--cascade` of a Deployment: with its replica sets and pods before it, after it, or without them.
#[test]
fn a_deployment_is_deleted_in_foreground_background_or_orphaning_its_pods() {
    with_cluster(|kubectl| {
        for name in ["foreground", "background", "orphan"] {
            kubectl.run(&format!("create deployment {name} --image=nginx --replicas=2"));
        }
        for name in ["foreground", "background", "orphan"] {
            kubectl.run(&format!("rollout status deployment/{name} --timeout=60s"));
        }
        let left = |kind: &str, name: &str| {
            lines(&kubectl.run(&format!("get {kind} -l app={name} --no-headers --ignore-not-found")))
        };
        let gone = |name: &str| {
            assert_eq!(
                lines(&kubectl.run(&format!("get deployment {name} --no-headers --ignore-not-found"))),
                0
            );
        };

        // kubectl waits until the Deployment is gone; then nothing of it may be left.
        kubectl.run("delete deployment foreground --cascade=foreground --timeout=60s");
        gone("foreground");
        assert_eq!((left("replicasets", "foreground"), left("pods", "foreground")), (0, 0));

        // While its pods take their time, the Deployment is still there and says what it waits for.
        kubectl.run("create deployment slow --image=nginx");
        kubectl.run("rollout status deployment/slow --timeout=60s");
        let pod =
            kubectl.words(&["get", "pods", "-l", "app=slow", "-o", "jsonpath={.items[0].metadata.name}"]);
        let hold = r#"{"metadata":{"finalizers":["example.com/hold"]}}"#;
        kubectl.words(&["patch", "pod", &pod, "--type", "merge", "-p", hold]);
        kubectl.run("delete deployment slow --cascade=foreground --wait=false");
        let waits = ask(kubectl, "deployment/slow", "{.metadata.finalizers} {.metadata.deletionTimestamp}");
        holds(&waits, &["foregroundDeletion", "Z"]);
        assert_eq!(left("replicasets", "slow"), 1, "what the pod belongs to waits for it too");
        let free = r#"{"metadata":{"finalizers":null}}"#;
        kubectl.words(&["patch", "pod", &pod, "--type", "merge", "-p", free]);
        kubectl.run("wait --for=delete deployment/slow --timeout=60s");
        assert_eq!((left("replicasets", "slow"), left("pods", "slow")), (0, 0));

        kubectl.run("delete deployment background --cascade=background --timeout=60s");
        gone("background");
        wait_until("its pods follow", || {
            (left("replicasets", "background"), left("pods", "background")) == (0, 0)
        });

        let pods =
            || kubectl.words(&["get", "pods", "-l", "app=orphan", "-o", "jsonpath={.items[*].metadata.uid}"]);
        let before = pods();
        kubectl.run("delete deployment orphan --cascade=orphan --timeout=60s");
        gone("orphan");
        let sets = ["get", "replicasets", "-l", "app=orphan", "-o"];
        let owners = "jsonpath={.items[*].metadata.ownerReferences}";
        assert_eq!(left("replicasets", "orphan"), 1);
        assert_eq!(kubectl.words(&[&sets[..], &[owners]].concat()), "", "nobody owns it any more");
        assert_eq!(kubectl.words(&[&sets[..], &["jsonpath={.items[*].status.readyReplicas}"]].concat()), "2");
        assert_eq!(pods(), before, "the same pods run on");
    });
}
