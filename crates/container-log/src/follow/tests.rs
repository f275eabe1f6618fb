use tokio::sync::mpsc;

use super::*;
use crate::{Options, Stream, Writer, make_room};

struct Following {
    lines: mpsc::Receiver<Bytes>,
    task: tokio::task::JoinHandle<Result<(), ReadError>>,
    running: watch::Sender<bool>,
    seen: String,
}

impl Following {
    fn start(path: &Path, changes: Changes) -> Following {
        let (sender, lines) = mpsc::channel(1);
        let (running, is_running) = watch::channel(true);
        let reader = Reader::open(path, Options { follow: true, ..Options::default() }).unwrap();
        let send = async move |piece| sender.send(piece).await.map_err(io::Error::other);
        let task = env::Env::machine().spawn("follow", follow(reader, changes, is_running, send));
        Following { lines, task, running, seen: String::new() }
    }

    /// Waits until this text has come.
    async fn sees(&mut self, text: &str) {
        while !self.seen.ends_with(text) {
            let piece = self.lines.recv().await.expect("it goes on");
            self.seen.push_str(std::str::from_utf8(&piece).unwrap());
        }
    }
}

fn changes(by_kernel: bool, path: &Path, writer: &Writer) -> Changes {
    if by_kernel { Changes::watch(path).unwrap() } else { Changes::Writer(writer.changes()) }
}

#[tokio::test]
async fn lines_come_as_they_are_written_until_the_container_stops() {
    for by_kernel in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("0.log");
        let mut writer = Writer::open(&path).unwrap();
        let mut following = Following::start(&path, changes(by_kernel, &path, &writer));
        let mut expected = String::new();
        for n in 0..50_i128 {
            let text = format!("{n}\n");
            writer.write(Stream::Stdout, 0, text.as_bytes()).unwrap();
            following.sees(&text).await;
            expected += &text;
            if n % 10 == 5 {
                make_room(&path, 5).unwrap();
                writer.rotate(n * 1_000_000_000).unwrap();
            }
        }
        // The last words, and the end, at once.
        writer.write(Stream::Stdout, 0, b"bye\n").unwrap();
        following.running.send(false).unwrap();
        following.sees("bye\n").await;
        following.task.await.unwrap().unwrap();
        assert_eq!(following.seen, expected + "bye\n");
    }
}

#[tokio::test]
async fn container_that_does_not_run_is_read_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("0.log");
    let mut writer = Writer::open(&path).unwrap();
    writer.write(Stream::Stdout, 0, b"before\n").unwrap();
    let mut following = Following::start(&path, Changes::watch(&path).unwrap());
    following.sees("before\n").await;
    // Whoever knew whether it runs is gone.
    let Following { running, task, .. } = following;
    drop(running);
    task.await.unwrap().unwrap();
}

#[tokio::test]
async fn reader_that_goes_away_ends_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("0.log");
    let mut writer = Writer::open(&path).unwrap();
    let following = Following::start(&path, Changes::watch(&path).unwrap());
    drop(following.lines);
    writer.write(Stream::Stdout, 0, b"unheard\n").unwrap();
    following.task.await.unwrap().unwrap();
}
