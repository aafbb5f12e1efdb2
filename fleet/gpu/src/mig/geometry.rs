//! The shape of a GPU under MIG: which instances exist and where they may start.

use std::fmt;

use super::profile::ProfileName;

/// How a GPU is divided. A unit is an equal part of device memory and is not a compute slice.
///
/// Sources: NVIDIA MIG user guide, chapter "Supported MIG profiles"; `nvidia-smi mig -lgipp` listings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MigFamily {
    /// 7 compute slices over 8 memory units: A100, H100, H200, B200 and their kin.
    SevenEight,
    /// 4 compute slices over 4 memory units: A30.
    FourFour,
    /// 4 compute slices over 12 memory units: RTX PRO 6000 Blackwell.
    FourTwelve,
    /// Names and counts are published, placements are not: RTX PRO 5000 and 4500 Blackwell.
    Unpublished,
}

impl MigFamily {
    /// Memory units of one GPU; `None` where they aren't published.
    pub const fn memory_units(self) -> Option<u8> {
        match self {
            MigFamily::SevenEight => Some(8),
            MigFamily::FourFour => Some(4),
            MigFamily::FourTwelve => Some(12),
            MigFamily::Unpublished => None,
        }
    }
}

/// Where instances of a profile may lie, in memory units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slots {
    /// Allowed first units, ascending.
    pub starts: &'static [u8],
    /// Units taken from the start on.
    pub size: u8,
}

/// Fixed-function engines, as counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Engines {
    /// Video decoders.
    pub nvdec: u8,
    /// Video encoders.
    pub nvenc: u8,
    /// JPEG decoders.
    pub jpeg: u8,
    /// Optical flow accelerators.
    pub ofa: u8,
}

/// An engine that instances compete for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Engine {
    /// Video decoder.
    Nvdec,
    /// Video encoder.
    Nvenc,
    /// JPEG decoder.
    Jpeg,
    /// Optical flow accelerator.
    Ofa,
}

impl Engine {
    /// Every kind.
    pub const ALL: [Engine; 4] = [Engine::Nvdec, Engine::Nvenc, Engine::Jpeg, Engine::Ofa];
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Engine::Nvdec => "NVDEC",
            Engine::Nvenc => "NVENC",
            Engine::Jpeg => "JPEG",
            Engine::Ofa => "OFA",
        })
    }
}

impl Engines {
    /// The count of one kind.
    pub const fn of(self, engine: Engine) -> u8 {
        match engine {
            Engine::Nvdec => self.nvdec,
            Engine::Nvenc => self.nvenc,
            Engine::Jpeg => self.jpeg,
            Engine::Ofa => self.ofa,
        }
    }
}

/// One kind of GPU instance that a GPU offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MigProfile {
    /// The name drivers print for this GPU.
    pub name: ProfileName,
    /// Allowed places; `None` in the family whose placements aren't published.
    pub slots: Option<Slots>,
    /// Instances of this profile that one GPU can hold at once.
    pub max_instances: u8,
    /// Engines each instance takes; `None` where the GPU's capacity isn't known and nothing can be checked.
    pub engines: Option<Engines>,
    /// Lowest driver that offers the profile where it came later than MIG itself.
    pub min_driver: Option<&'static str>,
}

/// The MIG geometry of a GPU model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MigGeometry {
    /// Name of the table row.
    pub name: &'static str,
    /// How the GPU is divided.
    pub family: MigFamily,
    /// Lowest driver with MIG on this GPU.
    pub min_driver: &'static str,
    /// Every profile of the GPU.
    pub profiles: &'static [MigProfile],
    /// Other names under which some driver printed a profile, with the name in `profiles`. A name is rounded
    /// from the total memory a driver reports, so the same slice can be 7g.79gb on one and 7g.80gb on another.
    pub aliases: &'static [(ProfileName, ProfileName)],
    /// Engines of the whole GPU, where instances compete for them.
    pub engine_capacity: Option<Engines>,
    /// Public source of the row.
    pub source: &'static str,
}

impl MigGeometry {
    /// The profile of that name or alias. Names that split compute slices are never found.
    pub fn find(&self, name: ProfileName) -> Option<&'static MigProfile> {
        let canonical = self.aliases.iter().find(|(other, _)| *other == name).map_or(name, |(_, own)| *own);
        self.profiles.iter().find(|p| p.name == canonical)
    }
}
