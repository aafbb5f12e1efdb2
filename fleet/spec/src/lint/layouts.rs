//! Layouts: whether the GPUs of the pools that use them can be cut that way.

use std::collections::{BTreeMap, BTreeSet};

use drydock_gpu::{
    mig::{self, GpuShape, LayoutError, MigLayout, node_resources},
    model::{self, GpuModel},
};

use super::Lint;
use crate::{
    document::Kind,
    kinds::{GpuGroup, LayoutSpec, MigStrategy, Sharing},
    rule::RuleId,
    text::PoolName,
};

pub(super) fn check(lint: &mut Lint<'_, '_>) {
    let fleet = lint.fleet();
    // What a layout is used on: model and GPUs of a node, with the first pool as the example.
    let mut uses: BTreeMap<&str, BTreeMap<(&str, u32), &PoolName>> = BTreeMap::new();
    for (name, pool) in &fleet.pools {
        if let (Some(layout), Some(model)) = (&pool.layout, lint.model(&pool.gpu.model)) {
            uses.entry(layout.as_str()).or_default().entry((model.name, pool.gpu.count)).or_insert(name);
        }
    }
    for (name, layout) in &fleet.layouts {
        let document = (Kind::PartitionLayout, name.as_str());
        sharing(lint, document, layout);
        let sound = groups(lint, document, layout);
        let Some(uses) = uses.get(name.as_str()) else {
            if layout.strategy == MigStrategy::None && layout.gpus.iter().any(is_cut) {
                mismatch(lint, document, "strategy none ignores slices".to_owned());
            }
            continue;
        };
        let mut said = BTreeSet::new();
        for (&(model, count), pool) in uses {
            if let Some(model) = model::lookup(model) {
                one_use(lint, document, layout, (model, count, pool), sound, &mut said);
            }
        }
    }
}

type Document<'a> = (Kind, &'a str);

fn is_cut(group: &GpuGroup) -> bool {
    group.mig.values().any(|&n| n > 0)
}

fn mismatch(lint: &mut Lint<'_, '_>, document: Document<'_>, message: String) {
    let hint = "single: one profile on every GPU; mixed: any; none: no slices".to_owned();
    lint.at(document, path!["strategy"], RuleId::StrategyMismatch, message, Some(hint));
}

fn sharing(lint: &mut Lint<'_, '_>, document: Document<'_>, layout: &LayoutSpec) {
    for (field, sharing) in [("timeSlicing", layout.time_slicing), ("mps", layout.mps)] {
        if let Some(Sharing { replicas, .. }) = sharing
            && replicas < 2
        {
            let hint = format!("remove `{field}`: no sharing is written as absence");
            let message = format!("{replicas} replicas share nothing");
            lint.at(document, path![field, "replicas"], RuleId::ReplicasOne, message, Some(hint));
        }
    }
    if layout.time_slicing.is_some() && layout.mps.is_some() {
        let message = "a device can't be time-sliced and shared by MPS at once".to_owned();
        lint.at(document, path!["mps"], RuleId::SharedTwice, message, Some("keep one of the two".to_owned()));
    }
}

/// Every GPU is in one group at most; true when that is so.
fn groups(lint: &mut Lint<'_, '_>, document: Document<'_>, layout: &LayoutSpec) -> bool {
    let mut seen: BTreeMap<u32, usize> = BTreeMap::new();
    let mut all: Option<usize> = None;
    let mut sound = true;
    for (i, group) in layout.gpus.iter().enumerate() {
        let mut say = |lint: &mut Lint<'_, '_>, path: &[_], message: String| {
            lint.at(document, path, RuleId::DeviceTwice, message, None);
            sound = false;
        };
        match &group.devices {
            None => {
                if i > 0 {
                    say(
                        lint,
                        path!["gpus", i],
                        "this group takes all GPUs, and so does none of the others".to_owned(),
                    );
                }
                all = Some(i);
            }
            Some(indices) => {
                for (j, index) in indices.iter().enumerate() {
                    if let Some(first) = seen.insert(*index, i) {
                        let message = format!("GPU {index} is in group {} already", first + 1);
                        say(lint, path!["gpus", i, "devices", j], message);
                    }
                }
                if all.is_some_and(|first| first != i) {
                    say(lint, path!["gpus", i, "devices"], "an earlier group takes all GPUs".to_owned());
                }
            }
        }
    }
    sound
}

fn one_use(
    lint: &mut Lint<'_, '_>,
    document: Document<'_>,
    layout: &LayoutSpec,
    (model, count, pool): (&GpuModel, u32, &PoolName),
    sound: bool,
    said: &mut BTreeSet<String>,
) {
    let mut shapes: Vec<(Option<MigLayout>, u32)> = Vec::new();
    let mut named: u32 = 0;
    let mut possible = true;
    for (i, group) in layout.gpus.iter().enumerate() {
        for (j, index) in group.devices.iter().flatten().enumerate().filter(|(_, index)| **index >= count) {
            let message = format!("pool `{pool}` has {count} GPUs in a node, so there is no GPU {index}");
            let hint = format!("indices are 0 to {}", count.saturating_sub(1));
            lint.at(document, path!["gpus", i, "devices", j], RuleId::DeviceIndex, message, Some(hint));
            possible = false;
        }
        let size = group.devices.as_ref().map_or(count, |d| u32::try_from(d.len()).unwrap_or(u32::MAX));
        named = named.saturating_add(size);
        if !is_cut(group) {
            shapes.push((None, size));
            continue;
        }
        match slices(model, group) {
            Ok(slices) => shapes.push((Some(slices), size)),
            Err(Impossible { profile, message, hint }) => {
                possible = false;
                let message = format!("{message} (pool `{pool}`)");
                if said.insert(format!("{i} {}: {message}", model.name)) {
                    let place = path!["gpus", i, "mig"] as &[_];
                    match profile {
                        Some(key) => {
                            lint.at_key(document, (place, &key), RuleId::ImpossibleLayout, message, hint)
                        }
                        None => lint.at(document, place, RuleId::ImpossibleLayout, message, hint),
                    }
                }
            }
        }
    }
    if !possible || !sound {
        return;
    }
    // GPUs that stay as they are may be anything, so only what is named can be judged.
    let rest = count.saturating_sub(named);
    if rest > 0 && layout.unnamed == crate::kinds::Unnamed::Whole && !layout.gpus.is_empty() {
        shapes.push((None, rest));
    }
    let strategy = match layout.strategy {
        MigStrategy::None => mig::MigStrategy::None,
        MigStrategy::Single => mig::MigStrategy::Single,
        MigStrategy::Mixed => mig::MigStrategy::Mixed,
    };
    let shapes: Vec<(GpuShape<'_>, u32)> = shapes
        .iter()
        .map(|(layout, n)| (layout.as_ref().map_or(GpuShape::Whole, GpuShape::Partitioned), *n))
        .collect();
    if let Err(error) = node_resources(strategy, &shapes)
        && said.insert(error.to_string())
    {
        mismatch(lint, document, error.to_string());
    }
}

struct Impossible {
    /// The key to point at; the whole group when there is none.
    profile: Option<String>,
    message: String,
    hint: Option<String>,
}

/// The slices of one GPU of a group, when it can hold them.
fn slices(model: &GpuModel, group: &GpuGroup) -> Result<MigLayout, Impossible> {
    let slices = MigLayout::parse(group.mig.iter().map(|(name, &n)| (name.as_str(), n)));
    let slices = slices.map_err(|error| {
        let bad = group.mig.keys().find(|name| name.parse::<mig::ProfileName>().is_err());
        Impossible { profile: bad.cloned(), message: error.to_string(), hint: Some(profiles(model)) }
    })?;
    match mig::place(model, &slices) {
        // Not known isn't impossible: the node's own answer decides.
        Ok(_) | Err(LayoutError::PlacementsUnknown { .. }) => Ok(slices),
        Err(error) => {
            let profile = match &error {
                LayoutError::UnknownProfile { profile, .. }
                | LayoutError::SplitCompute { profile, .. }
                | LayoutError::TooMany { profile, .. } => {
                    group.mig.keys().find(|name| name.parse().is_ok_and(|p: mig::ProfileName| p == *profile))
                }
                LayoutError::ModelHasNoMig { .. }
                | LayoutError::EnginesExhausted { .. }
                | LayoutError::DoesNotFit { .. }
                | LayoutError::PlacementsUnknown { .. } => None,
            };
            let hint = match &error {
                LayoutError::UnknownProfile { .. } => Some(profiles(model)),
                LayoutError::ModelHasNoMig { .. } => {
                    Some("remove `mig`, or the layout from the pool".to_owned())
                }
                _ => None,
            };
            Err(Impossible { profile: profile.cloned(), message: error.to_string(), hint })
        }
    }
}

fn profiles(model: &GpuModel) -> String {
    let names: Vec<String> = model.mig.iter().flat_map(|g| g.profiles).map(|p| p.name.to_string()).collect();
    format!("profiles of {} are {}", model.name, names.join(", "))
}
