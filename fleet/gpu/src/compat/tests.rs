#![allow(clippy::unwrap_used, clippy::panic)]
use super::*;
use crate::model::{ALL, lookup};

fn v(text: &str) -> DriverVersion {
    text.parse().unwrap()
}

fn bare(model: &str, driver: &str) -> Vec<String> {
    sentences(model, driver, &Surroundings::default())
}

fn sentences(model: &str, driver: &str, around: &Surroundings<'_>) -> Vec<String> {
    check(lookup(model).unwrap(), &v(driver), around).iter().map(ToString::to_string).collect()
}

#[test]
fn a_generation_has_a_first_and_a_last_branch() {
    for (model, driver, want) in [
        ("V100", "580.126.20", None),
        ("V100", "595.91.07", Some("V100 (Volta) has no driver after R580; 595.91.07 is R595")),
        ("B200", "565.57.01", Some("B200 (Blackwell) needs R570 or newer; 565.57.01 is R565")),
        ("B200", "570.133.20", None),
        ("L40S", "620.10.01", None),
        ("T4", "390.30", Some("T4 (Turing) needs R410 or newer; 390.30 is R390")),
    ] {
        assert_eq!(bare(model, driver), want.into_iter().collect::<Vec<_>>(), "{model} {driver}");
    }
}

#[test]
fn kernel_modules_are_a_matter_of_the_model() {
    use KernelModule::{Open, Proprietary};
    for (model, module, fine) in [
        ("V100", Proprietary, true),
        ("V100", Open, false),
        ("A100-80GB", Open, true),
        ("A100-80GB", Proprietary, true),
        ("H200", Proprietary, true),
        ("GH200", Proprietary, false),
        ("GB200", Proprietary, false),
        ("GB200", Open, true),
    ] {
        let around = Surroundings { kernel_module: Some(module), ..Surroundings::default() };
        assert_eq!(sentences(model, "580.126.20", &around).is_empty(), fine, "{model} {module}");
    }
}

#[test]
fn mig_has_floors_and_holes() {
    let plain = MigLayout::parse([("1g.5gb", 7)]).unwrap();
    let double = MigLayout::parse([("1g.10gb", 4)]).unwrap();
    let find = |model: &str, driver: &str, layout: &MigLayout, beside_whole: bool| {
        let layouts = [layout];
        let mig = MigUse::On { layouts: &layouts, beside_whole };
        check(lookup(model).unwrap(), &v(driver), &Surroundings { mig, ..Surroundings::default() })
    };
    assert!(matches!(
        find("A100-40GB", "450.51.06", &plain, false)[..],
        [Incompatibility::MigDriverTooOld { .. }]
    ));
    assert_eq!(find("A100-40GB", "450.80.02", &plain, false), []);
    match &find("A100-40GB", "515.65.01", &double, false)[..] {
        [Incompatibility::ProfileDriverTooOld { profile, .. }] => assert_eq!(profile.to_string(), "1g.10gb"),
        other => panic!("{other:?}"),
    }
    assert!(matches!(find("L40S", "580.126.20", &plain, false)[..], [Incompatibility::NoMig { .. }]));
    // Its floor is another product's: worth a word, and no more.
    let borrowed = find("GB300", "590.48.01", &plain, false);
    assert!(matches!(borrowed[..], [Incompatibility::MigFloorOfAnother { .. }]));
    assert_eq!(borrowed[0].severity(), Severity::Warning);
    assert!(matches!(
        find("RTX-PRO-6000", "575.57.08", &plain, false)[..],
        [Incompatibility::MigBroken { .. }]
    ));
    assert_eq!(find("RTX-PRO-6000", "575.64.03", &plain, false), []);
    for hole in ["570.124.06", "570.133.20", "570.148.08", "570.158.01"] {
        assert!(matches!(
            find("A100-40GB", hole, &plain, true)[..],
            [Incompatibility::MixedMigBroken { .. }]
        ));
        assert_eq!(find("A100-40GB", hole, &plain, false), []);
    }
    assert_eq!(find("A100-40GB", "570.172.08", &plain, true), []);
    let hidden = find("A100-40GB", "535.309.01", &plain, false);
    assert!(matches!(hidden[..], [Incompatibility::MigProfilesHidden { .. }]));
    assert_eq!(hidden[0].severity(), Severity::Warning);
}

#[test]
fn fabric_manager_follows_the_driver_on_switched_boards() {
    let driver = "580.126.09";
    let (same, other) = (v("580.126.09-1"), v("590.48.01"));
    let with = |model: &str, gpus, fabric_manager| {
        let around = Surroundings { gpus_per_node: gpus, fabric_manager, ..Surroundings::default() };
        sentences(model, driver, &around)
    };
    assert!(with("H100-80GB", 8, FabricManager::WithDriver).is_empty());
    assert!(with("H100-80GB", 8, FabricManager::Version(&same)).is_empty());
    assert_eq!(
        with("H100-80GB", 8, FabricManager::Version(&other)),
        [
            "fabric manager 590.48.01 refuses driver 580.126.09: on NVSwitch nodes both must be the same version"
        ]
    );
    assert!(with("H100-80GB", 8, FabricManager::Absent)[0].contains("802"));
    assert!(with("H100-80GB", 4, FabricManager::Absent).is_empty());
    assert!(with("L40S", 8, FabricManager::Absent).is_empty());
    assert!(with("GB200", 4, FabricManager::Version(&other)).is_empty());
    let around = Surroundings { gpus_per_node: 8, ..Surroundings::default() };
    assert!(sentences("B200", "570.124.06", &around)[0].contains("570.133.20"));
}

#[test]
fn cuda_and_support_are_warnings_behind_what_blocks() {
    let month = Some(YearMonth { year: 2026, month: 11 });
    let around = Surroundings { cuda_majors: &[12, 13], month, ..Surroundings::default() };
    let found = check(lookup("V100").unwrap(), &v("535.309.01"), &around);
    assert_eq!(
        found.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [
            "applications built with CUDA 13 need driver 580 or newer, not 535.309.01",
            "CUDA 13 dropped Volta; the last for V100 is CUDA 12",
            "driver branch R535 is out of support since the end of 2026-06",
        ]
    );
    assert!(found.iter().all(|f| f.severity() == Severity::Warning));
    let found = check(lookup("V100").unwrap(), &v("610.57.04"), &around);
    assert_eq!(found[0].severity(), Severity::Blocking);
    assert_eq!(found.last().map(Incompatibility::severity), Some(Severity::Warning));
    let last = |month| check_support(&v("580.126.20"), YearMonth { year: 2028, month }).is_some();
    assert!(!last(6) && last(7));
    assert!(check_support(&v("470.256.02"), YearMonth { year: 2020, month: 1 }).is_some());
    assert!(check_support(&v("9999.1"), YearMonth { year: 2099, month: 1 }).is_none());
}

#[test]
fn every_finding_names_a_public_source() {
    let layout = MigLayout::parse([("1g.10gb", 1)]).unwrap();
    let other = v("1.0");
    let mut seen = 0;
    for model in ALL {
        for driver in ["400.1", "470.1", "515.1", "535.1", "570.133.20", "575.57.08", "620.1"] {
            let around = Surroundings {
                gpus_per_node: 8,
                kernel_module: Some(KernelModule::Proprietary),
                mig: MigUse::On { layouts: &[&layout], beside_whole: true },
                fabric_manager: FabricManager::Version(&other),
                cuda_majors: &[11, 12, 13],
                month: Some(YearMonth { year: 2030, month: 1 }),
            };
            for finding in check(model, &v(driver), &around) {
                assert!(finding.source().starts_with("https://"), "{finding}");
                assert!(!finding.to_string().is_empty());
                seen += 1;
            }
        }
    }
    assert!(seen > 300);
}
