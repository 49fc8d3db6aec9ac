//! Performing effects: once each, in order.

use super::{CrashAt, Next, Server};
use crate::core::{Effect, Input};
use crate::host::terminal::Command;
use crate::proto::{AgentId, HopInfo};

impl Server {
    pub(super) async fn perform(&mut self, effects: Vec<Effect>) {
        // After a failed store, no byte of what was to be recorded first may be written.
        let mut store_failed = false;
        // The next write is an Enter whose intent has just been recorded.
        let mut enter_next = false;
        for effect in effects {
            match effect {
                Effect::Reply { client, seq, result } => self.reply(client, seq, result),
                Effect::Publish(event) => {
                    self.note(&event);
                    self.publish(&event);
                }
                Effect::Spawn(spawn) => self.spawn(spawn).await,
                Effect::Kill { agent } => self.kill(agent).await,
                Effect::Write { agent, token, .. } if store_failed => {
                    let input = Input::WriteDropped { agent, token, written: 0 };
                    self.next.push_back(Next::Input(input));
                }
                Effect::Write { agent, token, text } => {
                    let enter = std::mem::take(&mut enter_next);
                    self.write(agent, token, text, enter).await;
                }
                Effect::DropWrites { agent } => {
                    if let Some(handle) = self.agents.get(&agent).and_then(|a| a.handle.clone()) {
                        let _ = handle.drop_writes().await;
                    }
                }
                Effect::Check { agent, token } => self.check(agent, token).await,
                Effect::Extract { agent, token } => self.extract(agent, token),
                Effect::Ask { hop, token, question } => self.ask(hop, token, *question),
                Effect::CancelAsk { hop } => self.cancel_ask(hop),
                Effect::Record { hop, enter } => {
                    if enter == Some(true) && self.options.crash_at == Some(CrashAt::BeforeEnter) {
                        crash();
                    }
                    enter_next = enter == Some(true);
                    store_failed |= !self.record(&hop, enter);
                }
                Effect::HoldSize { agent, hold } => {
                    if let Some(agent) = self.agents.get(&agent) {
                        agent.command(Command::HoldSize(hold)).await;
                    }
                }
                Effect::Forget { agent } => self.forget(agent).await,
            }
        }
    }

    async fn write(&mut self, agent: AgentId, token: u64, text: String, enter: bool) {
        let guard = self.guard.filter(|(a, _)| *a == agent && self.hub.is_gated());
        let guard = guard.map(|(_, check)| check);
        let handle = self.agents.get(&agent).and_then(|a| a.handle.clone());
        let sent = match handle {
            Some(handle) => handle.write(token, text.into_bytes(), guard).await.is_ok(),
            None => false,
        };
        if !sent {
            let input = Input::WriteDropped { agent, token, written: 0 };
            self.next.push_back(Next::Input(input));
        } else if enter && self.options.crash_at == Some(CrashAt::AfterEnter) {
            self.crash_after = Some((agent, token));
        }
    }

    /// A write has reached its terminal.
    pub(super) fn crash_if_due(&self, agent: AgentId, token: u64) {
        if self.crash_after == Some((agent, token)) {
            crash();
        }
    }

    pub(super) async fn check(&mut self, agent: AgentId, token: u64) {
        // An agent without a terminal has no screen to answer with; its exit has been or will be
        // told, which ends whatever waits for the check.
        if let Some(agent) = self.agents.get(&agent) {
            agent.command(Command::Check { token }).await;
        }
    }

    /// `false`: it could not be stored, and the core has been told.
    fn record(&mut self, hop: &HopInfo, enter: Option<bool>) -> bool {
        let wall = self.now().wall;
        match self.store.record(hop, enter, wall) {
            Ok(()) => true,
            Err(e) => {
                tracing::error!("{e}");
                self.next.push_back(Next::Input(Input::StoreFailed { error: e.to_string() }));
                false
            }
        }
    }
}

/// Dies as `kill -9` would have it: nothing is cleaned up.
fn crash() -> ! {
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    std::process::abort()
}
