//! What the model reports while it is fed: replies to queries, the title, the bell.

use super::Signal;
use alacritty_terminal::event::{Event, EventListener};
use alacritty_terminal::term::Term;
use alacritty_terminal::vte::ansi::{NamedColor, Rgb};
use std::sync::{Arc, Mutex, PoisonError};

/// Collects the model's events. Shared between the model and the screen that owns it; never
/// contended.
#[derive(Debug, Clone, Default)]
pub(in crate::host) struct Listener(Arc<Mutex<Vec<Event>>>);

impl EventListener for Listener {
    fn send_event(&self, event: Event) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }
}

impl Listener {
    pub(super) fn take(&self) -> Vec<Event> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The colours that queries are answered with, red, green and blue each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Colours {
    /// Of text.
    pub foreground: (u8, u8, u8),
    /// Of the screen.
    pub background: (u8, u8, u8),
}

impl Default for Colours {
    /// Light grey on black, for agents that no editor has shown yet: an answer at once is better
    /// for a program than a wait for none.
    fn default() -> Self {
        Colours { foreground: (0xd0, 0xd0, 0xd0), background: (0, 0, 0) }
    }
}

impl Colours {
    /// From `#rrggbb` each. `None` if one is not of that form.
    pub fn parse(foreground: &str, background: &str) -> Option<Colours> {
        let parse = |text: &str| {
            let digits = text.strip_prefix('#').filter(|d| d.len() == 6 && d.is_ascii())?;
            let byte = |i: usize| u8::from_str_radix(&digits[i..i + 2], 16).ok();
            Some((byte(0)?, byte(2)?, byte(4)?))
        };
        Some(Colours { foreground: parse(foreground)?, background: parse(background)? })
    }

    /// Whether the background is dark.
    pub(super) fn dark(self) -> bool {
        let (r, g, b) = self.background;
        // Relative luminance by the usual integer weights, against half of full.
        (u32::from(r) * 299 + u32::from(g) * 587 + u32::from(b) * 114) / 1000 < 128
    }
}

/// Acts on one event of the model.
pub(super) fn handle(
    event: Event,
    term: &Term<Listener>,
    colours: &Colours,
    replies: &mut Vec<u8>,
    signals: &mut Vec<Signal>,
    title: &mut String,
) {
    match event {
        Event::PtyWrite(text) => replies.extend_from_slice(text.as_bytes()),
        Event::ColorRequest(index, format) => {
            let colour = term.colors()[index].unwrap_or_else(|| default_colour(index, *colours));
            replies.extend_from_slice(format(colour).as_bytes());
        }
        Event::Title(text) => {
            if *title != text {
                title.clone_from(&text);
                signals.push(Signal::Title(text));
            }
        }
        Event::ResetTitle => {
            if !title.is_empty() {
                title.clear();
                signals.push(Signal::Title(String::new()));
            }
        }
        Event::Bell => {
            // A row of bells is one bell.
            if signals.last() != Some(&Signal::Bell) {
                signals.push(Signal::Bell);
            }
        }
        // Pixels are not known here, and the clipboard is the viewers' business: the program's
        // request to set it passes to them.
        Event::TextAreaSizeRequest(_)
        | Event::ClipboardStore(..)
        | Event::ClipboardLoad(..)
        | Event::MouseCursorDirty
        | Event::CursorBlinkingChange
        | Event::Wakeup
        | Event::Exit
        | Event::ChildExit(_) => {}
    }
}

/// xterm's palette, and the editor's two colours.
fn default_colour(index: usize, colours: Colours) -> Rgb {
    const BASE: [(u8, u8, u8); 16] = [
        (0, 0, 0),
        (205, 0, 0),
        (0, 205, 0),
        (205, 205, 0),
        (0, 0, 238),
        (205, 0, 205),
        (0, 205, 205),
        (229, 229, 229),
        (127, 127, 127),
        (255, 0, 0),
        (0, 255, 0),
        (255, 255, 0),
        (92, 92, 255),
        (255, 0, 255),
        (0, 255, 255),
        (255, 255, 255),
    ];
    let (r, g, b) = match index {
        0..16 => BASE[index],
        16..232 => {
            let step = |n: usize| if n == 0 { 0 } else { (55 + n * 40) as u8 };
            let n = index - 16;
            (step(n / 36), step(n / 6 % 6), step(n % 6))
        }
        232..256 => {
            let grey = (8 + (index - 232) * 10) as u8;
            (grey, grey, grey)
        }
        _ if index == NamedColor::Background as usize => colours.background,
        _ => colours.foreground,
    };
    Rgb { r, g, b }
}
