//! Everybody who looks at a terminal, and whose size it has.
//!
//! Only a person's key claims the size, and the first viewer of a terminal that nobody looks at.
//! Viewers of that size get the program's output as it is; the others see the model cropped to
//! theirs, refreshed at most every [`CROP_EVERY`].

use super::viewer::{self, FromViewer, Outlet};
use crate::core::keys::{Keys, Kind, Piece};
use crate::host::attach::Connection;
use crate::host::repaint::{self, Crop};
use crate::host::screen::Screen;
use crate::proto::attach::Exit;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// How often a cropped view is refreshed at most.
pub(super) const CROP_EVERY: Duration = Duration::from_millis(30);

struct Viewer {
    outlet: Outlet,
    keys: Keys,
    size: (u16, u16),
    read_only: bool,
    /// What it has been shown, if it is of another size than the terminal.
    crop: Option<Crop>,
}

/// What a viewer's message asks of the terminal.
#[derive(Debug, Default)]
pub(super) struct Asked {
    /// Input for the program: pieces of [`Kind::Human`] and [`Kind::Report`].
    pub input: Vec<Piece>,
    /// The terminal is to get this size.
    pub size: Option<(u16, u16)>,
    /// A viewer went.
    pub gone: bool,
}

/// The viewers of one terminal.
pub(super) struct Viewers {
    all: BTreeMap<u64, Viewer>,
    next: u64,
    /// Whose size the terminal has.
    owner: Option<u64>,
    /// Who asked for the size while it was held.
    waiting: Option<u64>,
    held: bool,
    to: mpsc::Sender<(u64, FromViewer)>,
    /// When cropped views are due for a refresh.
    refresh: Option<Instant>,
    refreshed: Option<Instant>,
}

impl Viewers {
    pub(super) fn new(to: mpsc::Sender<(u64, FromViewer)>) -> Viewers {
        Viewers {
            all: BTreeMap::new(),
            next: 0,
            owner: None,
            waiting: None,
            held: false,
            to,
            refresh: None,
            refreshed: None,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Adds a viewer. If the returned size is not the terminal's, it is to be set; then, or
    /// else at once, the new one is to be shown something ([`Viewers::show`]).
    pub(super) fn attach(&mut self, connection: Connection) -> (u64, Option<(u16, u16)>) {
        let id = self.next;
        self.next += 1;
        let hello = &connection.hello;
        let size = (hello.rows.max(1), hello.cols.max(2));
        let read_only = hello.read_only;
        let alone = self.all.is_empty();
        let outlet = viewer::start(connection, id, self.to.clone());
        let viewer = Viewer { outlet, keys: Keys::default(), size, read_only, crop: None };
        self.all.insert(id, viewer);
        let claimed = if alone && !read_only { self.claim(id) } else { None };
        (id, claimed)
    }

    /// The size is wanted by a viewer. Returns it if it may be given.
    fn claim(&mut self, id: u64) -> Option<(u16, u16)> {
        if self.held {
            self.waiting = Some(id);
            return None;
        }
        self.owner = Some(id);
        self.all.get(&id).map(|v| v.size)
    }

    /// Holds the size, or gives it to who asked for it meanwhile.
    pub(super) fn hold(&mut self, hold: bool) -> Option<(u16, u16)> {
        self.held = hold;
        if hold {
            return None;
        }
        let id = self.waiting.take()?;
        self.all.contains_key(&id).then(|| self.claim(id)).flatten()
    }

    pub(super) fn held(&self) -> bool {
        self.held
    }

    /// What a viewer said.
    pub(super) fn heard(&mut self, id: u64, what: FromViewer, screen: &mut Screen) -> Asked {
        let mut asked = Asked::default();
        let alone = self.all.len() == 1;
        let Some(viewer) = self.all.get_mut(&id) else { return asked };
        match what {
            FromViewer::Input(bytes) => {
                if viewer.read_only {
                    return asked;
                }
                // A mouse report of a cropped view names another cell than the one meant.
                let cropped = viewer.crop.is_some();
                asked.input = viewer.keys.feed(&bytes);
                asked.input.retain(|piece| match piece.kind {
                    Kind::Human => true,
                    Kind::Report => !cropped,
                    Kind::Reply => false,
                });
                let human = asked.input.iter().any(|piece| piece.kind == Kind::Human);
                if human && (cropped || self.owner != Some(id)) {
                    asked.size = self.claim(id);
                }
            }
            FromViewer::Resize(rows, cols) => {
                viewer.size = (rows.max(1), cols.max(2));
                // Somebody else's key has asked for the size meanwhile, and gets it on release.
                let promised = self.held && self.waiting.is_some_and(|other| other != id);
                let claims = !promised && (self.owner == Some(id) || alone);
                if claims && !viewer.read_only {
                    asked.size = self.claim(id);
                }
                if asked.size.is_none() {
                    self.show(id, screen);
                }
            }
            FromViewer::CaughtUp => self.show(id, screen),
            // The terminal asks for what it means to it.
            FromViewer::Reading => {}
            FromViewer::Gone => {
                self.all.remove(&id);
                if self.owner == Some(id) {
                    self.owner = None;
                }
                asked.gone = true;
            }
        }
        asked
    }

    /// Shows a viewer everything, whatever it has seen.
    pub(super) fn show(&mut self, id: u64, screen: &mut Screen) {
        let Some(viewer) = self.all.get_mut(&id) else { return };
        let (rows, cols) = viewer.size;
        let picture = if fits(viewer.size, screen) {
            viewer.crop = None;
            repaint::full(screen)
        } else {
            let mut crop = Crop::default();
            let picture = crop.frame(screen, rows, cols);
            viewer.crop = Some(crop);
            picture
        };
        viewer.outlet.repaint(picture);
    }

    /// The terminal's size has changed.
    pub(super) fn resized(&mut self, screen: &mut Screen) {
        let ids: Vec<u64> = self.all.keys().copied().collect();
        for id in ids {
            let Some(viewer) = self.all.get(&id) else { continue };
            if viewer.crop.is_none() && fits(viewer.size, screen) && self.owner == Some(id) {
                // It resized its own screen. Its scrollback stays as it is, and whoever reads in it
                // stays where he is.
                viewer.outlet.push(&Arc::new(repaint::visible(screen)));
            } else {
                self.show(id, screen);
            }
        }
    }

    /// The program's output, after the filter. The model has it already.
    pub(super) fn output(&mut self, chunk: Vec<u8>, now: Instant) {
        if self.all.is_empty() {
            return;
        }
        let chunk = Arc::new(chunk);
        let mut cropped = false;
        for viewer in self.all.values() {
            if viewer.crop.is_none() {
                viewer.outlet.push(&chunk);
            } else {
                cropped = true;
            }
        }
        if cropped && self.refresh.is_none() {
            self.refresh = Some(self.refreshed.map_or(now, |last| (last + CROP_EVERY).max(now)));
        }
    }

    /// Whether a viewer of the program's output is behind with it; it will say when it is no more.
    pub(super) fn behind(&self) -> bool {
        self.all.values().any(|viewer| viewer.crop.is_none() && viewer.outlet.is_behind())
    }

    /// When [`Viewers::refresh`] is due.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.refresh
    }

    /// Brings cropped views up to date, if it is time.
    pub(super) fn refresh(&mut self, screen: &Screen, now: Instant) {
        if self.refresh.is_none_or(|due| now < due) {
            return;
        }
        self.refresh = None;
        self.refreshed = Some(now);
        self.refresh_now(screen);
    }

    fn refresh_now(&mut self, screen: &Screen) {
        for viewer in self.all.values_mut() {
            let Some(crop) = &mut viewer.crop else { continue };
            if viewer.outlet.is_idle() {
                let frame = crop.frame(screen, viewer.size.0, viewer.size.1);
                viewer.outlet.push(&Arc::new(frame));
            } else {
                // It has not read the last one yet. It is shown everything once it has.
                viewer.outlet.skip();
            }
        }
    }

    /// The program has ended.
    pub(super) fn exit(&mut self, screen: &Screen, exit: &Exit) {
        self.refresh_now(screen);
        for viewer in self.all.values_mut() {
            viewer.outlet.exit(exit.clone());
        }
    }
}

fn fits(size: (u16, u16), screen: &Screen) -> bool {
    (usize::from(size.0), usize::from(size.1)) == screen.size()
}
