//! The running story: on a terminal it is redrawn in place, piped it comes as plain lines with time stamps.

use std::cell::Cell;

use drydock_server::embedded::Embedded;
use drydock_server::store::{Event, EventKind};
use drydock_server::view::Snapshot;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::record::Record;
use crate::client::answers::Rollout;
use crate::exit::Result;
use crate::render::time::When;
use crate::render::{event, rollout};
use crate::ui::{Format, Ui};

/// Events read at once; more are read at the next look.
const CHUNK: usize = 20_000;

/// The watcher.
pub(crate) struct Watch {
    ui: Ui,
    bar: Option<ProgressBar>,
    /// Lines go to stderr: stdout is for a result.
    aside: bool,
    /// Number of the last event told.
    last: u64,
    /// The reader of stdout went away.
    gone: Cell<bool>,
}

impl Watch {
    /// Watches from the newest event on.
    pub(crate) fn new(ui: &Ui, aside: bool, embedded: &Embedded) -> Self {
        let bar = ui.live.then(|| {
            let target = if aside { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::stdout() };
            let bar = ProgressBar::with_draw_target(None, target);
            bar.with_style(
                ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_spinner()),
            )
        });
        let last = embedded
            .store()
            .events_before(u64::MAX, 1)
            .ok()
            .and_then(|events| events.first().map(|e| e.number));
        Self { ui: *ui, bar, aside, last: last.unwrap_or(0), gone: Cell::new(false) }
    }

    /// Tells a line.
    pub(crate) fn say(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.println(line),
            None if self.aside => self.ui.note(line),
            None => self.gone.set(self.gone.get() || self.ui.print(line).is_err()),
        }
    }

    /// Nobody reads the story any more.
    pub(crate) fn is_unread(&self) -> bool {
        self.gone.get()
    }

    /// Passes over events up to now without counting them.
    pub(crate) fn catch_up(&mut self, embedded: &Embedded) {
        for event in self.news(embedded) {
            self.tell(&event);
        }
    }

    /// Takes in what happened since the last look, tells it, and redraws.
    pub(crate) fn look(&mut self, embedded: &Embedded, snapshot: &Snapshot, mut record: Option<&mut Record>) {
        let events = self.news(embedded);
        for event in &events {
            if let (Some(record), Some(facts)) = (record.as_deref_mut(), snapshot.facts.as_deref()) {
                record.take(event, &facts.inventory);
            }
            self.tell(event);
        }
        if let (Some(record), Some(facts)) = (record, snapshot.facts.as_deref()) {
            let report = &facts.report;
            let single = report
                .rollouts
                .iter()
                .flat_map(|r| r.waves.iter().flat_map(|w| &w.waits))
                .chain(&report.holds);
            let whole = report.rollouts.iter().flat_map(|r| &r.waits);
            record
                .note_reasons(single.map(|wait| wait.reason.word()).chain(whole.map(|reason| reason.word())));
        }
        self.draw(snapshot);
    }

    fn news(&mut self, embedded: &Embedded) -> Vec<Event> {
        let mut all = Vec::new();
        while let Ok(events) = embedded.store().events_after(self.last, CHUNK) {
            let full = events.len() == CHUNK;
            self.last = events.last().map_or(self.last, |event| event.number);
            all.extend(events);
            if !full {
                break;
            }
        }
        all
    }

    /// Steps of single nodes are too many for a story; `drydock history --nodes` has them.
    fn tell(&self, event: &Event) {
        if matches!(event.what, EventKind::Node { .. }) {
            return;
        }
        if self.ui.format == Format::Json && !self.aside {
            if let Ok(line) = serde_json::to_string(event) {
                self.say(&line);
            }
            return;
        }
        self.say(&format!("{}  {}", event.at.strftime("%a %Y-%m-%d %H:%M:%SZ"), event::line(event)));
    }

    fn draw(&self, snapshot: &Snapshot) {
        let (Some(bar), Some(facts)) = (&self.bar, snapshot.facts.as_deref()) else { return };
        let when = When::new(snapshot.clock.at, None);
        let rows = facts.rollout_rows();
        let rows: Vec<Rollout> = rows.iter().filter_map(|row| same(row).ok()).collect();
        let open: Vec<&Rollout> = rows.iter().filter(|row| !row.state_detail.is_final()).collect();
        let mut out = vec![self.ui.paint.dim(&format!("clock {}", when.at(snapshot.clock.at)))];
        for row in &open {
            out.push(rollout::title(row, &when, self.ui.paint));
            out.push(rollout::waves(row, &when, self.ui.paint, self.ui.width));
        }
        match (open.as_slice(), rows.first()) {
            ([], Some(last)) => {
                out.push(format!("nothing moves; last: {}", rollout::title(last, &when, self.ui.paint)))
            }
            ([], None) => out.push("nothing moves yet".to_owned()),
            _ => {}
        }
        bar.set_message(out.join("\n"));
        bar.tick();
    }

    /// Takes the picture away and leaves the lines.
    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// What is served, as the screens read it: one way of looking at a rollout, running or asked over the API.
fn same(row: &drydock_server::view::RolloutRow) -> Result<Rollout> {
    let value = serde_json::to_value(row).map_err(|error| anyhow::anyhow!(error))?;
    crate::client::parse(&value)
}
