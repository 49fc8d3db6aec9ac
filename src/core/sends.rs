//! Requests that put text on its way: fire, hand-off, send.

use super::commands::{Res, err};
use super::hop::Hop;
use super::hub::Hub;
use crate::proto::{AgentId, ChainId, ErrorInfo, HopId, HopInfo, Reply, RouteId, Rung, SendParams};

impl Hub {
    pub(super) fn fire_now(&mut self, project: &str, route: &str, confirm: bool) -> Res {
        let id = self.route(project, route)?;
        let source = self.agents[&self.routes[&id].source].name.clone();
        if let Some((_, why)) = self.routes[&id].stopped.clone() {
            return Err(err("stopped", why, format!("resume it first: :Mado resume {id}")));
        }
        if self.agents[&self.routes[&id].source].answer.is_some() {
            // The route's own answer stays what it is; this firing alone asks.
            let own = self.routes[&id].confirm;
            let ask = |hub: &mut Hub, confirm| {
                if let Some(route) = hub.routes.get_mut(&id) {
                    route.confirm = confirm;
                }
            };
            ask(self, own || confirm);
            let hop = self.fire_joined(id).or_else(|| self.fire_answer(id, Rung::Manual));
            ask(self, own);
            let info = hop.and_then(|h| self.hops.get(&h)).map(|h| h.info.clone());
            let skipped = self.routes.get(&id).and_then(|r| r.skipped.clone());
            let why = skipped.map(|s| format!(": {s}")).unwrap_or_default();
            let missing =
                || err("not_fired", format!("route {id} did not fire{why}"), "see :Mado routes");
            return info.map(Reply::Hop).map(Some).ok_or_else(missing);
        }
        Err(no_answer(&source))
    }

    /// A person fires a route whose answers wait for others: what is there goes on without the rest.
    fn fire_joined(&mut self, id: RouteId) -> Option<HopId> {
        let group = self.joined_with(id)?;
        self.gathering = true;
        let mut fired = None;
        for member in group {
            let route = self.routes.get(&member)?;
            if member == id {
                fired = self.fire_answer(id, Rung::Manual);
            } else if route.unjoined && route.waiting.is_none() {
                self.fire_answer(member, Rung::Manual);
            }
        }
        self.gathering = false;
        let fired = fired?;
        self.hops.get_mut(&fired)?.alone = true;
        self.release(id);
        let joined = self.hops.values().rev().find(|h| h.info.joined.contains(&fired));
        joined.map(Hop::id).or(Some(fired))
    }

    pub(super) fn handoff(
        &mut self,
        project: &str,
        from: &str,
        to: &str,
        text: Option<&str>,
        inside: Option<AgentId>,
    ) -> Res {
        let source = self.agent(project, from)?;
        let target = self.agent(project, to)?;
        if source == target {
            return Err(err("self_route", "source and target are the same agent", "name two"));
        }
        let agent = &self.agents[&source];
        let Some(answer) = agent.answer.clone() else { return Err(no_answer(&agent.name)) };
        let chain = answer.chain.or(agent.chain);
        let source_name = agent.name.clone();
        let prompt = match text.filter(|t| !t.is_empty()) {
            None => answer.text.clone(),
            Some(t) if t.contains("{output}") => {
                let values = std::collections::BTreeMap::from([
                    ("output", answer.text.clone()),
                    ("source", source_name.clone()),
                    ("round", "1".to_owned()),
                    ("maxRounds", "1".to_owned()),
                ]);
                super::text::render(t, &values)
                    .map_err(|e| err("bad_template", e, "mend the text"))?
            }
            Some(t) => format!("{t}\n\n{}", answer.text),
        };
        let chain = match chain {
            Some(c) => c,
            None => (self.new_chain(), 0),
        };
        self.count_hop(chain.0, &source_name, inside.is_some())?;
        let info = HopInfo {
            source: source_name,
            answer: Some(answer.text),
            turn: answer.turn,
            rung: answer.rung,
            how: "handoff".to_owned(),
            ..HopInfo::default()
        };
        Ok(self.send_hop(target, chain, info, &prompt, None))
    }

    pub(super) fn send(&mut self, p: &SendParams, inside: Option<AgentId>) -> Res {
        let target = self.agent(&p.project, &p.target)?;
        let paste = match p.deliver.as_deref() {
            None => None,
            Some("lines") => Some(false),
            Some("paste") => Some(true),
            Some(other) => {
                return Err(err(
                    "bad_value",
                    format!("deliver is {other:?}"),
                    "give lines or paste",
                ));
            }
        };
        let source = inside.filter(|a| self.agents.contains_key(a));
        let name = source.map(|s| self.agents[&s].name.clone()).unwrap_or_default();
        let chain = self.chain_of_sender(source);
        self.count_hop(chain.0, &name, source.is_some())?;
        let info = HopInfo {
            source: name,
            rung: Rung::Manual,
            how: "send".to_owned(),
            ..HopInfo::default()
        };
        Ok(self.send_hop(target, chain, info, &p.text, paste))
    }

    /// The chain of what is sent from inside an agent is the agent's own, unless a person at its
    /// keys has just asked for it; what is sent from elsewhere begins one.
    fn chain_of_sender(&mut self, source: Option<AgentId>) -> (ChainId, u32) {
        let agent = source.and_then(|s| self.agents.get(&s));
        let chain = agent.filter(|a| a.human_prompted.is_none()).and_then(|a| a.chain);
        if let Some(chain) = chain {
            return chain;
        }
        let chain = (self.new_chain(), 0);
        if let Some(agent) = source.and_then(|s| self.agents.get_mut(&s)) {
            // What the agent sends next belongs to the same, or it would never end.
            agent.chain = Some(chain);
            agent.human_prompted = None;
        }
        chain
    }

    /// Counts a hop that no route made. Only what an agent asks for is limited.
    fn count_hop(&mut self, chain: ChainId, name: &str, limited: bool) -> Result<(), ErrorInfo> {
        let limit = self.timing.chain_limit;
        let used = self.now.mono;
        let chain = self.chains.entry(chain).or_default();
        if limited && chain.hops >= limit {
            return Err(err(
                "chain_limit",
                format!("the chain of {name} has had {limit} hops"),
                "a person's next prompt starts a new chain",
            ));
        }
        chain.hops += 1;
        chain.used = used;
        Ok(())
    }

    pub(super) fn send_hop(
        &mut self,
        target: AgentId,
        chain: (crate::proto::ChainId, u32),
        mut info: HopInfo,
        text: &str,
        paste: Option<bool>,
    ) -> Option<Reply> {
        let id = HopId(self.next_hop);
        self.next_hop += 1;
        let agent = &self.agents[&target];
        info.id = id;
        (info.chain, info.depth) = chain;
        info.round = 1;
        info.target.clone_from(&agent.name);
        info.project.clone_from(&agent.project);
        info.times.fired = Some(self.now.wall);
        let mut hop = Hop::new(info, Some(target), self.now.mono);
        hop.paste = paste;
        self.hops.insert(id, hop);
        if self.set_prompt(id, text) {
            self.enqueue(id);
        }
        self.hops.get(&id).map(|h| Reply::Hop(h.info.clone()))
    }
}

fn no_answer(agent: &str) -> ErrorInfo {
    err(
        "no_answer",
        format!("{agent} has not answered anything since it was opened"),
        "let it finish a turn first",
    )
}
