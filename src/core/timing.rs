//! Every duration the core counts with, in milliseconds, so that tests and `MADO_TIMING` can
//! change them.

use serde::{Deserialize, Serialize};

/// The durations. `MADO_TIMING` overrides any of them by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Timing {
    /// Silence of `on-idle` where the route does not say (the original's `IDLE_DELAY_MS`).
    pub idle_ms: u64,
    /// Least time between firings of a route where it does not say.
    pub cooldown_ms: u64,
    /// How long a target must have been idle before anything is typed into it.
    pub settle_ms: u64,
    /// How long after a person's last key nothing is typed, even into an empty composer.
    pub human_ms: u64,
    /// How long a person's Enter is believed to have started a turn that no evidence shows yet.
    /// Dialogs were seen 164 to 221 ms after an Enter (claude 2.1.332), hooks after 10 to 30 ms.
    pub human_submit_ms: u64,
    /// How long after a dialog closed its agent is not believed to be idle: what the answer led to
    /// shows late (the status file 97 to 250 ms, claude 2.1.332).
    pub dialog_ms: u64,
    /// How long a composer must have stood in a program whose own signals have not spoken yet.
    pub unheard_ms: u64,
    /// How long a write may take to reach the terminal, and a look to be answered.
    pub write_ms: u64,
    /// How long a shell must have been quiet in the foreground to be idle.
    pub shell_quiet_ms: u64,
    /// Between two readings of a record that does not hold the answer yet.
    pub extract_retry_ms: u64,
    /// How long the answer of an ended turn may take to appear in the record.
    pub extract_timeout_ms: u64,
    /// How long typed text may take to appear in the composer.
    pub echo_ms: u64,
    /// Between two looks at a composer that does not show the text yet.
    pub check_retry_ms: u64,
    /// How long a started program may take to show its composer before people are told.
    pub start_ms: u64,
    /// A gap in the output that ends a batch of `always`.
    pub batch_gap_ms: u64,
    /// A batch of `always` holds at most this many bytes.
    pub batch_bytes: usize,
    /// Hops of one chain over the whole graph.
    pub chain_limit: u32,
    /// Hops that may go out within a minute in one project, sends of people not counted; 0 for no
    /// limit. What comes above it waits.
    pub hops_per_minute: u32,
    /// Tokens that one chain may use, where the route does not say; 0 for no limit.
    pub chain_tokens: u64,
    /// Tokens that the host may use within 24 hours, where the route does not say; 0 for no limit.
    pub day_tokens: u64,
    /// Between two clearing keys.
    pub clear_gap_ms: u64,
    /// How much later than a prompt's hook an idle status must come to overrule it. The status
    /// file was seen to lag hooks by 65 to 170 ms (claude 2.1.197 and 2.1.332).
    pub status_lag_ms: u64,
    /// The host ends when it has had neither agents nor clients for this long.
    pub unused_ms: u64,
    /// Tests: how much later than it came a hook is believed to have come.
    pub hook_delay_ms: u64,
    /// How long an editor may take to answer one batch of events before it counts as stalled.
    pub editor_ms: u64,
}

impl Default for Timing {
    fn default() -> Self {
        Timing {
            idle_ms: 8_000,
            cooldown_ms: 3_000,
            settle_ms: 100,
            human_ms: 1_000,
            human_submit_ms: 1_500,
            dialog_ms: 500,
            unheard_ms: 500,
            write_ms: 5_000,
            shell_quiet_ms: 300,
            extract_retry_ms: 25,
            extract_timeout_ms: 5_000,
            echo_ms: 5_000,
            check_retry_ms: 50,
            start_ms: 60_000,
            batch_gap_ms: 300,
            batch_bytes: 64 * 1024,
            chain_limit: 20,
            hops_per_minute: 60,
            chain_tokens: 0,
            day_tokens: 0,
            clear_gap_ms: 40,
            status_lag_ms: 250,
            unused_ms: 10_000,
            hook_delay_ms: 0,
            editor_ms: 5_000,
        }
    }
}
