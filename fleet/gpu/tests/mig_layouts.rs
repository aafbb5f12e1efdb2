//! Layouts met in public documents and repositories, with the answer an operator should get.
#![allow(clippy::unwrap_used)]

use drydock_gpu::mig::{GpuShape, MigStrategy};
use drydock_gpu::mig::{LayoutError, MigLayout, ProfileName, node_resources, place, tables};
use drydock_gpu::model::{ALL, GpuModel, lookup};

fn model(name: &str) -> &'static GpuModel {
    lookup(name).unwrap()
}

/// Reads "2 x 3g.20gb + 1 x 1g.5gb".
fn layout(text: &str) -> MigLayout {
    let pair =
        |part: &str| part.split_once(" x ").map(|(n, p)| (p.parse().unwrap(), n.parse().unwrap())).unwrap();
    text.split(" + ").map(pair).collect()
}

#[test]
fn valid_layouts_are_placed() {
    for (gpu, text, want) in [
        ("A100-40GB", "1 x 3g.20gb + 1 x 2g.10gb + 2 x 1g.5gb", 4),
        ("A100-40GB", "1 x 4g.20gb + 1 x 3g.20gb", 2),
        ("A100-40GB", "3 x 2g.10gb + 1 x 1g.5gb", 4),
        ("A100-40GB", "3 x 2g.10gb + 1 x 1g.10gb", 4),
        ("A100-40GB", "7 x 1g.5gb", 7),
        ("A100-40GB", "6 x 1g.5gb + 1 x 1g.5gb+me", 7),
        ("A100-80GB", "2 x 1g.10gb + 1 x 2g.20gb + 1 x 3g.40gb", 4),
        ("A100-80GB", "1 x 7g.79gb", 1),
        ("A100-80GB", "1 x 3g.39gb + 1 x 3g.40gb", 2),
        ("H100-80GB", "1 x 3g.40gb + 2 x 1g.20gb", 3),
        ("A30", "1 x 2g.12gb + 2 x 1g.6gb", 3),
        ("A30", "1 x 2g.12gb+me + 1 x 2g.12gb", 2),
        ("RTX-PRO-6000", "2 x 1g.24gb + 1 x 2g.48gb", 3),
        ("RTX-PRO-6000", "1 x 1g.24gb+me.all + 3 x 1g.24gb-me", 4),
        ("GB200", "7 x 1g.24gb", 7),
        ("H100-94GB", "1 x 3g.47gb + 1 x 2g.24gb + 1 x 1g.12gb", 3),
        // One H200 node cut eight ways, as a public inference cluster does.
        ("H200", "7 x 1g.18gb", 7),
        ("H200", "1 x 1g.18gb+me + 6 x 1g.18gb", 7),
        ("H200", "4 x 1g.35gb", 4),
        ("H200", "3 x 2g.35gb", 3),
        ("H200", "3 x 2g.35gb + 1 x 1g.35gb", 4),
        ("H200", "2 x 3g.71gb", 2),
        ("H200", "1 x 4g.71gb + 1 x 3g.71gb", 2),
        ("H200", "2 x 1g.18gb + 1 x 2g.35gb + 1 x 3g.71gb", 4),
    ] {
        let placements = place(model(gpu), &layout(text));
        assert_eq!(placements.map(|p| p.len()), Ok(want), "{gpu}: {text}");
    }
    let placements = place(model("A100-40GB"), &layout("1 x 4g.20gb + 1 x 3g.20gb")).unwrap();
    assert_eq!(
        placements.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["4g.20gb@0:4", "3g.20gb@4:4"]
    );
}

#[test]
fn invalid_layouts_say_why() {
    for (gpu, text, want) in [
        (
            "A100-40GB",
            "2 x 3g.20gb + 1 x 1g.5gb",
            "A100-40GB can't hold 1 x 1g.5gb + 2 x 3g.20gb at once: they need 9 memory units of 8",
        ),
        (
            "A100-40GB",
            "1 x 4g.20gb + 2 x 2g.10gb",
            "A100-40GB can't hold 2 x 2g.10gb + 1 x 4g.20gb at once: they need 8 memory units of 8, and their allowed starts collide",
        ),
        (
            "A100-40GB",
            "4 x 1g.10gb + 1 x 1g.5gb",
            "A100-40GB can't hold 1 x 1g.5gb + 4 x 1g.10gb at once: they need 9 memory units of 8",
        ),
        ("A100-40GB", "8 x 1g.5gb", "A100-40GB holds at most 7 x 1g.5gb, not 8"),
        ("A100-40GB", "2 x 1g.5gb+me", "A100-40GB holds at most 1 x 1g.5gb+me, not 2"),
        ("A100-80GB", "2 x 7g.80gb", "A100-80GB holds at most 1 x 7g.80gb, not 2"),
        ("A100-80GB", "1 x 7g.80gb + 1 x 7g.79gb", "A100-80GB holds at most 1 x 7g.80gb, not 2"),
        ("H100-80GB", "2 x 4g.40gb", "H100-80GB holds at most 1 x 4g.40gb, not 2"),
        (
            "H100-80GB",
            "2 x 3g.40gb + 1 x 1g.10gb+me",
            "H100-80GB can't hold 1 x 1g.10gb+me + 2 x 3g.40gb at once: they need 9 memory units of 8",
        ),
        (
            "A30",
            "2 x 2g.12gb + 1 x 1g.6gb",
            "A30 can't hold 1 x 1g.6gb + 2 x 2g.12gb at once: they need 5 memory units of 4",
        ),
        (
            "RTX-PRO-6000",
            "1 x 1g.24gb+me.all + 1 x 1g.24gb",
            "the instances need 5 NVDEC engines and RTX-PRO-6000-BLACKWELL has 4",
        ),
        (
            "RTX-PRO-6000",
            "1 x 4g.96gb + 1 x 1g.24gb-me",
            "RTX-PRO-6000-BLACKWELL can't hold 1 x 1g.24gb-me + 1 x 4g.96gb at once: they need 15 memory units of 12",
        ),
        ("H100-94GB", "2 x 3g.40gb", "H100-94GB has no profile 3g.40gb; use 3g.47gb"),
        (
            "A100-40GB",
            "1 x 1c.2g.10gb",
            "1c.2g.10gb splits a GPU instance, which is never advertised to Kubernetes; use 2g.10gb",
        ),
        ("L40S", "1 x 1g.5gb", "L40S has no MIG"),
        (
            "RTX-PRO-5000",
            "2 x 1g.24gb",
            "placements of RTX-PRO-5000-BLACKWELL aren't published, so whether 2 x 1g.24gb fits can't be told",
        ),
        ("RTX-PRO-5000", "3 x 1g.24gb", "RTX-PRO-5000-BLACKWELL holds at most 2 x 1g.24gb, not 3"),
    ] {
        let error = place(model(gpu), &layout(text)).unwrap_err();
        assert_eq!(error.to_string(), want, "{gpu}: {text}");
    }
}

#[test]
fn the_hint_is_the_same_part_of_another_gpu() {
    for (gpu, wrote, meant) in [
        ("H100-94GB", "3g.40gb", "3g.47gb"),
        ("H100-94GB", "2g.20gb", "2g.24gb"),
        ("H100-94GB", "1g.10gb", "1g.12gb"),
        ("H100-94GB", "1g.20gb", "1g.24gb"),
        ("H100-94GB", "4g.40gb", "4g.47gb"),
        ("H100-94GB", "7g.80gb", "7g.94gb"),
        ("H100-94GB", "1g.10gb+me", "1g.12gb+me"),
        ("H200", "1g.20gb", "1g.35gb"),
        ("H200", "3g.40gb", "3g.71gb"),
        ("B200", "1g.10gb", "1g.23gb"),
        ("GB200", "7g.80gb", "7g.186gb"),
        ("A100-80GB", "1g.5gb", "1g.10gb"),
        ("A100-40GB", "3g.40gb", "3g.20gb"),
        ("H100-80GB", "3g.40gb-me", "3g.40gb"),
        ("H100-80GB", "5g.50gb", "4g.40gb"),
        ("A30", "4g.40gb", "4g.24gb"),
        ("A30", "2g.10gb", "2g.12gb"),
        ("RTX-PRO-6000", "1g.12gb", "1g.24gb"),
    ] {
        let wanted: ProfileName = wrote.parse().unwrap();
        match place(model(gpu), &MigLayout::default().with(wanted)) {
            Err(LayoutError::UnknownProfile { nearest, .. }) => {
                assert_eq!(nearest.map(|n| n.to_string()).as_deref(), Some(meant), "{gpu}: {wrote}");
            }
            other => assert_eq!(format!("{other:?}"), "an unknown profile", "{gpu}: {wrote}"),
        }
    }
}

/// Every profile of every model fits alone up to its limit and, as one profile everywhere, has one resource.
#[test]
fn each_profile_fills_a_gpu_on_its_own() {
    let mut seen = 0;
    for gpu in ALL {
        let Some(geometry) = gpu.mig.filter(|g| g.family.memory_units().is_some()) else { continue };
        for profile in geometry.profiles {
            let full: MigLayout = [(profile.name, u32::from(profile.max_instances))].into_iter().collect();
            assert!(place(gpu, &full).is_ok(), "{} {full}", gpu.name);
            assert!(place(gpu, &full.with(profile.name)).is_err(), "{} {full}", gpu.name);
            let node = [(GpuShape::Partitioned(&full), 8)];
            for strategy in [MigStrategy::Single, MigStrategy::Mixed] {
                let resources = node_resources(strategy, &node).unwrap();
                assert_eq!(
                    resources.into_values().collect::<Vec<_>>(),
                    [8 * u32::from(profile.max_instances)]
                );
            }
            seen += 1;
        }
    }
    assert!(seen > 100);
}

/// A slot has its size in units, starts inside the GPU and names a share of memory that its size explains.
#[test]
fn tables_are_consistent() {
    for geometry in tables::ALL {
        let Some(units) = geometry.family.memory_units() else { continue };
        let whole = geometry.profiles.iter().map(|p| p.name.memory_gb()).max().unwrap();
        for profile in geometry.profiles {
            let slots = profile.slots.unwrap();
            assert!(slots.starts.windows(2).all(|w| w[0] < w[1]));
            assert!(
                slots.starts.iter().all(|s| s + slots.size <= units),
                "{} {}",
                geometry.name,
                profile.name
            );
            assert!(slots.starts.len() >= usize::from(profile.max_instances));
            let share = u32::from(whole) * u32::from(slots.size);
            let named = u32::from(profile.name.memory_gb()) * u32::from(units);
            assert!(share.abs_diff(named) <= u32::from(units), "{} {}", geometry.name, profile.name);
            assert_eq!(geometry.find(profile.name), Some(profile));
        }
        for (other, own) in geometry.aliases {
            assert_eq!(geometry.find(*other).map(|p| p.name), Some(*own));
        }
        assert!(!geometry.source.is_empty());
    }
}

#[test]
fn layouts_print_and_parse_as_documents_do() {
    let text = "1 x 1g.10gb + 2 x 3g.40gb";
    assert_eq!(layout(text).to_string(), text);
    assert_eq!(MigLayout::parse([("3g.40gb", 2), ("1g.10gb", 1), ("7g.80gb", 0)]).unwrap(), layout(text));
    assert_eq!(MigLayout::default().to_string(), "no instance");
    assert!(MigLayout::parse([("3g.40gb+mee", 1)]).is_err());
    assert_eq!(place(model("H100-80GB"), &MigLayout::default()), Ok(Vec::new()));
}
