//! Medians, percentiles, and the table that is printed.
#![allow(clippy::pedantic, reason = "style lints are for the product")]

use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// One line of the table.
#[derive(Debug)]
pub struct Row {
    /// What was measured.
    pub what: String,
    /// The baseline of the same run.
    pub base: String,
    /// mado.
    pub mado: String,
    /// mado over the baseline, or the difference.
    pub against: String,
    /// What is wanted, and whether it was met.
    pub wanted: Option<(String, bool)>,
}

/// Samples of one quantity.
#[derive(Debug, Clone, Default)]
pub struct Samples(Vec<f64>);

impl Samples {
    /// Adds a duration, in milliseconds.
    pub fn push(&mut self, duration: Duration) {
        self.0.push(duration.as_secs_f64() * 1000.0);
    }

    /// Adds a number.
    pub fn push_number(&mut self, number: f64) {
        self.0.push(number);
    }

    /// Adds another's samples.
    pub fn extend(&mut self, other: Samples) {
        self.0.extend(other.0);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The nearest-rank percentile.
    pub fn percentile(&self, percent: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
        sorted.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
    }

    /// The median.
    pub fn median(&self) -> f64 {
        self.percentile(50.0)
    }

    /// Median and a high percentile in milliseconds, as the table shows them.
    pub fn show(&self, percent: f64) -> String {
        format!("{:.2} / {:.2}", self.median(), self.percentile(percent))
    }
}

/// The rows as a Markdown table.
pub fn table(rows: &[Row]) -> String {
    let head = ["", "baseline", "mado", "against it", "wanted"].map(String::from);
    let mut lines = vec![head];
    for row in rows {
        let wanted = match &row.wanted {
            None => String::new(),
            Some((what, true)) => format!("{what}: met"),
            Some((what, false)) => format!("{what}: **missed**"),
        };
        let Row { what, base, mado, against, .. } = row;
        lines.push([what.clone(), base.clone(), mado.clone(), against.clone(), wanted]);
    }
    let width = |i: usize| lines.iter().map(|l| l[i].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..5).map(width).collect();
    let row = |cells: &[String; 5]| -> String {
        let cell = |(cell, width): (&String, &usize)| format!("| {cell:width$} ");
        cells.iter().zip(&widths).map(cell).collect::<Vec<_>>().concat() + "|\n"
    };
    let rule: Vec<String> = widths.iter().map(|width| "-".repeat(width + 2)).collect();
    let mut out = row(&lines[0]) + "|" + &rule.join("|") + "|\n";
    out.extend(lines[1..].iter().map(row));
    out
}

/// The machine, as far as figures depend on it.
pub fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let system = rustix::system::uname();
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    format!(
        "{} {} ({}), {cores} cores, load average {}, {}",
        system.sysname().to_string_lossy(),
        system.release().to_string_lossy(),
        system.machine().to_string_lossy(),
        load(),
        date(seconds)
    )
}

/// The load average of the last minute.
pub fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or("unknown").to_owned()
}

/// The date of a moment, in UTC (days to a civil date, after Howard Hinnant).
fn date(seconds: u64) -> String {
    let days = (seconds / 86_400 + 719_468) as i64;
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year}-{month:02}-{day:02}")
}
