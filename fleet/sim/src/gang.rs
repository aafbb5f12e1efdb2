//! Jobs that span nodes: they run, write checkpoints, end, and start again elsewhere.

use drydock_plan::{GangId, NodeId, ObservedGang};
use drydock_spec::{Period, PoolName, TenantName};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::Draw;

/// A place in the queue that is always filled: when its job ends, the next one of the same size takes its turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Gang {
    pub(crate) pool: PoolName,
    pub(crate) zone: u32,
    pub(crate) size: u32,
    pub(crate) tenant: Option<TenantName>,
    /// Number of its job, part of the id.
    pub(crate) run: u32,
    /// Work the job has still to do.
    pub(crate) left: Period,
    /// Time between checkpoints; absent means none, ever.
    pub(crate) every: Option<Period>,
    pub(crate) state: GangState,
    /// It isn't replaced when it ends.
    pub(crate) once: bool,
    /// The number and the id under which readers see it.
    pub(crate) shown: Option<(u32, GangId)>,
}

/// Where a job is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum GangState {
    /// It waits for nodes.
    Pending { try_at: Timestamp },
    /// It runs.
    Running(Running),
    /// It won't come again.
    Over,
}

/// A job that runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Running {
    /// Sorted.
    pub(crate) nodes: Vec<NodeId>,
    pub(crate) ends: Timestamp,
    /// Start of the last checkpoint that was completed, or of the job.
    pub(crate) last_checkpoint: Timestamp,
    /// When it was completed.
    pub(crate) completed: Timestamp,
    /// When the next one begins by itself.
    pub(crate) next: Option<Timestamp>,
    /// One is being written.
    pub(crate) writing: Option<Writing>,
    /// Somebody waits for a checkpoint, so that its completion is news.
    pub(crate) asked: bool,
}

/// A checkpoint that is being written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Writing {
    pub(crate) started: Timestamp,
    pub(crate) until: Timestamp,
}

/// What happened to a job at its turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum GangEvent {
    /// It wants nodes.
    Wants,
    /// It ended on these.
    Ended(Vec<NodeId>),
    /// A checkpoint is complete.
    Checkpointed(Vec<NodeId>),
    /// A checkpoint has begun.
    Writes,
    /// Nothing.
    Nothing,
}

impl Gang {
    /// Its id: tenant (or pool), place and number.
    pub(crate) fn id(&self, slot: u32) -> GangId {
        let owner = self.tenant.as_ref().map_or(self.pool.as_str(), TenantName::as_str);
        GangId::new(&format!("{owner}/{}-{slot}-{}", self.pool, self.run))
    }
    pub(crate) fn running(&self) -> Option<&Running> {
        match &self.state {
            GangState::Running(running) => Some(running),
            GangState::Pending { .. } | GangState::Over => None,
        }
    }
    pub(crate) fn running_mut(&mut self) -> Option<&mut Running> {
        match &mut self.state {
            GangState::Running(running) => Some(running),
            GangState::Pending { .. } | GangState::Over => None,
        }
    }
    /// What can be observed of it.
    pub(crate) fn show(&self) -> Option<ObservedGang> {
        self.running().map(|running| ObservedGang {
            tenant: self.tenant.clone(),
            nodes: running.nodes.clone(),
            last_checkpoint: running.last_checkpoint,
            expected_end: Some(running.ends),
        })
    }
    /// The next instant that is news to a planner.
    pub(crate) fn next_signal(&self) -> Option<Timestamp> {
        let running = self.running()?;
        let written = running.writing.filter(|_| running.asked).map(|w| w.until);
        written.into_iter().chain([running.ends]).min()
    }
    /// The next instant that isn't.
    pub(crate) fn next_background(&self) -> Option<Timestamp> {
        match &self.state {
            GangState::Pending { try_at } => Some(*try_at),
            GangState::Running(running) => {
                let written = running.writing.filter(|_| !running.asked).map(|w| w.until);
                written.or(running.next.filter(|_| running.writing.is_none()))
            }
            GangState::Over => None,
        }
    }
    /// The length of one job: from two hours to a day and a half, longer ones for larger jobs.
    pub(crate) fn fresh_work(draw: Draw, size: u32) -> Period {
        let most = 12 + u64::from(size.min(16)) * 3 / 2;
        Period::from_mins(draw.text("length").between(120, most * 60))
    }
    /// Takes nodes and runs.
    pub(crate) fn start(&mut self, nodes: Vec<NodeId>, now: Timestamp) {
        self.state = GangState::Running(Running {
            nodes,
            ends: self.left.after(now),
            last_checkpoint: now,
            completed: now,
            next: self.every.map(|every| every.after(now)),
            writing: None,
            asked: false,
        });
    }
    /// Begins a checkpoint now, unless one is being written.
    pub(crate) fn ask(&mut self, draw: Draw, now: Timestamp) {
        if self.every.is_none() {
            return;
        }
        if let Some(running) = self.running_mut() {
            running.asked = true;
            running
                .writing
                .get_or_insert_with(|| Writing { started: now, until: write_time(draw, now).after(now) });
        }
    }
    /// Leaves its nodes without having ended; what was done since the last checkpoint is done again. Returns the
    /// nodes and the time lost.
    pub(crate) fn suspend(&mut self, now: Timestamp, retry: Period) -> Option<(Vec<NodeId>, Period)> {
        let GangState::Running(running) = &self.state else { return None };
        let lost = Period::between(running.last_checkpoint, now);
        let nodes = running.nodes.clone();
        self.left = Period::between(now, running.ends).saturating_add(lost);
        self.state = GangState::Pending { try_at: retry.after(now) };
        Some((nodes, lost))
    }
    /// Carries out what is due at `now`.
    pub(crate) fn turn(&mut self, draw: Draw, now: Timestamp) -> GangEvent {
        let (every, once, size) = (self.every, self.once, self.size);
        match &mut self.state {
            GangState::Pending { try_at } if *try_at <= now => GangEvent::Wants,
            GangState::Running(running) => {
                if running.ends <= now {
                    let nodes = std::mem::take(&mut running.nodes);
                    self.run = self.run.saturating_add(1);
                    let next = draw.text("next").number(self.run.into());
                    self.left = Self::fresh_work(next, size);
                    // The next job of the queue takes some minutes to start.
                    let pause = Period::from_secs(next.between(60, 600));
                    self.state =
                        if once { GangState::Over } else { GangState::Pending { try_at: pause.after(now) } };
                    return GangEvent::Ended(nodes);
                }
                if let Some(writing) = running.writing
                    && writing.until <= now
                {
                    running.last_checkpoint = writing.started;
                    running.completed = now;
                    running.writing = None;
                    running.asked = false;
                    running.next = every.map(|every| every.after(now));
                    return GangEvent::Checkpointed(running.nodes.clone());
                }
                if running.next.is_some_and(|next| next <= now) && running.writing.is_none() {
                    let until = write_time(draw, now).after(now);
                    running.writing = Some(Writing { started: now, until });
                    running.next = None;
                    return GangEvent::Writes;
                }
                GangEvent::Nothing
            }
            GangState::Pending { .. } | GangState::Over => GangEvent::Nothing,
        }
    }
}

/// Writing a checkpoint takes half a minute to two.
fn write_time(draw: Draw, now: Timestamp) -> Period {
    Period::from_secs(draw.text("write").number(now.as_second().unsigned_abs()).between(30, 120))
}
