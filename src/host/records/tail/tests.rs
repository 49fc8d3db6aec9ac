use super::*;
use proptest::prelude::*;
use std::io::{Cursor, Write as _};

fn back(bytes: &[u8]) -> Vec<String> {
    let mut reader = BackwardLines::new(Cursor::new(bytes), u64::MAX).unwrap();
    let mut lines = Vec::new();
    loop {
        match reader.next_line().unwrap() {
            Back::Line(line) => lines.push(line),
            Back::Garbled => lines.push("?".to_owned()),
            Back::Start => return lines,
            Back::TooFar => panic!("no limit was set"),
        }
    }
}

#[test]
fn complete_lines_come_newest_first() {
    assert_eq!(back(b"one\ntwo\n\nfour\n"), ["four", "", "two", "one"]);
    assert_eq!(back(b"one\n"), ["one"]);
    assert!(back(b"").is_empty() && back(b"unfinished").is_empty());
}

#[test]
fn a_line_being_written_is_passed_over() {
    assert_eq!(back("one\n{\"text\":\"日".as_bytes()), ["one"]);
    // Cut within a character.
    let cut = "one\n日本".as_bytes();
    assert_eq!(back(&cut[..cut.len() - 1]), ["one"]);
}

#[test]
fn a_line_that_is_not_utf8_does_not_stop_the_reading() {
    assert_eq!(back(b"one\n\xff\xfe\nthree\n"), ["three", "?", "one"]);
}

#[test]
fn a_line_of_many_blocks_comes_whole() {
    let long = "日".repeat(2_000_000);
    let text = format!("before\n{long}\nafter\n");
    let lines = back(text.as_bytes());
    assert_eq!((lines.len(), lines[0].as_str(), lines[2].as_str()), (3, "after", "before"));
    assert!(lines[1] == long);
}

#[test]
fn reading_stops_at_the_limit() {
    let text = format!("{}\nlast\n", "x".repeat(300_000));
    let mut reader = BackwardLines::new(Cursor::new(text.as_bytes()), 100_000).unwrap();
    assert_eq!(reader.next_line().unwrap(), Back::Line("last".to_owned()));
    assert_eq!(reader.next_line().unwrap(), Back::TooFar);
    assert_eq!(reader.bytes_read(), 100_000);
}

#[test]
fn the_end_of_a_huge_file_costs_one_block() {
    let mut file = tempfile::tempfile().unwrap();
    // 600 MB, of which only the last line takes room.
    file.set_len(600 * 1024 * 1024).unwrap();
    file.seek(SeekFrom::End(0)).unwrap();
    file.write_all(b"\nthe last line\n").unwrap();
    let mut reader = BackwardLines::new(file, MAX_BACK).unwrap();
    assert_eq!(reader.next_line().unwrap(), Back::Line("the last line".to_owned()));
    assert!(reader.bytes_read() <= BLOCK as u64);
    assert_eq!(reader.next_line().unwrap(), Back::TooFar);
    assert!(reader.bytes_read() <= MAX_BACK);
}

struct Site {
    dir: tempfile::TempDir,
}

impl Site {
    fn new() -> Self {
        Site { dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("t.jsonl")
    }

    fn append(&self, bytes: &[u8]) {
        let mut file = File::options().create(true).append(true).open(self.path()).unwrap();
        file.write_all(bytes).unwrap();
    }
}

#[test]
fn a_file_that_appears_later_is_read_from_its_start() {
    let site = Site::new();
    let mut follower = Follower::new(site.path(), false);
    assert_eq!(follower.poll().unwrap(), Batch::default());
    site.append(b"one\ntw");
    assert_eq!(follower.poll().unwrap().lines, ["one"]);
    site.append(b"o\nthree\n");
    assert_eq!(follower.poll().unwrap().lines, ["two", "three"]);
    assert_eq!(follower.poll().unwrap(), Batch::default());
}

#[test]
fn what_was_there_before_is_passed_over_when_asked() {
    let site = Site::new();
    site.append(b"old\nhalf");
    let mut follower = Follower::new(site.path(), true);
    assert!(follower.poll().unwrap().lines.is_empty());
    site.append(b" old\nnew\n");
    assert_eq!(follower.poll().unwrap().lines, ["new"]);
}

#[test]
fn a_cut_or_replaced_file_is_read_from_its_start() {
    let site = Site::new();
    site.append(b"one\ntwo\n");
    let mut follower = Follower::new(site.path(), false);
    assert_eq!(follower.poll().unwrap().lines, ["one", "two"]);
    std::fs::write(site.path(), b"new\n").unwrap();
    let batch = follower.poll().unwrap();
    assert!(batch.restarted);
    assert_eq!(batch.lines, ["new"]);
    // Replaced by a longer one.
    let other = site.dir.path().join("other");
    std::fs::write(&other, b"a\nb\nc\n").unwrap();
    std::fs::rename(&other, site.path()).unwrap();
    let batch = follower.poll().unwrap();
    assert!(batch.restarted);
    assert_eq!(batch.lines, ["a", "b", "c"]);
    std::fs::remove_file(site.path()).unwrap();
    assert_eq!(follower.poll().unwrap(), Batch::default());
}

#[test]
fn a_five_megabyte_line_comes_whole_and_in_bounded_steps() {
    let site = Site::new();
    let line = "日".repeat(5 * 1024 * 1024 / 3);
    site.append(line.as_bytes());
    let mut follower = Follower::new(site.path(), false);
    let mut polls = 0;
    while follower.poll().unwrap().more {
        polls += 1;
    }
    assert!(polls >= 4, "{polls}");
    site.append(b"\n");
    assert!(follower.poll().unwrap().lines == [line]);
}

#[test]
fn a_line_beyond_all_bounds_is_dropped_and_the_next_one_read() {
    let site = Site::new();
    site.append(&vec![b'x'; MAX_LINE + 2 * MAX_POLL]);
    site.append(b"\nnext\n");
    let mut follower = Follower::new(site.path(), false);
    let (mut lines, mut dropped) = (Vec::new(), 0);
    loop {
        let batch = follower.poll().unwrap();
        lines.extend(batch.lines);
        dropped += batch.dropped;
        assert!(follower.carry.len() <= MAX_LINE);
        if !batch.more {
            break;
        }
    }
    assert_eq!((lines.as_slice(), dropped), (["next".to_owned()].as_slice(), 1));
}

/// Lines of any characters but newlines.
fn some_lines() -> impl Strategy<Value = Vec<String>> {
    proptest::collection::vec("[a-z日本🙂é\u{300} {}\"]{0,40}", 0..20)
}

proptest! {
    #[test]
    fn lines_do_not_depend_on_where_writes_are_cut(
        lines in some_lines(),
        cuts in proptest::collection::vec(0usize..2000, 0..8),
    ) {
        let bytes: Vec<u8> = lines.iter().flat_map(|l| format!("{l}\n").into_bytes()).collect();
        let mut cuts: Vec<usize> = cuts.into_iter().map(|c| c.min(bytes.len())).collect();
        cuts.push(bytes.len());
        cuts.sort_unstable();
        let site = Site::new();
        let mut follower = Follower::new(site.path(), false);
        let (mut got, mut done) = (Vec::new(), 0);
        for cut in cuts {
            site.append(&bytes[done..cut]);
            done = cut;
            let batch = follower.poll().unwrap();
            prop_assert!(!batch.restarted && batch.dropped == 0);
            got.extend(batch.lines);
        }
        prop_assert_eq!(got, lines);
    }

    #[test]
    fn reading_back_gives_the_same_lines_at_every_cut(lines in some_lines(), cut in 0usize..2000) {
        let bytes: Vec<u8> = lines.iter().flat_map(|l| format!("{l}\n").into_bytes()).collect();
        let bytes = &bytes[..cut.min(bytes.len())];
        let whole = memchr::memchr_iter(b'\n', bytes).count();
        let mut got = back(bytes);
        got.reverse();
        prop_assert_eq!(&got[..], &lines[..whole]);
    }
}
