//! Requests of editors and shell commands, answered or begun here.

use super::hub::Hub;
use super::io::{Effect, Spawn};
use super::profile::Profile;
use crate::core::agent::Agent;
use crate::proto::{
    AdoptParams, AgentId, ClientId, ErrorInfo, HopId, OpenParams, Reply, Request, RequestResult,
    RouteOptions,
};
use std::collections::BTreeMap;

pub(super) type Res = Result<Option<Reply>, ErrorInfo>;

pub(super) fn err(code: &str, message: impl Into<String>, remedy: impl Into<String>) -> ErrorInfo {
    ErrorInfo::new(code, message, remedy)
}

pub(super) fn unknown_hop(id: HopId) -> ErrorInfo {
    err("unknown_hop", format!("there is no hop {id}"), ":Mado log lists them")
}

/// How a person resumes one hop, in the editor and in a shell.
pub(super) fn resume_command(id: HopId) -> String {
    format!(":Mado resume hop={id} (mado resume --hop {id})")
}

impl Hub {
    pub(super) fn reply(&mut self, client: ClientId, seq: u64, result: RequestResult) {
        self.out.push(Effect::Reply { client, seq, result });
    }

    /// Takes a request. `Ok(None)` from a handler means that the reply comes later.
    pub(super) fn request(
        &mut self,
        client: ClientId,
        seq: u64,
        inside: Option<AgentId>,
        profile: Option<Box<Profile>>,
        request: Request,
    ) {
        let result = match request {
            Request::Open(p) => self.open(client, seq, p, profile),
            Request::Adopt(p) => self.adopt(client, seq, p, profile),
            Request::Agents(p) => Ok(Some(Reply::Agents(self.agent_infos(&p)))),
            Request::Routes(p) => Ok(Some(Reply::Routes(self.route_infos(&p)))),
            Request::Hops(p) => self.hop_infos(&p),
            Request::Queue(p) => Ok(Some(Reply::Queue(self.queue(&p)))),
            Request::Connect(p) => self.connect(client, &p),
            Request::Disconnect(p) => self.disconnect(&p.project, &p.route),
            Request::Trigger(p) => {
                let options = RouteOptions {
                    trigger: Some(p.trigger),
                    pattern: p.pattern,
                    ..RouteOptions::default()
                };
                self.change_route(&p.project, &p.route, &options, &BTreeMap::new())
            }
            Request::Transform(p) => {
                let options = RouteOptions {
                    transform: Some(p.transform),
                    template: p.template,
                    provider: p.provider,
                    ..RouteOptions::default()
                };
                self.change_route(&p.project, &p.route, &options, &p.providers)
            }
            Request::Pause(p) => self.pause(&p),
            Request::Resume(p) => self.resume(&p),
            Request::Toggle(p) => {
                let paused = match &p.route {
                    Some(r) => self.route(&p.project, r).map(|id| self.routes[&id].paused),
                    None => Ok(self.paused.contains(&p.project)),
                };
                match paused {
                    Ok(true) => self.resume(&p),
                    Ok(false) => self.pause(&p),
                    Err(e) => Err(e),
                }
            }
            Request::Fire(p) => self.fire_now(&p.project, &p.route, p.confirm),
            Request::Approve(p) => self.approve(&p),
            Request::Drop(p) => self.drop_hop(&p.project, p.hop),
            Request::Handoff(p) => {
                self.handoff(&p.project, &p.source, &p.target, p.text.as_deref(), inside)
            }
            Request::Send(p) => self.send(&p, inside),
            Request::Load(p) => self.load(client, &p),
            Request::Save(p) => self.save(&p.project),
            Request::Answer(p) => self.answer(client, seq, &p.project, &p.agent),
            Request::Rename(p) => self.rename(&p.project, &p.agent, &p.name),
            Request::Close(p) => self.close(&p.project, &p.agent, false),
            Request::Restart(p) => self.close(&p.project, &p.agent, true),
            Request::Next(p) => self.next_asking(&p.project),
            Request::Hello(_)
            | Request::Screen(_)
            | Request::HostStatus(_)
            | Request::Events(_)
            | Request::Adopted(_)
            | Request::Stop(_) => Err(err(
                "bad_request",
                "this request is answered by the host itself",
                "this is a fault of the host: please report it",
            )),
        };
        match result {
            Ok(Some(reply)) => self.reply(client, seq, Ok(reply)),
            Ok(None) => {}
            Err(e) => self.reply(client, seq, Err(e)),
        }
    }

    fn open(
        &mut self,
        client: ClientId,
        seq: u64,
        p: OpenParams,
        profile: Option<Box<Profile>>,
    ) -> Res {
        let Some(profile) = profile.map(|p| *p) else {
            return Err(err("unknown_profile", format!("there is no profile {:?}", p.profile), ""));
        };
        let name = match &p.name {
            Some(name) => {
                self.name_free(&p.project, name, None)?;
                name.clone()
            }
            None => self.free_name(&p.project, &profile.name),
        };
        let id = AgentId(self.next_agent);
        self.next_agent += 1;
        let size = (if p.rows == 0 { 24 } else { p.rows }, if p.cols == 0 { 80 } else { p.cols });
        let spawn = Spawn {
            agent: id,
            name,
            project: p.project,
            profile,
            args: p.args,
            cwd: p.cwd,
            env: p.env,
            size,
            resume: None,
            adopt: None,
        };
        let agent = Agent::new(spawn.clone(), self.now.mono, self.now.wall);
        self.agents.insert(id, agent);
        self.opening.insert(id, (client, seq));
        self.out.push(Effect::Spawn(Box::new(spawn)));
        Ok(None)
    }

    /// Makes an agent of what the host has found in a terminal that is not its own.
    fn adopt(
        &mut self,
        client: ClientId,
        seq: u64,
        p: AdoptParams,
        profile: Option<Box<Profile>>,
    ) -> Res {
        let (Some(profile), Some(found)) = (profile.map(|p| *p), p.found.clone()) else {
            return Err(err("bad_request", "nothing was found in this terminal", ""));
        };
        let same = self.agents.values().find(|a| {
            a.exit.is_none()
                && a.spawn
                    .adopt
                    .as_ref()
                    .and_then(|o| o.found.as_ref())
                    .is_some_and(|f| (f.pid, f.start) == (found.pid, found.start))
        });
        if let Some(same) = same {
            return Err(err(
                "adopted_already",
                format!("{} ({}) is this very agent already", same.name, found.place),
                format!(":Mado close {} releases it", same.name),
            ));
        }
        let name = match &p.name {
            Some(name) => {
                self.name_free(&p.project, name, None)?;
                name.clone()
            }
            None => self.free_name(&p.project, &profile.name),
        };
        let id = AgentId(self.next_agent);
        self.next_agent += 1;
        let spawn = Spawn {
            agent: id,
            name,
            project: p.project.clone(),
            profile,
            args: Vec::new(),
            cwd: found.cwd,
            env: BTreeMap::new(),
            size: (0, 0),
            resume: None,
            adopt: Some(Box::new(p)),
        };
        let agent = Agent::new(spawn.clone(), self.now.mono, self.now.wall);
        self.agents.insert(id, agent);
        self.opening.insert(id, (client, seq));
        self.out.push(Effect::Spawn(Box::new(spawn)));
        Ok(None)
    }

    fn free_name(&self, project: &str, base: &str) -> String {
        let taken = |n: &str| self.agents.values().any(|a| a.project == project && a.name == n);
        if !taken(base) {
            return base.to_owned();
        }
        let mut n = 2u32;
        while taken(&format!("{base}-{n}")) {
            n += 1;
        }
        format!("{base}-{n}")
    }

    fn name_free(&self, project: &str, name: &str, but: Option<AgentId>) -> Result<(), ErrorInfo> {
        let good = !name.is_empty()
            && name.len() <= 64
            && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | '.'))
            && !name.starts_with('-');
        if !good {
            return Err(err(
                "bad_name",
                format!("{name:?} is no name for an agent"),
                "use letters, digits, - _ . (at most 64, not beginning with -)",
            ));
        }
        if self.agents.values().any(|a| a.project == project && a.name == name && Some(a.id) != but)
        {
            return Err(err(
                "name_taken",
                format!("an agent {name:?} runs in this project already"),
                "choose another name, or close it first",
            ));
        }
        Ok(())
    }

    fn rename(&mut self, project: &str, agent: &str, name: &str) -> Res {
        let id = self.agent(project, agent)?;
        let project = self.agents[&id].project.clone();
        self.name_free(&project, name, Some(id))?;
        if let Some(a) = self.agents.get_mut(&id) {
            name.clone_into(&mut a.name);
            name.clone_into(&mut a.spawn.name);
        }
        Ok(Some(Reply::Agent(self.agents[&id].info())))
    }

    fn close(&mut self, project: &str, agent: &str, restart: bool) -> Res {
        let id = self.agent(project, agent)?;
        let Some(a) = self.agents.get_mut(&id) else { return Ok(None) };
        let said = match (restart, &a.spawn.adopt) {
            (true, Some(_)) => {
                let name = &a.name;
                return Err(err(
                    "not_ours",
                    format!("{name} was adopted: mado did not start it and cannot start it again"),
                    format!(":Mado close {name}, start it where it runs, then adopt that terminal"),
                ));
            }
            (true, None) => format!("{} restarts", a.name),
            (false, Some(_)) if a.exit.is_none() => {
                format!("{} is released; it runs on where it is", a.name)
            }
            (false, Some(_)) => format!("{} is released", a.name),
            (false, None) => format!("{} ends", a.name),
        };
        if a.exit.is_some() {
            if restart {
                self.respawn(id);
            } else {
                self.forget(id);
            }
        } else {
            a.closing = !restart;
            a.restarting = restart;
            self.out.push(Effect::Kill { agent: id });
        }
        Ok(Some(Reply::Said(said)))
    }
}
