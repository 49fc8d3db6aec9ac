//! Agents coming and going, and what a former host left behind.

use super::agent::{Agent, LastAnswer, Outcome};
use super::commands::resume_command;
use super::hop::Hop;
use super::hub::Hub;
use super::io::{Effect, RestoredHop};
use super::route::Chain;
use crate::core::dialect::{Answer, NoAnswer};
use crate::proto::{
    AgentId, AnswerReply, ClientId, ErrorInfo, Event, HopId, HopState, Level, Reply, RouteId, Rung,
};

impl Hub {
    pub(super) fn spawned(&mut self, id: AgentId, pid: u32) {
        let Some(agent) = self.agents.get_mut(&id) else { return };
        agent.pid = pid;
        let info = agent.info();
        if let Some((client, seq)) = self.opening.remove(&id) {
            self.reply(client, seq, Ok(Reply::Agent(info)));
        }
    }

    pub(super) fn spawn_failed(&mut self, id: AgentId, error: ErrorInfo) {
        if let Some((client, seq)) = self.opening.remove(&id) {
            self.agents.remove(&id);
            self.reply(client, seq, Err(error));
            return;
        }
        // A restart that did not work: the ended agent stays in the listings.
        if let Some(agent) = self.agents.get_mut(&id) {
            agent.exit = agent.exit.or(Some(127));
            let (project, name) = (agent.project.clone(), agent.name.clone());
            let queue: Vec<HopId> = agent.queue.drain(..).collect();
            for hop in queue {
                let text = format!("{name} could not be started again");
                self.finish(hop, HopState::Failed, "target_exited", &text);
            }
            for route in self.routes_of(id) {
                if let Some(r) = self.routes.get_mut(&route) {
                    let text = format!("{name} has ended; :Mado restart {name}");
                    r.stopped.get_or_insert(("agent_exited".to_owned(), text));
                }
            }
            let text = format!("{name} could not be started again: {error}");
            self.notice(project, Level::Error, "spawn_failed", &format!("agent:{id}"), text);
        }
    }

    pub(super) fn exited(&mut self, id: AgentId, code: Option<i32>, signal: Option<i32>) {
        let Some(agent) = self.agents.get_mut(&id) else { return };
        let exit = code.or(signal.map(|s| 128 + s)).unwrap_or(1);
        agent.exit = Some(exit);
        let (name, project) = (agent.name.clone(), agent.project.clone());
        let (closing, restarting) = (agent.closing, agent.restarting);
        // A restarted program has an empty composer: what was being typed is typed again.
        let again = restarting && agent.delivery.as_ref().is_some_and(|d| !d.entered());
        if again && let Some(d) = agent.delivery.take() {
            agent.queue.push_front(d.hop);
            self.out.push(Effect::HoldSize { agent: id, hold: false });
            if let Some(h) = self.hops.get_mut(&d.hop) {
                h.info.state = HopState::Queued;
            }
        }
        let delivery = agent.delivery.take();
        let queue: Vec<HopId> = agent.queue.drain(..).collect();
        let open = agent.turn.as_mut();
        if let Some(turn) = open {
            turn.broken.get_or_insert(Outcome::Failed("it ended in the turn".to_owned()));
        }
        self.give_up_extraction(id, "its program ended before the answer was in the record");
        if let Some(d) = delivery {
            self.out.push(Effect::HoldSize { agent: id, hold: false });
            let (code, text) = if d.entered() {
                (
                    "target_exited",
                    format!("{name} ended after Enter; whether it took the prompt is not known"),
                )
            } else {
                ("target_exited", format!("{name} ended while the text was being typed"))
            };
            self.finish(d.hop, HopState::Failed, code, &text);
        }
        if self.agents.get(&id).is_some_and(|a| a.turn.is_some()) {
            self.end_turn(id);
        }
        if !restarting {
            let waiting = self.routes.values().filter(|r| r.target == id);
            let waiting: Vec<HopId> = waiting.filter_map(|r| r.waiting).collect();
            for hop in queue.into_iter().chain(waiting) {
                self.finish(hop, HopState::Failed, "target_exited", &format!("{name} has ended"));
            }
        } else if let Some(agent) = self.agents.get_mut(&id) {
            agent.queue = queue.into_iter().collect();
        }
        if restarting {
            self.respawn(id);
        } else if closing {
            self.forget(id);
        } else {
            self.exit_seen(id, exit, project, &name);
        }
    }

    /// An agent ended by itself: it stays in the listings until it is closed or restarted; its
    /// routes have nothing left to do.
    fn exit_seen(&mut self, id: AgentId, exit: i32, project: String, name: &str) {
        for route in self.routes_of(id) {
            if let Some(r) = self.routes.get_mut(&route) {
                r.armed = None;
                let text =
                    format!("{name} has ended; :Mado restart {name}, then :Mado resume {route}");
                r.stopped.get_or_insert(("agent_exited".to_owned(), text));
            }
        }
        if exit != 0 {
            let text =
                format!("{name} ended with exit code {exit}; :Mado restart {name} starts it again");
            self.notice(project, Level::Warn, "exited", &format!("agent:{id}"), text);
        }
    }

    fn routes_of(&self, id: AgentId) -> Vec<RouteId> {
        self.routes.values().filter(|r| r.source == id || r.target == id).map(|r| r.id).collect()
    }

    /// Starts an ended agent again under its name, in its session where its program can resume.
    pub(super) fn respawn(&mut self, id: AgentId) {
        let (now, wall) = (self.now.mono, self.now.wall);
        let Some(old) = self.agents.get_mut(&id) else { return };
        let mut spawn = old.spawn.clone();
        spawn.resume.clone_from(&old.session);
        let mut agent = Agent::new(spawn.clone(), now, wall);
        agent.queue = std::mem::take(&mut old.queue);
        agent.viewers = old.viewers;
        agent.session = old.session.take();
        agent.turns = old.turns;
        agent.chain = old.chain;
        agent.answer = old.answer.take();
        agent.old_turns = std::mem::take(&mut old.old_turns);
        agent.published = old.published.take();
        self.agents.insert(id, agent);
        for route in self.routes_of(id) {
            if let Some(r) = self.routes.get_mut(&route)
                && r.stopped.as_ref().is_some_and(|(code, _)| code == "agent_exited")
            {
                r.stopped = None;
            }
        }
        self.out.push(Effect::Spawn(Box::new(spawn)));
    }

    pub(super) fn forget(&mut self, id: AgentId) {
        for route in self.routes_of(id) {
            self.stop_hops_of(route, "its route is gone: an agent of it was closed");
        }
        for route in self.routes_of(id) {
            self.remove_route(route);
        }
        if let Some(agent) = self.agents.remove(&id) {
            self.out.push(Effect::Forget { agent: id });
            self.out.push(Effect::Publish(Event::AgentGone {
                id,
                name: agent.name,
                project: agent.project,
            }));
        }
    }

    /// `answer`: the last answer, read from the record now where there is one and nothing is known.
    pub(super) fn answer(
        &mut self,
        client: ClientId,
        seq: u64,
        project: &str,
        agent: &str,
    ) -> Result<Option<Reply>, ErrorInfo> {
        let id = self.agent(project, agent)?;
        let a = &self.agents[&id];
        if let Some(answer) = a.answer.clone().filter(|_| a.extract.is_none()) {
            return Ok(Some(Reply::Answer(AnswerReply {
                agent: a.name.clone(),
                text: answer.text,
                turn: answer.turn,
                rung: answer.rung,
            })));
        }
        if !a.has_record() {
            return Err(ErrorInfo::new(
                "no_answer",
                format!("{} has not answered anything yet", a.name),
                "let it finish a turn first",
            ));
        }
        let token = self.token();
        self.asked.insert(token, (client, seq, id));
        self.out.push(Effect::Extract { agent: id, token });
        Ok(None)
    }

    pub(super) fn extracted_for_request(
        &mut self,
        id: AgentId,
        token: u64,
        result: &Result<Answer, NoAnswer>,
    ) -> bool {
        let Some((client, seq, _)) = self.asked.remove(&token) else { return false };
        let name = self.agents.get(&id).map(|a| a.name.clone()).unwrap_or_default();
        let reply = match result {
            Ok(answer) => {
                if let Some(a) = self.agents.get_mut(&id)
                    && a.answer.is_none()
                    && answer.ended
                {
                    // Of a turn before any that was seen: no silence waits for it.
                    a.answer = Some(LastAnswer {
                        text: answer.text.clone(),
                        seq: 0,
                        turn: answer.turn.clone(),
                        message: Some(answer.message.clone()),
                        rung: Rung::Record,
                        chain: None,
                        changed: answer.changed.clone(),
                    });
                }
                Ok(Reply::Answer(AnswerReply {
                    agent: name,
                    text: answer.text.clone(),
                    turn: answer.turn.clone(),
                    rung: Rung::Record,
                }))
            }
            Err(why) => Err(ErrorInfo::new(
                "no_answer",
                format!("{name}: {why}"),
                "let it finish a turn first",
            )),
        };
        self.reply(client, seq, reply);
        true
    }

    /// What a host that died left without a final state. Nothing is ever sent again by itself.
    pub(super) fn restored(&mut self, hops: Vec<RestoredHop>, next_hop: u64) {
        let now = self.now;
        self.next_hop = self.next_hop.max(next_hop);
        for RestoredHop { hop: info, enter, in_record, hidden } in hops {
            let id = info.id;
            self.next_hop = self.next_hop.max(id.0 + 1);
            self.next_chain = self.next_chain.max(info.chain.0 + 1);
            self.chains.insert(info.chain, Chain { used: now.mono, ..Chain::default() });
            let state = info.state;
            self.hops.insert(id, Hop::new(info, None, now.mono));
            if state == HopState::Accepted || (enter && in_record) {
                // The record holds the prompt; whether the turn was answered died with the host.
                if let Some(h) = self.hops.get_mut(&id) {
                    h.info.state = HopState::Accepted;
                    h.reason(
                        now,
                        "host_died",
                        "its target's record holds the prompt; the host died then",
                    );
                    self.record(id, None);
                }
            } else if enter {
                let text =
                    "the host died after Enter, and the target's record does not hold the prompt";
                self.finish(id, HopState::Failed, "in_doubt", text);
            } else if self.hops.get(&id).is_some_and(|h| h.info.prompt.is_none()) {
                let text =
                    "the host died before a model had written its prompt; :Mado fire asks again";
                self.finish(id, HopState::Failed, "host_died", text);
            } else if hidden {
                let again = self.hops.get(&id).map_or_else(String::new, |h| {
                    match (h.info.source.as_str(), h.info.target.as_str()) {
                        ("", to) => format!("send it to {to} again"),
                        (from, to) => format!(":Mado handoff {from} {to} sends the answer again"),
                    }
                });
                let text = format!(
                    "the host died before its Enter, and its text held secrets, which are never written to disk, so it is not whole; {again}"
                );
                self.finish(id, HopState::Failed, "redacted", &text);
            } else if let Some(h) = self.hops.get_mut(&id) {
                h.info.state = HopState::Held;
                let how = resume_command(id);
                let text = format!("the host died before its Enter; {how} sends it");
                h.reason(now, "host_died", text);
                self.record(id, None);
            }
        }
    }
}
