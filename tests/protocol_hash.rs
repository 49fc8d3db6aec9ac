//! The protocol number must change when a type that crosses the border to editors does.
#![allow(clippy::pedantic, reason = "style lints are for the product")]
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a failed expectation is a failed test"
)]

use std::fs;
use std::path::Path;

/// FNV-1a over the files of `src/proto`, without comments and white space.
fn hash() -> u64 {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/proto");
    let mut names: Vec<_> = fs::read_dir(folder)
        .expect("src/proto")
        .map(|e| e.expect("a readable folder").path())
        .collect();
    names.sort();
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for path in names {
        let text = fs::read_to_string(&path).expect("a readable file");
        let code: String = text
            .lines()
            .map(|l| l.split("//").next().unwrap_or("").trim())
            .collect::<Vec<_>>()
            .join(" ");
        let code = code.split_whitespace().collect::<String>();
        for byte in code.bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    hash
}

/// Protocol number and hash of the types it stands for. When this fails: raise `PROTOCOL` if the
/// change is visible to a plugin of the version before, and write the new hash here either way.
#[allow(clippy::unreadable_literal, reason = "it is a hash")]
const KNOWN: (u32, u64) = (2, 2597182330614266759);

#[test]
fn types_and_protocol_number_change_together() {
    let now = (mado::proto::PROTOCOL, hash());
    assert_eq!(now, KNOWN, "src/proto has changed; see the comment above KNOWN");
}
