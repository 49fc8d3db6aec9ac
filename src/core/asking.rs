//! Transforms that ask a model: when a call is made, called off, made again, and what becomes of its
//! hop. The call itself is the host's.
//!
//! A hop that needs a model waits at its route, as one does that waits for a cooldown, so what holds
//! for those holds for it: a newer answer takes its place, a pause keeps it, a disconnect ends it.
//! Every way in which a hop ends goes through [`Hub::finish`], which calls its call off.

use super::agent::{Agent, Turn};
use super::hop::{Ask, Hop};
use super::hub::Hub;
use super::io::Effect;
use super::question::{Material, NotTold, Party, Question, Told, relative};
use super::text;
use crate::proto::{HopId, HopState, OnError, RouteId, RouteState, StepKind};
use std::collections::BTreeMap;

impl Hub {
    /// The hop needs a model's text; it is asked for as soon as nothing holds the route.
    pub(super) fn ask_due(&mut self, route_id: RouteId, id: HopId) -> bool {
        let named = self.routes.get(&route_id).and_then(|r| r.provider.clone());
        let Some((name, spec)) = named else {
            // A route cannot be made or changed to this, see `Route::choose`.
            let text = "its route has no provider; name one with :Mado transform";
            self.finish(id, HopState::Failed, "no_provider", text);
            return false;
        };
        let Some(hop) = self.hops.get_mut(&id) else { return false };
        hop.ask = Some(Ask::Due);
        hop.info.model = Some(spec.model_name().to_owned());
        hop.info.provider = Some(name);
        true
    }

    /// Asks for the text of the hop that waits at a route, or calls it off, as the route's state wants.
    pub(super) fn release_asking(&mut self, route_id: RouteId, id: HopId) -> bool {
        let now = self.now;
        let Some(route) = self.routes.get(&route_id) else { return false };
        let paused = self.hops.get(&id).is_some_and(|h| self.paused.contains(&h.info.project));
        let (called, code, text) = match route.state() {
            RouteState::Paused => {
                let text = "its route is paused; :Mado resume goes on".to_owned();
                (self.cancel_ask(id), "paused", text)
            }
            _ if paused => {
                let text = "everything is paused; :Mado resume goes on".to_owned();
                (self.cancel_ask(id), "paused", text)
            }
            // A call may end while no editor is there, but none begins.
            RouteState::Held => {
                (false, "no_editor", "no editor is attached to this project".to_owned())
            }
            RouteState::Active | RouteState::Stopped => {
                (self.begin_ask(route_id, id), "model", self.asks_text(id))
            }
        };
        let Some(hop) = self.hops.get_mut(&id).filter(|h| !h.is_final()) else { return called };
        if hop.reason(now, code, text) {
            self.publish_hop(id);
            return true;
        }
        called
    }

    /// What a hop that waits for a model says of it.
    pub(super) fn asks_text(&self, id: HopId) -> String {
        let info = self.hops.get(&id).map(|h| &h.info);
        let model = info.and_then(|i| i.model.as_deref()).unwrap_or("a model");
        let provider = info.and_then(|i| i.provider.as_deref()).unwrap_or("?");
        format!("asks {model} of {provider}")
    }

    /// Makes the call that is due.
    fn begin_ask(&mut self, route_id: RouteId, id: HopId) -> bool {
        if self.hops.get(&id).is_none_or(|h| h.ask != Some(Ask::Due)) {
            return false;
        }
        let question = match self.question(route_id, id) {
            Ok(question) => Box::new(question),
            Err(e) => {
                self.finish(id, HopState::Failed, "template", &e);
                return true;
            }
        };
        let token = self.token();
        if let Some(hop) = self.hops.get_mut(&id) {
            hop.ask = Some(Ask::Open(token));
        }
        let step = self.asks_text(id);
        self.step_of(id, StepKind::Model, step);
        self.out.push(Effect::Ask { hop: id, token, question });
        true
    }

    /// Calls a call off; the hop is asked for again when nothing holds it any more.
    fn cancel_ask(&mut self, id: HopId) -> bool {
        let Some(hop) = self.hops.get_mut(&id) else { return false };
        if !matches!(hop.ask, Some(Ask::Open(_))) {
            return false;
        }
        hop.ask = Some(Ask::Due);
        self.called_off(id);
        true
    }

    /// Nobody waits for a hop's call any more.
    pub(super) fn called_off(&mut self, id: HopId) {
        self.step_of(id, StepKind::Model, "the call was ended: nobody waits for it any more");
        self.out.push(Effect::CancelAsk { hop: id });
    }

    fn question(&self, route_id: RouteId, id: HopId) -> Result<Question, String> {
        let gone = || "its route is gone".to_owned();
        let route = self.routes.get(&route_id).ok_or_else(gone)?;
        let hop = self.hops.get(&id).ok_or_else(gone)?;
        let source = self.agents.get(&route.source).ok_or_else(gone)?;
        let target = self.agents.get(&route.target).ok_or_else(gone)?;
        let (provider, spec) = route.provider.clone().ok_or_else(gone)?;
        let person = self.chains.get(&hop.info.chain).and_then(|c| c.task.as_deref());
        let turn = hop.seq.and_then(|seq| source.turn_of(seq));
        let same = |p: &&str| person.is_none_or(|t| text::fold(t) != text::fold(p));
        let prompt = turn.and_then(|t| t.prompt.as_deref()).filter(same);
        let last = target.answer.as_ref().map(|a| a.text.as_str());
        let material = Material {
            transform: route.transform,
            template: route.template.as_deref(),
            task: route.task.as_deref(),
            source: Party { name: &source.name, kind: kind(source) },
            target: Party { name: &target.name, kind: kind(target) },
            round: (hop.info.round, route.max_rounds),
            person,
            prompt,
            answer: hop.info.answer.as_deref().unwrap_or(""),
            last,
        };
        // The last answer's files are known from its record; a turn that goes on may have said some.
        let answer = source.answer.as_ref().filter(|a| Some(a.seq) == hop.seq);
        let changed = match answer {
            Some(answer) => answer.changed.clone(),
            None => turn.and_then(|t| t.changed.clone()),
        };
        let local = |paths: Vec<String>| {
            let mut all: Vec<String> = Vec::new();
            for path in paths {
                let path = relative(&path, &source.spawn.cwd);
                if !all.contains(&path) {
                    all.push(path);
                }
            }
            all
        };
        Ok(Question {
            provider,
            spec,
            source: route.source,
            stable: material.stable()?,
            variable: if route.redact {
                super::redact::redact(&material.variable()).text
            } else {
                material.variable()
            },
            changed: changed.map(local),
        })
    }

    /// A call has ended. One that was called off, or of a hop that is over, says nothing any more.
    pub(super) fn asked(&mut self, id: HopId, token: u64, result: Result<Told, NotTold>) {
        let now = self.now;
        // What it took was used, whatever becomes of it.
        let used = result.as_ref().map_or_else(|e| e.usage, |told| Some(told.usage));
        if let (Some(used), Some(chain)) = (used, self.hops.get(&id).map(|h| h.info.chain)) {
            self.spend(chain, used.input.saturating_add(used.output));
        }
        let Some(hop) = self.hops.get_mut(&id).filter(|h| h.ask == Some(Ask::Open(token))) else {
            return;
        };
        hop.ask = None;
        let told = match result {
            // A text of marks alone would be none in a composer.
            Ok(told) if text::fold(&told.text).is_empty() => {
                hop.info.usage = Some(told.usage);
                let text = format!("{} gave an empty text", named(hop));
                let input = Some(told.input);
                Err(NotTold { code: "bad_answer".to_owned(), text, usage: None, input })
            }
            other => other,
        };
        match told {
            Ok(told) => {
                hop.info.usage = Some(told.usage);
                hop.info.input = Some(told.input);
                hop.info.times.transformed = Some(now.wall);
                for note in told.notes {
                    hop.note(note);
                }
                let (u, length) = (told.usage, told.text.chars().count());
                let step = format!(
                    "it wrote {length} characters ({} tokens read, {} of them cached, {} written)",
                    u.input, u.cached, u.output
                );
                self.step_of(id, StepKind::Model, step);
                if self.set_prompt(id, &told.text) {
                    self.record(id, None);
                }
            }
            Err(why) => {
                self.step_of(id, StepKind::Model, why.text.clone());
                self.not_told(id, why);
            }
        }
    }

    fn not_told(&mut self, id: HopId, why: NotTold) {
        let now = self.now;
        let Some(hop) = self.hops.get_mut(&id) else { return };
        hop.info.input = why.input.or(hop.info.input.take());
        hop.info.usage = why.usage.or(hop.info.usage);
        let route_id = hop.route;
        let route = route_id.and_then(|r| self.routes.get(&r));
        if route.is_some_and(|r| r.on_error == OnError::PromptWrap) {
            let max = route.map_or(0, |r| r.max_rounds);
            hop.note(format!("{}; prompt-wrap made the prompt instead (on_error)", why.text));
            hop.info.times.transformed = Some(now.wall);
            hop.fell_back = true;
            let answer = hop.info.answer.clone().unwrap_or_default();
            let values = BTreeMap::from([
                ("output", answer),
                ("round", hop.info.round.to_string()),
                ("maxRounds", max.to_string()),
                ("source", hop.info.source.clone()),
            ]);
            // The route's own template holds instructions for a model, not words for the target.
            let made = text::render(text::DEFAULT_TEMPLATE, &values).unwrap_or_default();
            if self.set_prompt(id, &made) {
                self.record(id, None);
            }
            return;
        }
        // It never went out, so the same answer may be tried again.
        if let Some(route_id) = route_id {
            self.uncount(route_id, id);
        }
        self.finish(id, HopState::Failed, &why.code, &why.text);
    }

    /// The person's prompt from which a chain follows, for models that are asked later.
    pub(super) fn remember_task(&mut self, turn: &Turn) {
        let sent = |h: &HopId| {
            self.hops.get(h).is_some_and(|h| h.route.is_none() && h.info.source.is_empty())
        };
        let of_person = turn.human || turn.hops.first().is_some_and(sent);
        if let (true, Some(prompt)) = (of_person, turn.prompt.clone())
            && let Some(chain) = self.chains.get_mut(&turn.chain)
        {
            chain.task.get_or_insert(prompt);
        }
    }
}

fn named(hop: &Hop) -> String {
    let of = |name: &Option<String>| name.clone().unwrap_or_else(|| "?".to_owned());
    format!("{} of {}", of(&hop.info.model), of(&hop.info.provider))
}

/// What program an agent is, in a person's words where its profile has some.
fn kind(agent: &Agent) -> &str {
    let profile = &agent.profile;
    if profile.description.is_empty() { &profile.name } else { &profile.description }
}
