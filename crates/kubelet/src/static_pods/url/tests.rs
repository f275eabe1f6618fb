//! What a URL says, one answer after the other.

use parking_lot::Mutex;

use super::*;
use crate::probes::testing::{Server, response};

const POD: &str =
    "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  containers: [{name: c, image: busybox}]\n";

fn source(env: &Env, url: String, headers: HeaderMap) -> Source {
    Source::new(env, url, headers, "node-1".to_owned()).unwrap()
}

#[tokio::test]
async fn what_it_says_holds_each_time_it_says_it() {
    let env = Env::machine();
    let said = Arc::new(Mutex::new(""));
    let answer = said.clone();
    let server = Server::start(&env, move |_| response(200, "", *answer.lock())).await;
    let mut source = source(&env, format!("http://127.0.0.1:{}/", server.port), HeaderMap::new());
    for (answer, pods, failures) in [
        (POD, Some(1), 0),
        // Whatever became of the pod meanwhile: it was ignored before, perhaps.
        (POD, Some(1), 0),
        ("", Some(0), 1),
        (POD, Some(1), 0),
        ("kind: Nothing", None, 1),
        ("kind: Nothing", None, 2),
        (POD, Some(1), 0),
    ] {
        *said.lock() = answer;
        let seen = StaticPods::new([URL_SOURCE]);
        seen.set(URL_SOURCE, Vec::new(), 0);
        source = look(&env, source, &seen).await.unwrap();
        assert_eq!(seen.list().len(), pods.unwrap_or(0), "{answer}");
        assert_eq!(source.failures, failures, "{answer}");
    }
}

#[tokio::test]
async fn the_user_of_the_url_is_sent_and_never_shown() {
    let env = Env::machine();
    let server = Server::start(&env, |head| response(200, "", head)).await;
    let url = format!("http://me:p%40ss@127.0.0.1:{}/pods", server.port);
    let sent = |source: Source| async move {
        let head = String::from_utf8(source.fetch().await.unwrap()).unwrap();
        let header = head.lines().find_map(|line| line.strip_prefix("Authorization: "));
        (header.map(str::to_owned), source.url.to_string())
    };
    let shown = format!("http://127.0.0.1:{}/pods", server.port);
    let (header, url_shown) = sent(source(&env, url.clone(), HeaderMap::new())).await;
    assert_eq!((header.as_deref(), &url_shown), (Some("Basic bWU6cEBzcw=="), &shown));
    let own = headers(&[("authorization".to_owned(), "Bearer x".to_owned())]);
    assert_eq!(sent(source(&env, url, own)).await.0.as_deref(), Some("Bearer x"));
    assert_eq!(sent(source(&env, shown, HeaderMap::new())).await.0, None);
}
