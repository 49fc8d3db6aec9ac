//! Writes a screen model as the bytes that make a terminal show the same.
//!
//! For a viewer that attaches, or that was too slow to get every byte, [`full`] reproduces
//! scrollback, cells, cursor, modes and title, so that the program's next output continues as if the
//! viewer had been there all along. For a viewer of another size, [`Crop`] shows the part that fits.

mod cells;

use super::screen::{SCROLLBACK, Screen};
use alacritty_terminal::grid::{Cursor, Dimensions, Grid};
use alacritty_terminal::index::{Column, Line, Point};
use alacritty_terminal::term::TermMode;
use alacritty_terminal::term::cell::{Cell, Flags};
use alacritty_terminal::vte::ansi::{
    CharsetIndex, CursorShape, CursorStyle, Handler, KeyboardModes, KeyboardModesApplyBehavior,
    StandardCharset,
};
use cells::Pen;

/// Ends any sequence that a viewer was in the middle of, resets it and clears its scrollback.
const CLEAN: &[u8] = b"\x18\x1bc\x1b[3J\x1b[H";

/// Everything, for a terminal of the model's own size.
pub fn full(screen: &mut Screen) -> Vec<u8> {
    let mut out = CLEAN.to_vec();
    if screen.alt_screen() {
        let alt = with_primary(screen, |screen| {
            paint(screen, &mut out);
            place(screen, &mut out);
            push_kitty(&screen.kitty[0], &mut out);
        });
        *screen.term.grid_mut() = alt;
        // Cleared with the default pen; the one of the primary screen is saved with its cursor.
        out.extend_from_slice(b"\x1b[?1049h\x1b[0m\x1b(B\x1b)B\x1b*B\x1b+B\x1b[2J\x1b[H");
        paint(screen, &mut out);
        push_kitty(&screen.kitty[1], &mut out);
    } else {
        paint(screen, &mut out);
        push_kitty(&screen.kitty[0], &mut out);
    }
    palette(screen, &mut out);
    modes(screen, &mut out);
    state(screen, &mut out);
    place(screen, &mut out);
    look(screen, &mut out);
    out.extend_from_slice(&screen.resume());
    out
}

/// The visible part in place, for a terminal of the model's size that has followed all along and
/// only came to show its cells differently, by resizing them its own way. Its scrollback stays.
pub fn visible(screen: &Screen) -> Vec<u8> {
    let grid = screen.term.grid();
    // What would misplace the cells is off while they are painted.
    let mut out = b"\x18\x1b[?25l\x1b[r\x1b[?6l\x1b[4l\x1b[?7h\x1b(B\x1b)B\x0f".to_vec();
    for line in 0..grid.screen_lines() {
        out.extend_from_slice(format!("\x1b[{};1H\x1b[0m\x1b[2K", line + 1).as_bytes());
        cells::cropped(grid, Line(line as i32), grid.columns(), &mut out);
    }
    out.extend_from_slice(b"\x1b[0m");
    state(screen, &mut out);
    place(screen, &mut out);
    if screen.term.mode().contains(TermMode::SHOW_CURSOR) {
        out.extend_from_slice(b"\x1b[?25h");
    }
    out.extend_from_slice(&screen.resume());
    out
}

/// Runs `f` while the primary screen is the active one and returns the alternate screen, which the
/// model clears when it is entered again.
fn with_primary(screen: &mut Screen, f: impl FnOnce(&mut Screen)) -> Grid<Cell> {
    let alt = screen.term.grid().clone();
    let keys = keyboard_flags(screen);
    screen.term.swap_alt();
    f(screen);
    screen.term.swap_alt();
    screen.term.set_keyboard_mode(
        KeyboardModes::from_bits_truncate(keys),
        KeyboardModesApplyBehavior::Replace,
    );
    alt
}

/// The lines of the active screen, oldest first, each on its own row.
fn paint(screen: &Screen, out: &mut Vec<u8>) {
    let grid = screen.term.grid();
    let history = grid.history_size().min(SCROLLBACK) as i32;
    let rows = grid.screen_lines() as i32;
    let mut continues = false;
    for line in -history..rows {
        if line > -history && !continues {
            out.extend_from_slice(b"\r\n");
        }
        continues = cells::line(grid, Line(line), continues, out);
    }
    out.extend_from_slice(b"\x1b[0m");
}

/// Scroll region and saved cursor: what the program's next output depends on besides the cells.
fn state(screen: &Screen, out: &mut Vec<u8>) {
    let grid = screen.term.grid();
    if let Some((top, bottom)) = screen.region {
        out.extend_from_slice(format!("\x1b[{top};{bottom}r").as_bytes());
    }
    let saved = &grid.saved_cursor;
    if *saved != Cursor::default() {
        put(grid, saved, 0, out);
        charsets(|i| saved.charsets[i], out);
        out.extend_from_slice(b"\x1b7");
        charsets_back(|i| saved.charsets[i], out);
    }
    let mode = screen.term.mode();
    for (flag, on) in [
        (TermMode::INSERT, "\x1b[4h"),
        (TermMode::LINE_FEED_NEW_LINE, "\x1b[20h"),
        (TermMode::ORIGIN, "\x1b[?6h"),
    ] {
        if mode.contains(flag) {
            out.extend_from_slice(on.as_bytes());
        }
    }
    if !mode.contains(TermMode::LINE_WRAP) {
        out.extend_from_slice(b"\x1b[?7l");
    }
}

/// Cursor position and pen.
fn place(screen: &Screen, out: &mut Vec<u8>) {
    let grid = screen.term.grid();
    let cursor = &grid.cursor;
    let top = match screen.region {
        Some((top, _)) if screen.term.mode().contains(TermMode::ORIGIN) => i32::from(top) - 1,
        _ => 0,
    };
    put(grid, cursor, top, out);
    charsets(|i| cursor.charsets[i], out);
}

/// Goes to where a cursor is and takes its pen.
fn put(grid: &Grid<Cell>, cursor: &Cursor<Cell>, top: i32, out: &mut Vec<u8>) {
    let mut point = cursor.point;
    if grid[point].flags.contains(Flags::WIDE_CHAR_SPACER) && point.column > 0 {
        point.column -= 1;
    }
    let cell = &grid[point];
    let whole =
        !cell.flags.contains(Flags::WIDE_CHAR) || cells::whole(&grid[point.line], point.column.0);
    // Where the last cell was written and the next character wraps, only writing leads. (In
    // insert mode a character at the edge moves nothing.) A cell that has wrapped since would
    // lose that.
    if cursor.input_needs_wrap && whole && !grid[cursor.point].flags.contains(Flags::WRAPLINE) {
        go(point, top, out);
        Pen::of(cell).select(out);
        cells::content(cell, out);
    } else {
        go(cursor.point, top, out);
    }
    Pen::of(&cursor.template).select(out);
}

fn go(point: Point, top: i32, out: &mut Vec<u8>) {
    let Point { line: Line(line), column: Column(column) } = point;
    out.extend_from_slice(format!("\x1b[{};{}H", line - top + 1, column + 1).as_bytes());
}

const CHARSETS: [(CharsetIndex, char); 4] = [
    (CharsetIndex::G0, '('),
    (CharsetIndex::G1, ')'),
    (CharsetIndex::G2, '*'),
    (CharsetIndex::G3, '+'),
];

fn charsets(charset: impl Fn(CharsetIndex) -> StandardCharset, out: &mut Vec<u8>) {
    for (index, name) in CHARSETS {
        if charset(index) == StandardCharset::SpecialCharacterAndLineDrawing {
            out.extend_from_slice(format!("\x1b{name}0").as_bytes());
        }
    }
}

fn charsets_back(charset: impl Fn(CharsetIndex) -> StandardCharset, out: &mut Vec<u8>) {
    for (index, name) in CHARSETS {
        if charset(index) == StandardCharset::SpecialCharacterAndLineDrawing {
            out.extend_from_slice(format!("\x1b{name}B").as_bytes());
        }
    }
}

fn push_kitty(stack: &[u8], out: &mut Vec<u8>) {
    for flags in stack {
        out.extend_from_slice(format!("\x1b[>{flags}u").as_bytes());
    }
}

fn keyboard_flags(screen: &Screen) -> u8 {
    // The model's bits are in the protocol's order, from `DISAMBIGUATE_ESC_CODES` on.
    ((*screen.term.mode() & TermMode::KITTY_KEYBOARD_PROTOCOL).bits()
        >> TermMode::DISAMBIGUATE_ESC_CODES.bits().trailing_zeros()) as u8
}

/// Colours that the program changed.
fn palette(screen: &Screen, out: &mut Vec<u8>) {
    let colours = screen.term.colors();
    for index in 0..alacritty_terminal::term::color::COUNT {
        let Some(c) = colours[index] else { continue };
        let what = match index {
            0..256 => format!("4;{index}"),
            256..=258 => format!("{}", index - 256 + 10),
            _ => continue,
        };
        let set = format!("\x1b]{what};rgb:{:02x}/{:02x}/{:02x}\x1b\\", c.r, c.g, c.b);
        out.extend_from_slice(set.as_bytes());
    }
}

/// The modes that decide what the viewer's keys and mouse send, and the title.
fn modes(screen: &Screen, out: &mut Vec<u8>) {
    let mode = screen.term.mode();
    for (flag, on) in [
        (TermMode::APP_CURSOR, "\x1b[?1h"),
        (TermMode::APP_KEYPAD, "\x1b="),
        (TermMode::MOUSE_REPORT_CLICK, "\x1b[?1000h"),
        (TermMode::MOUSE_DRAG, "\x1b[?1002h"),
        (TermMode::MOUSE_MOTION, "\x1b[?1003h"),
        (TermMode::FOCUS_IN_OUT, "\x1b[?1004h"),
        (TermMode::UTF8_MOUSE, "\x1b[?1005h"),
        (TermMode::SGR_MOUSE, "\x1b[?1006h"),
        (TermMode::BRACKETED_PASTE, "\x1b[?2004h"),
    ] {
        if mode.contains(flag) {
            out.extend_from_slice(on.as_bytes());
        }
    }
    if !mode.contains(TermMode::ALTERNATE_SCROLL) {
        out.extend_from_slice(b"\x1b[?1007l");
    }
    for (number, on) in &screen.modes {
        let last = if *on { 'h' } else { 'l' };
        out.extend_from_slice(format!("\x1b[?{number}{last}").as_bytes());
    }
    if screen.modify_keys > 0 {
        out.extend_from_slice(format!("\x1b[>4;{}m", screen.modify_keys).as_bytes());
    }
    let flags = keyboard_flags(screen);
    let stack = &screen.kitty[usize::from(screen.alt_screen())];
    if flags != stack.last().copied().unwrap_or(0) {
        out.extend_from_slice(format!("\x1b[={flags};1u").as_bytes());
    }
    // Also an empty one: terminals keep their title through a reset.
    out.extend_from_slice(format!("\x1b]2;{}\x1b\\", screen.title).as_bytes());
}

/// Shape and visibility of the cursor.
fn look(screen: &Screen, out: &mut Vec<u8>) {
    let style = screen.term.cursor_style();
    if style != CursorStyle::default() {
        let shape = match style.shape {
            CursorShape::Underline => 4,
            CursorShape::Beam => 6,
            _ => 2,
        };
        let number = shape - i32::from(style.blinking);
        out.extend_from_slice(format!("\x1b[{number} q").as_bytes());
    }
    if !screen.term.mode().contains(TermMode::SHOW_CURSOR) {
        out.extend_from_slice(b"\x1b[?25l");
    }
}

/// What a viewer of another size has been shown, to send only what changed.
#[derive(Debug, Default)]
pub struct Crop {
    size: (usize, usize),
    setup: Vec<u8>,
    rows: Vec<Vec<u8>>,
    cursor: Vec<u8>,
}

impl Crop {
    /// The bytes that bring a viewer of this size up to date. Empty if nothing changed.
    ///
    /// Shown are the leftmost columns, and the last rows that hold anything or, if the cursor is
    /// above them, those from the cursor on: what matters is at the end, near the cursor.
    pub fn frame(&mut self, screen: &Screen, rows: u16, cols: u16) -> Vec<u8> {
        let size = (usize::from(rows.max(1)), usize::from(cols.max(1)));
        let mut setup = b"\x1b[?7l".to_vec();
        modes(screen, &mut setup);
        let mut out = Vec::new();
        if self.size != size || self.setup != setup {
            out.extend_from_slice(CLEAN);
            out.extend_from_slice(&setup);
            *self = Crop { size, setup, ..Crop::default() };
        }
        self.rows.resize(size.0, b"never painted".to_vec());

        let grid = screen.term.grid();
        let (height, width) = screen.size();
        let Point { line: Line(line), column: Column(column) } = grid.cursor.point;
        let line = line.max(0) as usize;
        let last = (line..height).rev().find(|&i| !cells::is_empty(grid, Line(i as i32)));
        let top = (last.unwrap_or(line) + 1).saturating_sub(size.0).min(line);
        let mut changed = Vec::new();
        for (i, shown) in self.rows.iter_mut().enumerate() {
            let mut row = Vec::new();
            if top + i < height {
                cells::cropped(grid, Line((top + i) as i32), size.1.min(width), &mut row);
            }
            if *shown != row {
                changed.extend_from_slice(format!("\x1b[{};1H\x1b[0m\x1b[2K", i + 1).as_bytes());
                changed.extend_from_slice(&row);
                *shown = row;
            }
        }
        let mut cursor = Vec::new();
        let visible = screen.term.mode().contains(TermMode::SHOW_CURSOR)
            && (top..top + size.0).contains(&line)
            && column < size.1;
        cursor.extend_from_slice(b"\x1b[0m");
        if visible {
            go(Point::new(Line((line - top) as i32), Column(column)), 0, &mut cursor);
            look(screen, &mut cursor);
            cursor.extend_from_slice(b"\x1b[?25h");
        } else {
            cursor.extend_from_slice(b"\x1b[?25l");
        }
        if !changed.is_empty() || self.cursor != cursor || !out.is_empty() {
            // One frame, for terminals that know how to wait for its end.
            out.extend_from_slice(b"\x1b[?2026h\x1b[?25l");
            out.extend_from_slice(&changed);
            out.extend_from_slice(&cursor);
            out.extend_from_slice(b"\x1b[?2026l");
            self.cursor = cursor;
        }
        out
    }
}

#[cfg(test)]
mod tests;
