//! What a person says of a hop that has not been submitted: yes, yes but like this, or no.

use super::commands::{Res, err, unknown_hop};
use super::hub::Hub;
use crate::proto::{ApproveParams, ErrorInfo, HopId, HopState, Reply, StepKind};

impl Hub {
    /// A person says yes to a hop that waits for it, maybe with a text of their own.
    pub(super) fn approve(&mut self, p: &ApproveParams) -> Res {
        let hop = self.hops.get(&p.hop).ok_or_else(|| unknown_hop(p.hop))?;
        if !hop.confirm || hop.is_final() {
            return Err(self.not_waiting(p.hop));
        }
        self.has_text(p.hop)?;
        if let Some(prompt) = &p.prompt
            && hop.info.prompt.as_ref() != Some(prompt)
        {
            if super::text::fold(prompt).is_empty() {
                return Err(err(
                    "empty",
                    format!("there is no text left for hop {}", p.hop),
                    format!("write one, or drop the hop: :Mado drop {}", p.hop),
                ));
            }
            // It is theirs now: nothing is put before it or taken out of it.
            if !self.set_literal(p.hop, prompt) {
                return Err(self.not_waiting(p.hop));
            }
            self.step_of(p.hop, StepKind::Person, "a person changed the prompt");
            if let Some(h) = self.hops.get_mut(&p.hop) {
                h.note("a person changed the prompt");
            }
        }
        self.step_of(p.hop, StepKind::Person, "a person said yes");
        self.resume_hop(&p.project, p.hop)
    }

    /// A yes is said to a text that was read, not to one that a model has yet to write.
    pub(super) fn has_text(&self, id: HopId) -> Result<(), ErrorInfo> {
        if self.hops.get(&id).is_none_or(|h| h.ask.is_none()) {
            return Ok(());
        }
        let text = format!("hop {id} has no text yet: it {}", self.asks_text(id));
        Err(err("no_text", text, ":Mado queue says when it waits for your yes"))
    }

    fn not_waiting(&self, id: HopId) -> ErrorInfo {
        let state = self.hops.get(&id).map(|h| h.info.state).unwrap_or_default();
        err(
            "not_waiting",
            format!("hop {id} waits for no yes, it is {}", state.name()),
            ":Mado queue lists what waits",
        )
    }

    /// Takes a hop out of its queue for good. After its Enter it is too late.
    pub(super) fn drop_hop(&mut self, project: &str, id: HopId) -> Res {
        let hop = self.hops.get(&id).ok_or_else(|| unknown_hop(id))?;
        if hop.is_final() {
            let state = hop.info.state.name();
            return Err(err("final", format!("hop {id} is {state} already"), ""));
        }
        if hop.info.project != project {
            let text = format!("hop {id} belongs to the project {}", hop.info.project);
            return Err(err("other_project", text, "drop it from there"));
        }
        let delivery = hop
            .target
            .and_then(|t| self.agents.get(&t))
            .and_then(|a| a.delivery.as_ref().map(|d| (a.id, d)))
            .filter(|(_, d)| d.hop == id);
        let submitted = matches!(hop.info.state, HopState::Submitted | HopState::Accepted);
        if submitted || delivery.as_ref().is_some_and(|(_, d)| d.entered()) {
            return Err(err(
                "submitted",
                format!("Enter was sent for hop {id}; it cannot be taken back"),
                format!("stop {} itself", hop.info.target),
            ));
        }
        let (target, begun) = (hop.info.target.clone(), delivery.map(|(a, d)| (a, d.begun())));
        if let Some((agent, _)) = begun {
            self.put_back(agent);
        }
        self.step_of(id, StepKind::Person, "a person dropped it");
        self.finish(id, HopState::Stopped, "dropped", "a person dropped it");
        Ok(Some(Reply::Said(match begun {
            Some((_, true)) => format!(
                "hop {id} was dropped; what had been typed of it is left in {target}'s composer"
            ),
            _ => format!("hop {id} was dropped"),
        })))
    }
}
