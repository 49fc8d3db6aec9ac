//! Cells and their attributes as bytes.

use alacritty_terminal::grid::{Dimensions, Grid, Row};
use alacritty_terminal::index::{Column, Line};
use alacritty_terminal::term::cell::{Cell, Flags, Hyperlink};
use alacritty_terminal::vte::ansi::{Color, NamedColor};
use std::io::Write;

/// What SGR and OSC 8 set.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pen {
    fg: Color,
    bg: Color,
    flags: Flags,
    underline: Option<Color>,
    link: Option<Hyperlink>,
}

/// Flags that belong to the place of a cell and not to the pen.
const PLACE: Flags = Flags::WRAPLINE
    .union(Flags::WIDE_CHAR)
    .union(Flags::WIDE_CHAR_SPACER)
    .union(Flags::LEADING_WIDE_CHAR_SPACER);

impl Default for Pen {
    fn default() -> Self {
        Pen::of(&Cell::default())
    }
}

impl Pen {
    pub(super) fn of(cell: &Cell) -> Pen {
        Pen {
            fg: cell.fg,
            bg: cell.bg,
            flags: cell.flags.difference(PLACE),
            underline: cell.underline_color(),
            link: cell.hyperlink(),
        }
    }

    /// Whether a cell was drawn with this pen. Cheaper than making one of it.
    fn drew(&self, cell: &Cell) -> bool {
        self.fg == cell.fg
            && self.bg == cell.bg
            && self.flags == cell.flags.difference(PLACE)
            && match &cell.extra {
                None => self.underline.is_none() && self.link.is_none(),
                Some(_) => {
                    self.underline == cell.underline_color() && self.link == cell.hyperlink()
                }
            }
    }

    /// Selects this pen, whatever was selected before.
    pub(super) fn select(&self, out: &mut Vec<u8>) {
        self.select_after(None, out);
    }

    fn select_after(&self, before: Option<&Pen>, out: &mut Vec<u8>) {
        // Writing to a `Vec` cannot fail.
        let _ = self.write_sgr(out);
        if before.is_none_or(|b| b.link != self.link) {
            let _ = match &self.link {
                Some(link) => write!(out, "\x1b]8;id={};{}\x1b\\", link.id(), link.uri()),
                // A terminal that has just been reset has none.
                None if before.is_none_or(|b| b.link.is_none()) => Ok(()),
                None => write!(out, "\x1b]8;;\x1b\\"),
            };
        }
    }

    fn write_sgr(&self, out: &mut Vec<u8>) -> std::io::Result<()> {
        out.extend_from_slice(b"\x1b[0");
        for (flag, code) in [
            (Flags::BOLD, ";1"),
            (Flags::DIM, ";2"),
            (Flags::ITALIC, ";3"),
            (Flags::UNDERLINE, ";4"),
            (Flags::DOUBLE_UNDERLINE, ";4:2"),
            (Flags::UNDERCURL, ";4:3"),
            (Flags::DOTTED_UNDERLINE, ";4:4"),
            (Flags::DASHED_UNDERLINE, ";4:5"),
            (Flags::INVERSE, ";7"),
            (Flags::HIDDEN, ";8"),
            (Flags::STRIKEOUT, ";9"),
        ] {
            if self.flags.contains(flag) {
                out.extend_from_slice(code.as_bytes());
            }
        }
        for (colour, plain, bright, extended) in [(self.fg, 30, 90, 38), (self.bg, 40, 100, 48)] {
            match colour {
                Color::Named(name) => match name as usize {
                    n @ 0..8 => write!(out, ";{}", plain + n)?,
                    n @ 8..16 => write!(out, ";{}", bright + n - 8)?,
                    // The default colours, which the leading zero has selected.
                    _ => {}
                },
                Color::Indexed(index) => write!(out, ";{extended};5;{index}")?,
                Color::Spec(c) => write!(out, ";{extended};2;{};{};{}", c.r, c.g, c.b)?,
            }
        }
        // With colons: a terminal that does not know it then skips it as a whole.
        match self.underline {
            Some(Color::Indexed(index)) => write!(out, ";58:5:{index}")?,
            Some(Color::Spec(c)) => write!(out, ";58:2::{}:{}:{}", c.r, c.g, c.b)?,
            Some(Color::Named(name)) if (name as usize) < 16 => {
                write!(out, ";58:5:{}", name as usize)?;
            }
            _ => {}
        }
        out.push(b'm');
        Ok(())
    }
}

/// A cell's characters.
pub(super) fn content(cell: &Cell, out: &mut Vec<u8>) {
    let c = if cell.c.is_control() { ' ' } else { cell.c };
    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    for mark in cell.zerowidth().into_iter().flatten() {
        out.extend_from_slice(mark.encode_utf8(&mut [0; 4]).as_bytes());
    }
}

/// A cell that a cleared terminal shows anyway.
fn untouched(cell: &Cell) -> bool {
    (cell.c == ' ' || cell.c == '\t')
        && cell.fg == Color::Named(NamedColor::Foreground)
        && cell.bg == Color::Named(NamedColor::Background)
        && cell.flags.difference(Flags::WRAPLINE).is_empty()
        && cell.extra.is_none()
}

/// Whether a line shows nothing.
pub(super) fn is_empty(grid: &Grid<Cell>, line: Line) -> bool {
    (0..grid.columns()).all(|column| untouched(&grid[line][Column(column)]))
}

/// One line, from the first column on. With `continues`, at least one cell is written, since
/// that is what wraps the line before. Returns whether the line itself goes on below. Leaves the
/// default pen.
pub(super) fn line(grid: &Grid<Cell>, line: Line, continues: bool, out: &mut Vec<u8>) -> bool {
    let row = &grid[line];
    let cols = grid.columns();
    let last = &row[Column(cols - 1)];
    let wraps = last.flags.contains(Flags::WRAPLINE) && line.0 + 1 < grid.screen_lines() as i32;
    let mut end = cols;
    if !wraps {
        while end > 0 && untouched(&row[Column(end - 1)]) {
            end -= 1;
        }
        if continues {
            end = end.max(1);
        }
    }
    let mut pen = Pen::default();
    let mut column = 0;
    while column < end {
        let cell = &row[Column(column)];
        if column + 1 == cols
            && wraps
            && cell.flags.contains(Flags::LEADING_WIDE_CHAR_SPACER)
            && whole(&grid[line + 1_i32], 0)
        {
            // The wide character of the next line does not fit here and leaves this cell itself.
            break;
        }
        column += write(row, column, &mut pen, out);
    }
    finish(&pen, out);
    if continues && end < cols {
        // A line that was scrolled in by a wrap has the background of the character that wrapped.
        out.extend_from_slice(b"\x1b[K");
    }
    wraps
}

/// The first `cols` cells of a line. A wide character that would stick out is left away. Leaves the
/// default pen.
pub(super) fn cropped(grid: &Grid<Cell>, line: Line, cols: usize, out: &mut Vec<u8>) {
    let row = &grid[line];
    let mut end = cols;
    while end > 0 && untouched(&row[Column(end - 1)]) {
        end -= 1;
    }
    let mut pen = Pen::default();
    let mut column = 0;
    while column < end {
        let cell = &row[Column(column)];
        if column + 1 == cols && cell.flags.contains(Flags::WIDE_CHAR) {
            break;
        }
        column += write(row, column, &mut pen, out);
    }
    finish(&pen, out);
}

/// Writes the cell in this column and returns its width.
fn write(row: &Row<Cell>, column: usize, pen: &mut Pen, out: &mut Vec<u8>) -> usize {
    let cell = &row[Column(column)];
    if !pen.drew(cell) {
        let next = Pen::of(cell);
        next.select_after(Some(pen), out);
        *pen = next;
    }
    if whole(row, column) {
        content(cell, out);
        return 2;
    }
    let half = Flags::WIDE_CHAR | Flags::WIDE_CHAR_SPACER | Flags::LEADING_WIDE_CHAR_SPACER;
    if cell.flags.intersects(half) {
        // One half of a wide character whose other half was overwritten or moved away.
        out.push(b' ');
    } else {
        content(cell, out);
    }
    1
}

/// Whether a wide character begins here and has both its cells.
pub(super) fn whole(row: &Row<Cell>, column: usize) -> bool {
    row[Column(column)].flags.contains(Flags::WIDE_CHAR)
        && column + 1 < row.len()
        && row[Column(column + 1)].flags.contains(Flags::WIDE_CHAR_SPACER)
}

fn finish(pen: &Pen, out: &mut Vec<u8>) {
    if *pen != Pen::default() {
        Pen::default().select_after(Some(pen), out);
    }
}
