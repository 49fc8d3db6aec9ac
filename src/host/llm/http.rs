//! One request to a service and what comes back, as a stream of events or as one document.
//!
//! Answers are asked for as streams, so that a service which has hung can be told from one that
//! thinks. Nothing is redirected: a key must not go where the user did not send it.

use super::{Again, Call, Collected, Failure, SILENCE, key, one_line};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Response, StatusCode, Url};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use std::net::IpAddr;
use std::sync::Once;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long it may take to reach a service.
const CONNECT: Duration = Duration::from_secs(10);
/// The most that is read of an answer, in bytes.
const MOST: usize = 8 << 20;
/// The most that is read of an error, in bytes.
const MOST_OF_ERROR: usize = 64 << 10;

/// A request in the form of its service, and how to read what comes back.
pub(super) struct Wire {
    pub url: String,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
    /// Takes an event of a stream. An error names what was expected.
    pub event: fn(&Value, &mut Collected) -> Result<(), Odd>,
    /// Takes an answer that is one document.
    pub document: fn(&Value, &mut Collected) -> Result<(), Odd>,
    /// What the answer should be, for messages.
    pub expected: &'static str,
}

/// What is wrong with an answer that came with status 200.
pub(super) enum Odd {
    /// It has not the form that it should have.
    Nonsense,
    /// It is an error, in the service's words.
    Error(String),
}

/// A header that holds a key.
pub(super) fn secret_header(
    call: &Call,
    prefix: &str,
    secret: &SecretString,
) -> Result<HeaderValue, Failure> {
    let text = SecretString::from(format!("{prefix}{}", secret.expose_secret()));
    let mut value = HeaderValue::from_str(text.expose_secret()).map_err(|_| {
        let from = key::origin(&call.spec);
        let text = format!(
            "{}: its key holds characters that no header can hold; it is {from}",
            call.name
        );
        Failure::new("no_key", text)
    })?;
    value.set_sensitive(true);
    Ok(value)
}

/// The headers of the provider's own configuration.
pub(super) fn own_headers(call: &Call, headers: &mut HeaderMap) -> Result<(), Failure> {
    for (name, value) in &call.spec.headers {
        let bad =
            || Failure::new("bad_header", format!("{}: header {name:?} is not valid", call.name));
        let mut value = HeaderValue::from_str(value).map_err(|_| bad())?;
        value.set_sensitive(true);
        headers.insert(HeaderName::try_from(name.as_str()).map_err(|_| bad())?, value);
    }
    Ok(())
}

/// Whether a URL's host is this machine.
pub(super) fn is_local(url: &Url) -> bool {
    let host = url.host_str().unwrap_or("").trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

fn client(url: &Url) -> Result<reqwest::Client, reqwest::Error> {
    static CRYPTO: Once = Once::new();
    CRYPTO.call_once(|| {
        // Somebody else's choice, if there is one, does as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
    let mut builder = reqwest::Client::builder()
        .connect_timeout(CONNECT)
        .redirect(reqwest::redirect::Policy::none())
        .pool_max_idle_per_host(0)
        .user_agent(concat!("mado/", env!("CARGO_PKG_VERSION")));
    if url.scheme() == "http" {
        // The system's certificates need not be there for a service on this machine.
        builder = builder.tls_certs_only([]);
    }
    if is_local(url) {
        builder = builder.no_proxy();
    }
    builder.build()
}

/// Sends a request and reads the answer to its end.
pub(super) async fn ask(call: &Call, wire: Wire) -> Result<Collected, Failure> {
    let name = &call.name;
    let silence = call.spec.silence_ms.map_or(SILENCE, Duration::from_millis);
    let silent = || {
        let secs = silence.as_secs_f32();
        Failure::new("silence", format!("{name} has said nothing for {secs} s (silence_ms)"))
    };
    let bad_url =
        |e: String| Failure::new("bad_url", format!("{name}: {} is no URL: {e}", wire.url));
    let url = Url::parse(&wire.url).map_err(|e| bad_url(e.to_string()))?;
    let client = client(&url).map_err(|e| {
        Failure::new("no_tls", format!("{name}: no secure connection can be made: {}", causes(&e)))
    })?;
    let request = client.post(url).headers(wire.headers.clone()).body(wire.body.clone());
    let sent = tokio::time::timeout(silence, request.send()).await.map_err(|_| silent())?;
    let response = sent.map_err(|e| {
        let text = format!("{name} cannot be reached at {}: {}", wire.url, causes(&e));
        Failure::new("no_connection", text).again(Again::Soon)
    })?;
    if response.status() != StatusCode::OK {
        return Err(refused(call, &wire, response, silence).await);
    }
    let kind = response.headers().get(reqwest::header::CONTENT_TYPE);
    let streams = kind.and_then(|k| k.to_str().ok()).is_some_and(|k| k.contains("event-stream"));
    let mut reading =
        Reading { call, wire: &wire, into: Collected::default(), line: Vec::new(), size: 0 };
    let mut response = response;
    let mut document = Vec::new();
    loop {
        let chunk = tokio::time::timeout(silence, response.chunk()).await.map_err(|_| silent())?;
        let chunk = match chunk {
            Ok(Some(chunk)) => chunk,
            Ok(None) => break,
            // What is missing shows in what was collected.
            Err(_) if streams => break,
            Err(e) => {
                let text = format!("the answer of {name} broke off: {}", causes(&e));
                return Err(Failure::new("cut_off", text));
            }
        };
        reading.size += chunk.len();
        if reading.size > MOST {
            let text = format!("the answer of {name} is longer than {} MiB", MOST >> 20);
            return Err(Failure::new("too_long", text));
        }
        if streams {
            reading.bytes(&chunk)?;
        } else {
            document.extend_from_slice(&chunk);
        }
    }
    if !streams {
        return reading.document(&document);
    }
    reading.end()?;
    Ok(reading.into)
}

/// A stream that is being read: `data: {…}` lines (server-sent events).
struct Reading<'a> {
    call: &'a Call,
    wire: &'a Wire,
    into: Collected,
    /// The line that has not ended yet.
    line: Vec<u8>,
    size: usize,
}

impl Reading<'_> {
    fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        for piece in bytes.split_inclusive(|b| *b == b'\n') {
            self.line.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                self.end()?;
            }
        }
        Ok(())
    }

    /// The line has ended.
    fn end(&mut self) -> Result<(), Failure> {
        let line = std::mem::take(&mut self.line);
        let line = String::from_utf8_lossy(&line);
        let Some(data) = line.trim_end().strip_prefix("data:") else { return Ok(()) };
        let data = data.trim();
        if data == "[DONE]" {
            self.into.ended = true;
            return Ok(());
        }
        let value = serde_json::from_str(data);
        let value: Value = match value {
            Ok(value) => value,
            // The line may have no end because the answer has none.
            Err(_) if !line.ends_with('\n') => return Ok(()),
            Err(_) => return Err(self.nonsense(data)),
        };
        (self.wire.event)(&value, &mut self.into).map_err(|odd| self.odd(odd, data))
    }

    fn document(mut self, bytes: &[u8]) -> Result<Collected, Failure> {
        let Ok(value) = serde_json::from_slice::<Value>(bytes) else {
            return Err(self.nonsense(&String::from_utf8_lossy(bytes)));
        };
        if let Err(odd) = (self.wire.document)(&value, &mut self.into) {
            return Err(self.odd(odd, &String::from_utf8_lossy(bytes)));
        }
        self.into.ended = true;
        Ok(self.into)
    }

    fn odd(&self, odd: Odd, said: &str) -> Failure {
        let name = &self.call.name;
        match odd {
            Odd::Nonsense => self.nonsense(said),
            Odd::Error(text) => {
                let text =
                    format!("{name} broke its answer off with an error: {}", one_line(&text));
                let spent = self.into.usage;
                let usage = (spent != crate::proto::Usage::default()).then_some(spent);
                Failure { usage, ..Failure::new("server_error", text) }
            }
        }
    }

    fn nonsense(&self, said: &str) -> Failure {
        let (name, url) = (&self.call.name, &self.wire.url);
        let said = match one_line(said) {
            said if said.is_empty() => "nothing".to_owned(),
            said => said,
        };
        let expected = self.wire.expected;
        let text = format!("{name} did not answer with {expected} at {url}; it said: {said}");
        Failure::new("bad_answer", text)
    }
}

/// What a status other than 200 means.
async fn refused(call: &Call, wire: &Wire, mut response: Response, silence: Duration) -> Failure {
    let status = response.status();
    let after = response.headers().get(reqwest::header::RETRY_AFTER);
    let after = after.and_then(|v| v.to_str().ok()).and_then(|v| retry_after(v, SystemTime::now()));
    let mut body = Vec::new();
    while body.len() < MOST_OF_ERROR {
        match tokio::time::timeout(silence, response.chunk()).await {
            Ok(Ok(Some(chunk))) => body.extend_from_slice(&chunk),
            _ => break,
        }
    }
    let said = said_of(&String::from_utf8_lossy(&body));
    let said = if said.is_empty() { String::new() } else { format!(": {said}") };
    let (name, url) = (&call.name, &wire.url);
    let number = status.as_u16();
    match number {
        401 | 403 => {
            let from = key::origin(&call.spec);
            let text =
                format!("{name} refuses the key (HTTP {number}){said}; it comes from: {from}");
            Failure::new("unauthorized", text)
        }
        404 => {
            let model = call.spec.model_name();
            let text = format!(
                "{name} knows neither {url} nor, perhaps, the model {model} (HTTP 404){said}; look at base_url and model"
            );
            Failure::new("not_found", text)
        }
        429 => Failure::new("rate_limited", format!("{name} is asked too often (HTTP 429){said}"))
            .again(after.map_or(Again::Soon, Again::After)),
        500..=599 => Failure::new("server_error", format!("{name} fails (HTTP {number}){said}"))
            .again(after.map_or(Again::Soon, Again::After)),
        300..=399 => {
            let to = response.headers().get(reqwest::header::LOCATION);
            let to = to.and_then(|v| v.to_str().ok()).map(one_line).unwrap_or_default();
            let text = format!("{name} redirects {url} to {to:?}; correct base_url");
            Failure::new("not_found", text)
        }
        _ => {
            Failure::new("bad_request", format!("{name} refuses the request (HTTP {number}){said}"))
        }
    }
}

/// The words of an error: `error.message` of a JSON document, else its beginning.
fn said_of(body: &str) -> String {
    let value: Option<Value> = serde_json::from_str(body).ok();
    let error = value.as_ref().and_then(|v| v.get("error"));
    let message = error.and_then(|e| e.get("message").unwrap_or(e).as_str());
    one_line(message.unwrap_or(body))
}

/// The chain of an error's causes without the URL, which the message names already.
fn causes(error: &reqwest::Error) -> String {
    let mut deepest: &dyn std::error::Error = error;
    while let Some(cause) = deepest.source() {
        deepest = cause;
    }
    one_line(&deepest.to_string())
}

/// `Retry-After`: seconds, or a date (`Sun, 06 Nov 1994 08:49:37 GMT`, RFC 9110).
fn retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let mut parts = value.split(',').nth(1)?.split_whitespace();
    let day: u64 = parts.next()?.parse().ok()?;
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let month = MONTHS.find(parts.next()?)? as u64 / 3 + 1;
    let year: u64 = parts.next()?.parse().ok()?;
    let time: Vec<u64> = parts.next()?.split(':').filter_map(|p| p.parse().ok()).collect();
    let [hour, minute, second] = time[..] else { return None };
    if !(1970..10_000).contains(&year) || !(1..=31).contains(&day) {
        return None;
    }
    // Days since 1970 in the Gregorian calendar, counted in years that begin in March.
    let (y, m) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1 - 719_468;
    let at = UNIX_EPOCH + Duration::from_secs(days * 86_400 + hour * 3600 + minute * 60 + second);
    Some(at.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_read_in_both_forms() {
        let at = UNIX_EPOCH + Duration::from_secs(784_111_777);
        let wait = |v: &str| retry_after(v, at - Duration::from_secs(5));
        assert_eq!(wait("7"), Some(Duration::from_secs(7)));
        assert_eq!(wait("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::from_secs(5)));
        assert_eq!(wait("Sat, 01 Jan 1994 00:00:00 GMT"), Some(Duration::ZERO));
        for odd in ["", "soon", "Sun, 06 Foo 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49", "-3"] {
            assert_eq!(wait(odd), None, "{odd}");
        }
    }

    #[test]
    fn this_machine_is_known_by_all_its_names() {
        let local = |u: &str| is_local(&Url::parse(u).unwrap());
        assert!(
            local("http://127.0.0.1:1/v1") && local("http://[::1]:1") && local("http://localhost")
        );
        assert!(!local("http://192.168.0.1") && !local("http://localhost.example.org"));
    }
}
