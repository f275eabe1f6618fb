use std::fs;

use super::*;
use crate::{Stream, Writer};

const LOG: &str = "2016-10-20T18:39:20.57606443Z stdout F line1\n\
                   2016-10-20T18:39:21.57606443Z stderr F line2\n\
                   2016-10-20T18:39:22.57606443Z stdout P li\n\
                   2016-10-20T18:39:22.57606443Z stdout F ne3\n";

fn log(text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("0.log");
    fs::write(&path, text).unwrap();
    (folder, path)
}

fn read(text: &str, options: Options) -> Result<String, ReadError> {
    let (_folder, path) = log(text);
    let mut reader = Reader::open(&path, options)?;
    let mut output = BytesMut::new();
    while reader.read(&mut output)? == Progress::More {}
    Ok(String::from_utf8(output.to_vec()).unwrap())
}

fn shown(options: Options) -> String {
    read(LOG, options).unwrap()
}

#[test]
fn options_choose_lines_as_kubelet_does() {
    let all = Options::default;
    assert_eq!(shown(all()), "line1\nline2\nline3\n");
    assert_eq!(shown(Options { tail_lines: Some(0), ..all() }), "");
    assert_eq!(shown(Options { tail_lines: Some(2), ..all() }), "line3\n", "parts count as lines");
    assert_eq!(shown(Options { tail_lines: Some(3), ..all() }), "line2\nline3\n");
    assert_eq!(shown(Options { tail_lines: Some(99), ..all() }), "line1\nline2\nline3\n");
    assert_eq!(shown(Options { limit_bytes: Some(0), ..all() }), "");
    assert_eq!(shown(Options { limit_bytes: Some(8), ..all() }), "line1\nli");
    let since = crate::Timestamp::parse(b"2016-10-20T18:39:21.57606443Z").unwrap().nanos;
    assert_eq!(shown(Options { since_nanos: Some(since), ..all() }), "line2\nline3\n");
    assert_eq!(shown(Options { since_nanos: Some(since + 1), ..all() }), "line3\n");
    assert_eq!(
        shown(Options { timestamps: true, ..all() }),
        "2016-10-20T18:39:20.576064430Z line1\n\
         2016-10-20T18:39:21.576064430Z line2\n\
         2016-10-20T18:39:22.576064430Z line3\n"
    );
    assert_eq!(
        shown(Options { timestamps: true, tail_lines: Some(3), limit_bytes: Some(40), ..all() }),
        "2016-10-20T18:39:21.576064430Z line2\n201"
    );
}

#[test]
fn lines_that_are_left_out_do_not_keep_the_reader_from_coming_back() {
    let text = LOG.repeat(2 * MOST_INPUT / LOG.len());
    let (_folder, path) = log(&text);
    let since_nanos = Some(i128::MAX);
    let mut reader = Reader::open(&path, Options { since_nanos, ..Options::default() }).unwrap();
    let mut output = BytesMut::new();
    assert_eq!(reader.read(&mut output).unwrap(), Progress::More);
    assert!(reader.file.stream_position().unwrap() <= (MOST_INPUT + PIECE) as u64);
    while reader.read(&mut output).unwrap() == Progress::More {}
    assert!(output.is_empty());
}

#[test]
fn log_without_a_last_newline_is_shown_to_its_end() {
    let text = format!("{LOG}2016-10-20T18:39:23.57606443Z stdout F begun");
    assert_eq!(read(&text, Options::default()).unwrap(), "line1\nline2\nline3\nbegun");
}

#[test]
fn lines_that_make_no_sense_are_skipped_but_not_at_the_beginning() {
    let text = format!("{LOG}garbage\n{LOG}");
    assert_eq!(read(&text, Options::default()).unwrap(), "line1\nline2\nline3\n".repeat(2));
    let error = read("garbage\n", Options::default()).unwrap_err();
    assert_eq!(error.to_string(), "failed to get parse function: unsupported log format: \"garbage\\n\"");
    let huge = format!("{LOG}{}\n{LOG}", "x".repeat(MAX_LINE + 100_000));
    assert_eq!(read(&huge, Options::default()).unwrap(), "line1\nline2\nline3\n".repeat(2));
}

#[test]
fn missing_log_is_named() {
    let error = Reader::open(Path::new("/no/such.log"), Options::default()).err().unwrap();
    assert!(
        error.to_string().starts_with("failed to try resolving symlinks in path \"/no/such.log\": "),
        "{error}"
    );
}

#[test]
fn large_log_comes_in_pieces() {
    let line = "2016-10-20T18:39:20.57606443Z stdout F some text of a line\n";
    let (_folder, path) = log(&line.repeat(20_000));
    let mut reader = Reader::open(&path, Options::default()).unwrap();
    let (mut total, mut output) = (0, BytesMut::new());
    loop {
        let progress = reader.read(&mut output).unwrap();
        assert!(output.len() < PIECE + 100);
        total += output.split().len();
        if progress == Progress::Done {
            break;
        }
    }
    assert_eq!(total, 20 * 20_000);
}

/// What a follower has, once it waits.
fn available(reader: &mut Reader) -> String {
    let mut output = BytesMut::new();
    while reader.read(&mut output).unwrap() != Progress::End {}
    String::from_utf8(output.to_vec()).unwrap()
}

#[test]
fn follower_reads_on_across_rotations_without_loss_or_repetition() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("0.log");
    let mut writer = Writer::open(&path).unwrap();
    let mut reader = Reader::open(&path, Options { follow: true, ..Options::default() }).unwrap();
    let (mut seen, mut next) = (String::new(), 0);
    let mut say = |writer: &mut Writer, count: usize| {
        for _ in 0..count {
            writer.write(Stream::Stdout, 0, format!("{next}\n").as_bytes()).unwrap();
            next += 1;
        }
    };
    // Read between, before and after rotations; twice the reader is a rotation behind.
    for round in 0..12_i128 {
        say(&mut writer, 3);
        if round % 3 == 0 {
            seen += &available(&mut reader);
        }
        say(&mut writer, 2);
        if round % 3 < 2 {
            rotate::make_room(&path, 5).unwrap();
            writer.rotate(round * 1_000_000_000).unwrap();
        }
        say(&mut writer, 1);
    }
    seen += &available(&mut reader);
    let expected: String = (0..72).map(|n| format!("{n}\n")).collect();
    assert_eq!(seen, expected);
}

#[test]
fn follower_waits_for_the_end_of_a_line() {
    let (_folder, path) = log("");
    let mut reader = Reader::open(&path, Options { follow: true, ..Options::default() }).unwrap();
    assert_eq!(available(&mut reader), "");
    let append = |text: &str| {
        use std::io::Write;
        fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(text.as_bytes()).unwrap();
    };
    append("2016-10-20T18:39:20Z stdout F be");
    assert_eq!(available(&mut reader), "");
    append("gun\n");
    assert_eq!(available(&mut reader), "begun\n");
}

#[test]
fn follower_between_rename_and_new_file_waits() {
    let (folder, path) = log(LOG);
    let mut reader =
        Reader::open(&path, Options { follow: true, tail_lines: Some(0), ..Options::default() }).unwrap();
    fs::rename(&path, folder.path().join("0.log.20260101-000000")).unwrap();
    assert_eq!(available(&mut reader), "");
    fs::write(&path, LOG).unwrap();
    assert_eq!(available(&mut reader), "line1\nline2\nline3\n");
}
