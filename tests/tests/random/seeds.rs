//! Schedules that went wrong once, and what was wrong. A change of the generator makes other schedules of the same
//! numbers; then they are only a few more among many.

/// Each with what it found.
pub const SEEDS: &[(u64, &str)] = &[
    (18, "a sample of single nodes split a domain that has to move as a whole"),
    (23, "nodes whose pool had gone from Git were reserved, under no budget"),
    (74, "a machine replaced in the middle of its visit was changed without a cordon"),
    (107, "a failure within what a wave tolerates was tried again and again"),
    (397, "a node soaked on through a time in which it wasn't ready"),
    (262, "a pair check asked the same dead partner for ever"),
    (457, "a halted rollout whose policy went from Git was halted and ended in turn, for ever"),
    (537, "a pause for a broken runner outlived the visit that had met it"),
    (618, "a freeze that a release may pass gave its nodes back, for ever"),
    (1332, "the record of the last node of a cluster kept its part in a rollout that had ended"),
    (1782, "at least one node, counted in GPUs of the largest, was two small ones"),
    (2428, "a node that got sick while it soaked was given the release once more after the halt"),
    (2555, "a budget that only rollback meets let nodes go that could never come back"),
    (3782, "a node that a person had left out was taken again in the same pass"),
    (4171, "a takeover blamed a version for the time that the one before it took"),
    (5825, "a takeover lost the part of a node whose pool had gone"),
    (6975, "helping a sick node passed the limit of its rack"),
    (12923, "between two rollouts a rebooting node counted as broken before"),
    (18434, "a release proven on a pool was suspected there because of another pool"),
    (24178, "a takeover checked a node that was still rebooting for the old release"),
    (36436, "a rollback took back what can't be taken back"),
    (37717, "a takeover turned a node to a release that had failed there"),
    (59241, "a node whose label went was judged by another pool than it was changed for"),
    (61894, "a node that somebody uncordoned while it rebooted was given up as lost"),
    (64195, "latecomers of a domain joined another wave than the rest of it"),
    (65255, "a node that somebody cordoned while it soaked was taken all the same"),
    (102532, "a domain took back what can't be taken back"),
    (125593, "a commit that goes back passed a budget that covers ways back"),
];
