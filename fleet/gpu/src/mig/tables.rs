//! MIG geometry of every known model.
//!
//! Sources, unless a row says otherwise: NVIDIA MIG user guide, "Supported MIG profiles" and "Supported GPUs"
//! (driver floors), <https://docs.nvidia.com/datacenter/tesla/mig-user-guide/>; names of models the guide lacks from
//! `NVIDIA/mig-parted`, `deployments/systemd/config-default.yaml`. Mock tables of `NVIDIA/go-nvml` are not used: they
//! give 3g three units instead of four on Hopper and Blackwell, and so allow layouts that hardware refuses.

use super::geometry::{Engines, MigFamily, MigGeometry, MigProfile, Slots};
use super::profile::{ProfileName, Variant};

const GUIDE: &str = "NVIDIA MIG user guide, supported MIG profiles";
const PARTED: &str = "NVIDIA/mig-parted default configuration; placements by family";

const fn profile(
    slices: u8,
    memory_gb: u16,
    variant: Variant,
    starts: &'static [u8],
    size: u8,
    max_instances: u8,
) -> MigProfile {
    MigProfile {
        name: ProfileName::new(slices, memory_gb, variant),
        slots: Some(Slots { starts, size }),
        max_instances,
        engines: None,
        min_driver: None,
    }
}

const fn since(mut profile: MigProfile, driver: &'static str) -> MigProfile {
    profile.min_driver = Some(driver);
    profile
}

const fn with_engines(mut profile: MigProfile, media: u8, ofa: u8) -> MigProfile {
    profile.engines = Some(Engines { nvdec: media, nvenc: media, jpeg: media, ofa });
    profile
}

const fn unplaced(slices: u8, memory_gb: u16, variant: Variant, max_instances: u8) -> MigProfile {
    MigProfile {
        name: ProfileName::new(slices, memory_gb, variant),
        slots: None,
        max_instances,
        engines: None,
        min_driver: None,
    }
}

/// The seven profiles of the 7/8 family; arguments are the memory names of one, two, four and eight units.
///
/// 3g takes four units although it has three compute slices, and unit 7 belongs to no 1g: that is why the sum of
/// slices says nothing about validity.
const fn seven_eight(one: u16, two: u16, four: u16, eight: u16) -> [MigProfile; 7] {
    [
        profile(1, one, Variant::Plain, &[0, 1, 2, 3, 4, 5, 6], 1, 7),
        profile(1, one, Variant::WithMedia, &[0, 1, 2, 3, 4, 5, 6], 1, 1),
        profile(1, two, Variant::Plain, &[0, 2, 4, 6], 2, 4),
        profile(2, two, Variant::Plain, &[0, 2, 4], 2, 3),
        profile(3, four, Variant::Plain, &[0, 4], 4, 2),
        profile(4, four, Variant::Plain, &[0], 4, 1),
        profile(7, eight, Variant::Plain, &[0], 8, 1),
    ]
}

const fn row(
    name: &'static str,
    min_driver: &'static str,
    profiles: &'static [MigProfile],
    source: &'static str,
) -> MigGeometry {
    MigGeometry {
        name,
        family: MigFamily::SevenEight,
        min_driver,
        profiles,
        aliases: &[],
        engine_capacity: None,
        source,
    }
}

const fn alias(slices: u8, other: u16, own: u16) -> (ProfileName, ProfileName) {
    (ProfileName::new(slices, other, Variant::Plain), ProfileName::new(slices, own, Variant::Plain))
}

/// A30 with 24 GB.
pub static A30_24: MigGeometry = MigGeometry {
    family: MigFamily::FourFour,
    ..row(
        "A30-24GB",
        "460.73.01",
        &[
            profile(1, 6, Variant::Plain, &[0, 1, 2, 3], 1, 4),
            since(profile(1, 6, Variant::WithMedia, &[0, 1, 2, 3], 1, 1), "470"),
            profile(2, 12, Variant::Plain, &[0, 2], 2, 2),
            since(profile(2, 12, Variant::WithMedia, &[0, 2], 2, 1), "525"),
            profile(4, 24, Variant::Plain, &[0], 4, 1),
        ],
        GUIDE,
    )
};

static A100_40_PROFILES: [MigProfile; 7] = {
    let mut p = seven_eight(5, 10, 20, 40);
    p[1] = since(p[1], "470");
    p[2] = since(p[2], "525");
    p
};
/// A100 and A800 with 40 GB.
pub static A100_40: MigGeometry = row("A100-40GB", "450.80.02", &A100_40_PROFILES, GUIDE);

static EIGHTY: [MigProfile; 7] = seven_eight(10, 20, 40, 80);
/// A100 and A800 with 80 GB. Aliases: NVIDIA/gpu-operator issue 351, NVIDIA/mig-parted issue 31; 4g rounds as 3g does.
pub static A100_80: MigGeometry = MigGeometry {
    aliases: &[alias(7, 79, 80), alias(3, 39, 40), alias(4, 39, 40)],
    ..row("A100-80GB", "450.80.02", &EIGHTY, GUIDE)
};
/// H100 and H800 with 80 GB.
pub static H100_80: MigGeometry = row("H100-80GB", "525.85.12", &EIGHTY, GUIDE);

static NINETY_FOUR: [MigProfile; 7] = seven_eight(12, 24, 47, 94);
/// H100 NVL and H100 SXM5 with 94 GB.
pub static H100_94: MigGeometry = row("H100-94GB", "525.85.12", &NINETY_FOUR, GUIDE);

static NINETY_SIX: [MigProfile; 7] = seven_eight(12, 24, 48, 96);
/// H100 with 96 GB, also as half of GH200.
pub static H100_96: MigGeometry = row("H100-96GB", "525.85.12", &NINETY_SIX, GUIDE);
/// H20 with 96 GB: the geometry of H100-96GB, offered from a later driver on.
pub static H20_96: MigGeometry = row("H20-96GB", "535.161.07", &NINETY_SIX, GUIDE);
/// A100 with 96 GB (board PG506); geometry as mig-parted groups it, driver floor as every A100.
pub static A100_96: MigGeometry = row("A100-96GB", "450.80.02", &NINETY_SIX, PARTED);

static GH200_144_PROFILES: [MigProfile; 7] = seven_eight(18, 36, 72, 144);
/// GH200 with 144 GB. The driver floor is that of H200, its sibling; none is published.
pub static GH200_144: MigGeometry = row("GH200-144GB", "550.90.07", &GH200_144_PROFILES, PARTED);

static H200_PROFILES: [MigProfile; 7] = seven_eight(18, 35, 71, 141);
/// H200 with 141 GB.
pub static H200_141: MigGeometry = row("H200-141GB", "550.90.07", &H200_PROFILES, GUIDE);

static B200_PROFILES: [MigProfile; 7] = seven_eight(23, 45, 90, 180);
/// B200 with 180 GB.
pub static B200_180: MigGeometry = row("B200-180GB", "570.133.20", &B200_PROFILES, GUIDE);

static B300_PROFILES: [MigProfile; 7] = seven_eight(34, 67, 135, 269);
/// B300.
pub static B300: MigGeometry = row("B300", "580.82.07", &B300_PROFILES, PARTED);

static GB200_PROFILES: [MigProfile; 7] = seven_eight(23, 47, 93, 186);
/// GB200 with 186 GB. The aliases are those of a machine that reported 189 GB
/// (kubernetes-sigs/dra-driver-nvidia-gpu pull request 852).
pub static GB200_186: MigGeometry = MigGeometry {
    aliases: &[
        alias(1, 24, 23),
        (ProfileName::new(1, 24, Variant::WithMedia), ProfileName::new(1, 23, Variant::WithMedia)),
        alias(3, 95, 93),
        alias(4, 95, 93),
        alias(7, 189, 186),
    ],
    ..row("GB200-186GB", "570.133.20", &GB200_PROFILES, PARTED)
};

static GB300_PROFILES: [MigProfile; 7] = seven_eight(35, 70, 139, 278);
/// GB300. The published driver floor is that of the workstation built on it.
pub static GB300: MigGeometry = row("GB300", "595.58.03", &GB300_PROFILES, PARTED);

const QUARTERS: &[u8] = &[0, 3, 6, 9];
const HALVES: &[u8] = &[0, 6];
/// RTX PRO 6000 Blackwell. Profiles and placements as listed by a Server Edition card. That instances compete for
/// engines (`+me.all` leaves room only for `-me`) is derived from those listings and not confirmed on hardware.
pub static RTX_PRO_6000: MigGeometry = MigGeometry {
    family: MigFamily::FourTwelve,
    engine_capacity: Some(Engines { nvdec: 4, nvenc: 4, jpeg: 4, ofa: 1 }),
    ..row(
        "RTX-PRO-6000-BLACKWELL",
        "575.51.03",
        &[
            with_engines(profile(1, 24, Variant::Plain, QUARTERS, 3, 4), 1, 0),
            with_engines(profile(1, 24, Variant::WithMedia, QUARTERS, 3, 1), 1, 1),
            with_engines(profile(1, 24, Variant::Graphics, QUARTERS, 3, 4), 1, 0),
            with_engines(profile(1, 24, Variant::AllMedia, QUARTERS, 3, 1), 4, 1),
            with_engines(profile(1, 24, Variant::NoMedia, QUARTERS, 3, 4), 0, 0),
            with_engines(profile(2, 48, Variant::Plain, HALVES, 6, 2), 2, 0),
            with_engines(profile(2, 48, Variant::Graphics, HALVES, 6, 2), 2, 0),
            with_engines(profile(2, 48, Variant::AllMedia, HALVES, 6, 1), 4, 1),
            with_engines(profile(2, 48, Variant::NoMedia, HALVES, 6, 2), 0, 0),
            with_engines(profile(4, 96, Variant::Plain, &[0], 12, 1), 4, 1),
            with_engines(profile(4, 96, Variant::Graphics, &[0], 12, 1), 4, 1),
        ],
        GUIDE,
    )
};

/// RTX PRO 5000 Blackwell with 48 GB: names and counts only.
pub static RTX_PRO_5000: MigGeometry = MigGeometry {
    family: MigFamily::Unpublished,
    ..row(
        "RTX-PRO-5000-BLACKWELL",
        "575.57.08",
        &[
            unplaced(1, 24, Variant::Plain, 2),
            unplaced(1, 24, Variant::WithMedia, 1),
            unplaced(1, 24, Variant::Graphics, 2),
            unplaced(1, 24, Variant::AllMedia, 1),
            unplaced(1, 24, Variant::NoMedia, 2),
            unplaced(2, 48, Variant::Plain, 1),
            unplaced(2, 48, Variant::Graphics, 1),
        ],
        GUIDE,
    )
};

/// RTX PRO 4500 Blackwell with 32 GB: names and counts only.
pub static RTX_PRO_4500: MigGeometry = MigGeometry {
    family: MigFamily::Unpublished,
    ..row(
        "RTX-PRO-4500-BLACKWELL",
        "575.64",
        &[
            unplaced(1, 16, Variant::Plain, 2),
            unplaced(1, 16, Variant::Graphics, 2),
            unplaced(1, 16, Variant::AllMedia, 1),
            unplaced(1, 16, Variant::NoMedia, 2),
            unplaced(2, 32, Variant::Plain, 1),
            unplaced(2, 32, Variant::Graphics, 1),
        ],
        GUIDE,
    )
};

/// Every geometry, for hints that look across models.
pub static ALL: [&MigGeometry; 17] = [
    &A30_24,
    &A100_40,
    &A100_80,
    &A100_96,
    &H100_80,
    &H100_94,
    &H100_96,
    &H20_96,
    &GH200_144,
    &H200_141,
    &B200_180,
    &B300,
    &GB200_186,
    &GB300,
    &RTX_PRO_6000,
    &RTX_PRO_5000,
    &RTX_PRO_4500,
];
