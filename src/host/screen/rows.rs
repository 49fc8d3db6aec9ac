//! Rows of the model as text.

use crate::proto::screen::Row;
use alacritty_terminal::grid::{Dimensions, Grid};
use alacritty_terminal::index::{Column, Line};
use alacritty_terminal::term::cell::{Cell, Flags};

/// A visible row.
pub(super) fn visible(grid: &Grid<Cell>, index: usize) -> Row {
    row(grid, Line(index as i32))
}

/// The row that is `back` rows above the screen's first.
pub(super) fn scrolled(grid: &Grid<Cell>, back: usize) -> Row {
    row(grid, Line(-(back as i32)))
}

fn row(grid: &Grid<Cell>, line: Line) -> Row {
    let cells = &grid[line];
    let cols = grid.columns();
    let wrapped = cells[Column(cols - 1)].flags.contains(Flags::WRAPLINE);
    let mut text = String::with_capacity(cols);
    let mut faint: Vec<(usize, usize)> = Vec::new();
    let mut chars = 0;
    // Length of `text`, and its number of characters, up to the last that is not blank.
    let mut end = (0, 0);
    for column in 0..cols {
        let cell = &cells[Column(column)];
        if cell.flags.intersects(Flags::WIDE_CHAR_SPACER | Flags::LEADING_WIDE_CHAR_SPACER) {
            continue;
        }
        let first = chars;
        // A tab is kept in the first cell that it skips. Hidden text is not on the screen.
        let shown = if cell.c == '\t' || cell.flags.contains(Flags::HIDDEN) { ' ' } else { cell.c };
        text.push(shown);
        chars += 1;
        for mark in cell.zerowidth().into_iter().flatten() {
            text.push(*mark);
            chars += 1;
        }
        if cell.flags.contains(Flags::DIM) {
            match faint.last_mut() {
                Some(range) if range.1 == first => range.1 = chars,
                _ => faint.push((first, chars)),
            }
        }
        if shown != ' ' || chars > first + 1 {
            end = (text.len(), chars);
        }
    }
    // A wrapped row is full: its blanks at the end belong to the line that goes on below.
    if !wrapped {
        text.truncate(end.0);
        faint.retain_mut(|range| {
            range.1 = range.1.min(end.1);
            range.0 < range.1
        });
    }
    Row { text, wrapped, faint }
}
