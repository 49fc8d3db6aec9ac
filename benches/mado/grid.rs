//! What Neovim has drawn, kept from its redraw events (`ext_linegrid`).
#![allow(clippy::pedantic, reason = "style lints are for the product")]

use rmpv::Value;

/// The cells of Neovim's one grid.
#[derive(Debug, Default)]
pub struct Grid {
    rows: Vec<Vec<String>>,
}

impl Grid {
    /// Takes one batch of redraw events.
    pub fn redraw(&mut self, batch: &[Value]) {
        for event in batch {
            let Some((name, calls)) = event.as_array().and_then(|e| e.split_first()) else {
                continue;
            };
            for call in calls {
                let Some(args) = call.as_array() else { continue };
                match name.as_str() {
                    Some("grid_resize") => self.resize(number(args, 1), number(args, 2)),
                    Some("grid_clear") => self.clear(),
                    Some("grid_line") => self.line(args),
                    Some("grid_scroll") => self.scroll(args),
                    _ => {}
                }
            }
        }
    }

    fn resize(&mut self, cols: usize, rows: usize) {
        self.rows = vec![vec![" ".to_owned(); cols]; rows];
    }

    fn clear(&mut self) {
        for cell in self.rows.iter_mut().flatten() {
            " ".clone_into(cell);
        }
    }

    /// `[grid, row, start, [[text, highlight?, repeat?]…], …]`
    fn line(&mut self, args: &[Value]) {
        let Some(row) = self.rows.get_mut(number(args, 1)) else { return };
        let mut at = number(args, 2);
        for cell in args.get(3).and_then(Value::as_array).into_iter().flatten() {
            let Some(cell) = cell.as_array() else { continue };
            let text = cell.first().and_then(Value::as_str).unwrap_or(" ");
            let times = cell.get(2).and_then(Value::as_u64).unwrap_or(1) as usize;
            for _ in 0..times {
                if let Some(place) = row.get_mut(at) {
                    text.clone_into(place);
                }
                at += 1;
            }
        }
    }

    /// `[grid, top, bottom, left, right, rows, cols]`: the region moves up by `rows`, or down if
    /// that is negative.
    fn scroll(&mut self, args: &[Value]) {
        let (top, bottom) = (number(args, 1), number(args, 2).min(self.rows.len()));
        let (left, right) = (number(args, 3), number(args, 4));
        let by = args.get(5).and_then(Value::as_i64).unwrap_or(0);
        let targets: Vec<usize> =
            if by > 0 { (top..bottom).collect() } else { (top..bottom).rev().collect() };
        for target in targets {
            let source = target as i64 + by;
            if (top as i64..bottom as i64).contains(&source) {
                let cells = self.rows[source as usize].get(left..right).map(<[String]>::to_vec);
                let place = self.rows[target].get_mut(left..right);
                if let (Some(cells), Some(place)) = (cells, place) {
                    place.clone_from_slice(&cells);
                }
            }
        }
    }

    /// The text of a cell.
    pub fn cell(&self, row: usize, col: usize) -> &str {
        self.rows.get(row).and_then(|r| r.get(col)).map_or("", String::as_str)
    }

    /// Some row contains this.
    pub fn shows(&self, text: &str) -> bool {
        self.rows.iter().any(|row| row.concat().contains(text))
    }

    /// Some row begins with this.
    pub fn starts_row(&self, text: &str) -> bool {
        let first = text.chars().next().map(String::from);
        self.rows.iter().any(|row| row.first() == first.as_ref() && row.concat().starts_with(text))
    }

    /// All of it, for messages.
    pub fn text(&self) -> String {
        self.rows.iter().map(|row| row.concat().trim_end().to_owned() + "\n").collect()
    }
}

fn number(args: &[Value], at: usize) -> usize {
    args.get(at).and_then(Value::as_u64).unwrap_or(0) as usize
}
