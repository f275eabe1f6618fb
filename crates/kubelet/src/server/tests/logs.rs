//! Logs as `kubectl logs` asks for them.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;

use bytes::Bytes;
use cri::{ContainerState, ContainerStatus};
use http::{HeaderMap, Method, StatusCode};
use http_body_util::BodyExt;

use super::fixture::{Fixture, USER, parse, text};

const LINES: &str = "2026-01-01T00:00:01.000000000Z stdout F one\n\
                     2026-01-01T00:00:02.000000000Z stderr F two\n\
                     2026-01-01T00:00:03.000000000Z stdout F three\n";

/// The log of the container `app`.
fn write_log(fixture: &Fixture, state: ContainerState) -> PathBuf {
    let path = fixture.directory.path().join("0.log");
    fs::write(&path, LINES).unwrap();
    set_state(fixture, &path, state);
    path
}

fn set_state(fixture: &Fixture, path: &std::path::Path, state: ContainerState) {
    let log_path = path.to_str().unwrap().to_owned();
    let status = ContainerStatus { id: "c1".to_owned(), state: state as i32, log_path, ..Default::default() };
    fixture.host.statuses.lock().insert("c1".to_owned(), status);
}

/// The pieces that come of its log from the last line on.
async fn follow(fixture: &Fixture) -> impl AsyncFnMut() -> Option<Bytes> {
    let target = "/containerLogs/default/web/app?follow=true&tailLines=1";
    let mut body = fixture.send(Some(USER), Method::GET, target, HeaderMap::new()).await.into_body();
    async move || body.frame().await.map(|frame| frame.unwrap().into_data().unwrap())
}

#[tokio::test]
async fn logs_are_read_as_asked() {
    let fixture = Fixture::start().await;
    write_log(&fixture, ContainerState::Running);
    let get = async |query: &str| fixture.get(&format!("/containerLogs/default/web/app?{query}")).await;
    let ok = |text: &str| (StatusCode::OK, text.to_owned());
    assert_eq!(get("").await, ok("one\ntwo\nthree\n"));
    assert_eq!(get("tailLines=1").await, ok("three\n"));
    assert_eq!(get("stream=All").await, ok("one\ntwo\nthree\n"));
    let off = r#"unable to return the given log stream: "Stderr". Please enable PodLogsQuerySplitStreams feature gate in kubelet"#;
    assert_eq!(get("stream=Stderr").await, (StatusCode::BAD_REQUEST, off.to_owned()));
    assert_eq!(get("limitBytes=5").await, ok("one\nt"));
    assert_eq!(
        get("sinceTime=2026-01-01T00:00:03Z&timestamps=true").await,
        ok("2026-01-01T00:00:03.000000000Z three\n")
    );
    assert_eq!(get("sinceSeconds=1").await, ok(""));
}

#[tokio::test]
async fn what_has_no_log_is_told_in_kubelets_words() {
    let fixture = Fixture::start().await;
    let get = async |path: &str| fixture.get(&format!("/containerLogs/{path}")).await;
    let told = |status: StatusCode, message: &str| (status, message.to_owned());
    assert_eq!(get("default/none/app").await, told(StatusCode::NOT_FOUND, r#"pod "none" does not exist"#));
    assert_eq!(
        get("default/web/none").await,
        told(StatusCode::NOT_FOUND, r#"container "none" not found in pod "web""#)
    );
    assert_eq!(
        get("default/web/later").await,
        told(
            StatusCode::BAD_REQUEST,
            r#"container "later" in pod "web" is waiting to start: image can't be pulled"#
        )
    );
    assert_eq!(
        get("default/web/app?previous=true").await,
        told(StatusCode::BAD_REQUEST, r#"previous terminated container "app" in pod "web" not found"#)
    );
    assert_eq!(
        get("default/web/app?tailLines=x").await,
        told(StatusCode::BAD_REQUEST, r#"{"message": "Unable to decode query."}"#)
    );
    assert_eq!(
        get("default/web/app?limitBytes=0").await,
        told(StatusCode::UNPROCESSABLE_ENTITY, r#"{"message": "Invalid request."}"#)
    );
    // The runtime does not know it: kubelet's answer has begun.
    assert_eq!(
        get("default/web/app").await,
        told(StatusCode::OK, "unable to retrieve container logs for test://c1")
    );
}

#[tokio::test]
async fn a_log_is_followed_until_its_container_ends() {
    let fixture = Fixture::start().await;
    let path = write_log(&fixture, ContainerState::Running);
    let mut next = follow(&fixture).await;
    assert_eq!(next().await.unwrap(), "three\n");
    let mut log = fs::OpenOptions::new().append(true).open(&path).unwrap();
    log.write_all(b"2026-01-01T00:00:04Z stdout F four\n").unwrap();
    assert_eq!(next().await.unwrap(), "four\n");
    // Its last words are read, too.
    log.write_all(b"2026-01-01T00:00:05Z stdout F bye\n").unwrap();
    set_state(&fixture, &path, ContainerState::Exited);
    assert_eq!(next().await.unwrap(), "bye\n");
    assert_eq!(next().await, None);
}

#[tokio::test]
async fn a_log_is_followed_while_the_runtime_is_away() {
    let fixture = Fixture::start().await;
    let path = write_log(&fixture, ContainerState::Running);
    let mut next = follow(&fixture).await;
    assert_eq!(next().await.unwrap(), "three\n");
    fixture.host.away.send_replace(2);
    let mut away = fixture.host.away.subscribe();
    tokio::select! {
        back = away.wait_for(|times| *times == 0) => drop(back.unwrap()),
        ended = next() => panic!("{ended:?}"),
    }
    let mut log = fs::OpenOptions::new().append(true).open(&path).unwrap();
    log.write_all(b"2026-01-01T00:00:04Z stdout F four\n").unwrap();
    assert_eq!(next().await.unwrap(), "four\n");
    // A container that the runtime does not know any more has no end that could be waited for.
    log.write_all(b"2026-01-01T00:00:05Z stdout F five\n").unwrap();
    assert_eq!(next().await.unwrap(), "five\n");
    fixture.host.statuses.lock().clear();
    assert_eq!(next().await.unwrap(), "rpc error: code = NotFound desc = no container \"c1\"");
    assert_eq!(next().await, None);
}

#[tokio::test]
async fn the_log_of_a_crashed_container_is_that_of_its_last_run() {
    let fixture = Fixture::start().await;
    write_log(&fixture, ContainerState::Exited);
    let pod = parse(
        r#"{"metadata":{"name":"web","namespace":"default","uid":"u1"},"spec":{"initContainers":[{"name":"setup"}]},
        "status":{"initContainerStatuses":[{"name":"setup","state":{"waiting":{"reason":"CrashLoopBackOff"}},
        "lastState":{"terminated":{"containerID":"test://c1"}}}]}}"#,
    );
    *fixture.node.pods.lock() = vec![std::sync::Arc::new(pod)];
    let response = fixture.send(
        Some(USER),
        Method::GET,
        "/containerLogs/default/web/setup?follow=true",
        HeaderMap::new(),
    );
    assert_eq!(text(response.await).await, (StatusCode::OK, "one\ntwo\nthree\n".to_owned()));
}
