//! The frames between `mado attach` and the host.
//!
//! A frame is one byte that names its kind, four bytes of payload length (big endian) and the
//! payload. The kinds below and the meaning of their payloads never change, so that a client and
//! a host of different versions can always attach and stop; what is new comes as a new kind, which the
//! other side skips, or as a new field in a JSON payload, which it ignores.

use serde::{Deserialize, Serialize};

/// Version of what a client may expect beyond the frames themselves; told in [`Hello`] and
/// [`Welcome`], refused by nobody.
pub const VERSION: u32 = 1;

/// Longest payload that is accepted, in bytes. Bulk goes in many frames.
pub const MAX_PAYLOAD: usize = 1 << 20;

/// Length of a frame's head, in bytes.
pub const HEAD: usize = 5;

/// First frame of a client that shows an agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The client's [`VERSION`].
    pub version: u32,
    /// The agent's name or id; empty when the project has only one.
    #[serde(default)]
    pub agent: String,
    /// The project the name is looked up in; empty means all.
    #[serde(default)]
    pub project: String,
    /// Height of the client's terminal in rows.
    pub rows: u16,
    /// Width in cells.
    pub cols: u16,
    /// Foreground and background as `#rrggbb`, if the client knows them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub colours: Option<(String, String)>,
    /// Show only: input is not sent on and the size is never claimed.
    #[serde(default)]
    pub read_only: bool,
}

/// The host's answer to a [`Hello`] that worked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// The host's [`VERSION`].
    pub version: u32,
    /// The agent's full name.
    #[serde(default)]
    pub agent: String,
}

/// The host's answer to what it will not do. The connection ends after it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// One line, with the remedy.
    pub message: String,
}

/// The agent's program has ended. The connection ends after it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// Its exit code; `None` when a signal ended it.
    #[serde(default)]
    pub code: Option<i32>,
    /// The signal's number.
    #[serde(default)]
    pub signal: Option<i32>,
    /// One line for a person, empty for a plain end.
    #[serde(default)]
    pub text: String,
}

/// Asks the host to end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stop {
    /// Also when agents are running.
    #[serde(default)]
    pub force: bool,
}

/// One frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// Client to host: show me an agent.
    Hello(Hello),
    /// Client to host: bytes that the client's terminal sent.
    Input(Vec<u8>),
    /// Client to host: the client's terminal has this many rows and columns now.
    Resize(u16, u16),
    /// Client to host: the client goes; the agent stays.
    Detach,
    /// Client to host, instead of a hello: end.
    Stop(Stop),
    /// Host to client: you are attached.
    Welcome(Welcome),
    /// Host to client: no.
    Refused(Refused),
    /// Host to client: bytes for the client's terminal.
    Output(Vec<u8>),
    /// Host to client: the agent has ended.
    Exit(Exit),
    /// A kind of frame that a later version sends.
    Unknown(u8),
}

/// The other side does not speak these frames.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// A frame is longer than [`MAX_PAYLOAD`].
    #[error("a frame of {0} bytes is longer than the {MAX_PAYLOAD} that are allowed")]
    TooLong(usize),
    /// A payload is not what its kind says.
    #[error("a frame of kind {kind:?} cannot be read: {why}")]
    Malformed {
        /// The frame's kind.
        kind: char,
        /// What is wrong.
        why: String,
    },
}

impl Frame {
    /// The byte that names the frame's kind.
    fn kind(&self) -> u8 {
        match self {
            Frame::Hello(_) => b'h',
            Frame::Input(_) => b'i',
            Frame::Resize(..) => b'r',
            Frame::Detach => b'd',
            Frame::Stop(_) => b's',
            Frame::Welcome(_) => b'w',
            Frame::Refused(_) => b'n',
            Frame::Output(_) => b'o',
            Frame::Exit(_) => b'x',
            Frame::Unknown(kind) => *kind,
        }
    }

    /// Appends the frame's bytes to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&head(self.kind(), 0));
        match self {
            Frame::Hello(v) => json(v, out),
            Frame::Stop(v) => json(v, out),
            Frame::Welcome(v) => json(v, out),
            Frame::Refused(v) => json(v, out),
            Frame::Exit(v) => json(v, out),
            Frame::Input(bytes) | Frame::Output(bytes) => out.extend_from_slice(bytes),
            Frame::Resize(rows, cols) => {
                out.extend_from_slice(&rows.to_be_bytes());
                out.extend_from_slice(&cols.to_be_bytes());
            }
            Frame::Detach | Frame::Unknown(_) => {}
        }
        let head = head(self.kind(), out.len() - start - HEAD);
        out[start..start + HEAD].copy_from_slice(&head);
    }

    fn decode(kind: u8, payload: &[u8]) -> Result<Frame, FrameError> {
        Ok(match kind {
            b'h' => Frame::Hello(from_json(kind, payload)?),
            b'i' => Frame::Input(payload.to_vec()),
            b'r' => match payload {
                // Longer payloads may come from later versions; the size is always first.
                [r1, r0, c1, c0, ..] => {
                    Frame::Resize(u16::from_be_bytes([*r1, *r0]), u16::from_be_bytes([*c1, *c0]))
                }
                _ => {
                    return Err(FrameError::Malformed {
                        kind: 'r',
                        why: format!("{} bytes instead of 4", payload.len()),
                    });
                }
            },
            b'd' => Frame::Detach,
            b's' => Frame::Stop(from_json(kind, payload)?),
            b'w' => Frame::Welcome(from_json(kind, payload)?),
            b'n' => Frame::Refused(from_json(kind, payload)?),
            b'o' => Frame::Output(payload.to_vec()),
            b'x' => Frame::Exit(from_json(kind, payload)?),
            other => Frame::Unknown(other),
        })
    }
}

/// The head of an output frame of `len` bytes, for senders that do not copy the bytes.
#[must_use]
pub fn output_head(len: usize) -> [u8; HEAD] {
    head(b'o', len)
}

fn head(kind: u8, len: usize) -> [u8; HEAD] {
    let [a, b, c, d] = (len as u32).to_be_bytes();
    [kind, a, b, c, d]
}

fn json<T: Serialize>(value: &T, out: &mut Vec<u8>) {
    // Plain structs of strings and numbers cannot fail to serialise into memory.
    if let Ok(bytes) = serde_json::to_vec(value) {
        out.extend_from_slice(&bytes);
    }
}

fn from_json<'a, T: Deserialize<'a>>(kind: u8, payload: &'a [u8]) -> Result<T, FrameError> {
    serde_json::from_slice(payload)
        .map_err(|e| FrameError::Malformed { kind: kind.into(), why: e.to_string() })
}

/// Cuts a stream of bytes into frames.
#[derive(Debug, Default)]
pub struct Decoder {
    buf: Vec<u8>,
    start: usize,
}

impl Decoder {
    /// Adds what was read.
    pub fn feed(&mut self, bytes: &[u8]) {
        if self.start > 0 {
            self.buf.drain(..self.start);
            self.start = 0;
        }
        self.buf.extend_from_slice(bytes);
    }

    /// The next whole frame, if there is one.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        let pending = &self.buf[self.start..];
        let Some((&[kind, a, b, c, d], rest)) = pending.split_first_chunk::<HEAD>() else {
            return Ok(None);
        };
        let len = u32::from_be_bytes([a, b, c, d]) as usize;
        if len > MAX_PAYLOAD {
            return Err(FrameError::TooLong(len));
        }
        let Some(payload) = rest.get(..len) else { return Ok(None) };
        let frame = Frame::decode(kind, payload)?;
        self.start += HEAD + len;
        Ok(Some(frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Frame> {
        vec![
            Frame::Hello(Hello {
                version: 1,
                agent: "claude".into(),
                project: "/p".into(),
                rows: 24,
                cols: 80,
                colours: Some(("#ffffff".into(), "#000000".into())),
                read_only: false,
            }),
            Frame::Input(b"\x1b[A".to_vec()),
            Frame::Resize(50, 200),
            Frame::Detach,
            Frame::Stop(Stop { force: true }),
            Frame::Welcome(Welcome { version: 1, agent: "claude".into() }),
            Frame::Refused(Refused { message: "no agent".into() }),
            Frame::Output(vec![0, 255, 27]),
            Frame::Exit(Exit { code: Some(3), signal: None, text: String::new() }),
            Frame::Unknown(b'z'),
        ]
    }

    #[test]
    fn every_frame_survives_a_stream_cut_at_every_byte() {
        let mut bytes = Vec::new();
        for frame in all() {
            frame.encode(&mut bytes);
        }
        let mut decoder = Decoder::default();
        let mut got = Vec::new();
        for byte in bytes {
            decoder.feed(&[byte]);
            while let Some(frame) = decoder.next_frame().expect("frames are well formed") {
                got.push(frame);
            }
        }
        assert_eq!(got, all());
    }

    #[test]
    fn the_bytes_of_attach_and_stop_are_fixed() {
        let mut out = Vec::new();
        Frame::Resize(24, 80).encode(&mut out);
        Frame::Detach.encode(&mut out);
        Frame::Stop(Stop { force: false }).encode(&mut out);
        Frame::Input(b"x".to_vec()).encode(&mut out);
        assert_eq!(
            out,
            b"r\0\0\0\x04\0\x18\0\x50d\0\0\0\0s\0\0\0\x0f{\"force\":false}i\0\0\0\x01x"
        );
        let mut decoder = Decoder::default();
        decoder.feed(b"h\0\0\0\x2c{\"version\":9,\"rows\":1,\"cols\":2,\"later\":true}");
        let Ok(Some(Frame::Hello(hello))) = decoder.next_frame() else { panic!("hello expected") };
        assert_eq!((hello.version, hello.rows, hello.cols), (9, 1, 2));
        assert_eq!(hello.agent, "");
    }

    #[test]
    fn a_frame_that_is_too_long_is_refused_before_it_is_read() {
        let mut decoder = Decoder::default();
        decoder.feed(b"i\xff\xff\xff\xff");
        assert_eq!(decoder.next_frame(), Err(FrameError::TooLong(u32::MAX as usize)));
    }

    #[test]
    fn a_malformed_payload_names_its_kind() {
        let mut decoder = Decoder::default();
        decoder.feed(b"h\0\0\0\x01{");
        let error = decoder.next_frame().expect_err("not JSON").to_string();
        assert!(error.contains("'h'"), "{error}");
    }
}
