use super::*;

fn written(write: impl FnOnce(&mut Writer)) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pod/c/0.log");
    let mut writer = Writer::open(&path).unwrap();
    write(&mut writer);
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(writer.size(), text.len() as u64);
    text
}

#[test]
fn lines_are_written_when_complete_each_stream_for_itself() {
    let text = written(|writer| {
        writer.write(Stream::Stdout, 0, b"one\ntw").unwrap();
        writer.write(Stream::Stderr, 1, b"error\n").unwrap();
        writer.write(Stream::Stdout, 2, b"o\n\nthree").unwrap();
        writer.end(Stream::Stdout, 3).unwrap();
        writer.end(Stream::Stderr, 4).unwrap();
    });
    assert_eq!(
        text,
        "1970-01-01T00:00:00.000000000Z stdout F one\n\
         1970-01-01T00:00:00.000000001Z stderr F error\n\
         1970-01-01T00:00:00.000000002Z stdout F two\n\
         1970-01-01T00:00:00.000000002Z stdout F \n\
         1970-01-01T00:00:00.000000003Z stdout P three\n"
    );
}

#[test]
fn long_lines_are_written_in_parts() {
    for pieces in [1, 1000, 100_000] {
        let long = [vec![b'x'; MAX_LINE * 2 + 5], vec![b'\n'], vec![b'y'; MAX_LINE], vec![b'\n']].concat();
        let text = written(|writer| {
            for piece in long.chunks(pieces) {
                writer.write(Stream::Stdout, 0, piece).unwrap();
            }
        });
        let parts: Vec<(&str, usize)> = text.lines().map(|line| (&line[38..39], line.len() - 40)).collect();
        assert_eq!(parts, [("P", MAX_LINE), ("P", MAX_LINE), ("F", 5), ("F", MAX_LINE)]);
    }
}

#[test]
fn log_is_continued_after_a_restart_of_its_writer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("0.log");
    Writer::open(&path).unwrap().write(Stream::Stdout, 0, b"a\n").unwrap();
    let mut writer = Writer::open(&path).unwrap();
    assert!(writer.size() > 0);
    writer.write(Stream::Stdout, 0, b"b\n").unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 2);
}
