//! Versions: each names one build.

use std::collections::BTreeMap;

use drydock_gpu::driver::DriverVersion;

use super::Lint;
use crate::{
    document::Kind,
    kinds::{ComponentClass, ComponentVersion, Delivery},
    rule::RuleId,
    source::tree::Step,
    text::ComponentName,
};

pub(super) fn check(lint: &mut Lint<'_, '_>) {
    let fleet = lint.fleet();
    // For each component, the first version with and the first without `v`.
    let mut prefixes: BTreeMap<&ComponentName, [Option<(&str, &str)>; 2]> = BTreeMap::new();
    for (release, spec) in &fleet.releases {
        let document = (Kind::Release, release.as_str());
        if spec.components.is_empty() {
            let message = "the release carries nothing".to_owned();
            lint.at(document, path!["components"], RuleId::EmptyRelease, message, None);
        }
        for (name, version) in &spec.components {
            let component = fleet.components.get(name);
            let class = component.map(|c| c.class);
            let observed = component.is_some_and(|c| matches!(c.delivery, Delivery::Observe {}));
            if let Some((message, hint)) = vague(version, class, observed) {
                lint.at(document, &place(name), RuleId::NoSingleBuild, message, Some(hint));
            }
            if let Some(digest) = version.digest.as_deref().filter(|d| !is_digest(d)) {
                let message = format!("`{digest}` isn't a digest; write sha256: and 64 hexadecimal digits");
                let place = path!["components", name.as_str(), "digest"];
                lint.at(document, place, RuleId::BadValue, message, None);
            }
            let text = version.version.as_str();
            let with_v =
                text.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
            if with_v || text.starts_with(|c: char| c.is_ascii_digit()) {
                let of = prefixes.entry(name).or_default();
                let (mine, other) = (usize::from(with_v), usize::from(!with_v));
                if let Some((first, other)) = of[other]
                    && of[mine].is_none()
                {
                    let message = format!("`{name}` is `{text}` here and `{other}` in release `{first}`");
                    let hint = Some("write the `v` everywhere or nowhere, as its tags have it".to_owned());
                    lint.at(document, &place(name), RuleId::MixedPrefix, message, hint);
                }
                of[mine].get_or_insert((release.as_str(), text));
            }
        }
        requirements(lint, document, &spec.requires, &spec.components);
    }
}

/// Where the version of a component was written: a text, or the field of a mapping.
fn place(name: &ComponentName) -> [Step<'_>; 3] {
    ["components".into(), name.as_str().into(), "version".into()]
}

/// Why a version doesn't name one build, and what to write.
fn vague(
    version: &ComponentVersion,
    class: Option<ComponentClass>,
    observed: bool,
) -> Option<(String, String)> {
    let text = version.version.as_str();
    let lower = text.to_ascii_lowercase();
    let pinned = version.digest.is_some();
    let exact = || "write the whole version of one build".to_owned();
    let moving = [
        "latest", "default", "stable", "main", "master", "edge", "nightly", "dev", "current", "lts",
        "rolling",
    ];
    if moving.contains(&lower.as_str()) && !pinned {
        return Some((format!("`{text}` names whatever is newest, not one build"), exact()));
    }
    if text.ends_with('.') || text.contains('*') || lower.split('.').any(|part| part == "x") {
        return Some((format!("`{text}` is a prefix of many builds"), exact()));
    }
    let numbers = text.strip_prefix('v').unwrap_or(text);
    let parts: Vec<&str> = numbers.split('.').collect();
    let numeric = parts.iter().all(|p| !p.is_empty() && p.bytes().all(|b| b.is_ascii_digit()));
    match class {
        Some(ComponentClass::GpuDriver | ComponentClass::FabricManager) => {
            if text.parse::<DriverVersion>().is_err() {
                let hint = "driver versions are numbers with dots, such as 580.95.05".to_owned();
                return Some((format!("`{text}` isn't a driver version"), hint));
            }
            let branch = parts.len() == 1;
            (branch && !pinned && !observed).then(|| {
                (
                    format!("`{text}` is a branch, not one driver"),
                    "write it whole, such as 580.95.05".to_owned(),
                )
            })
        }
        _ if pinned || observed => None,
        _ if numeric && (parts.len() == 1 || (parts.len() == 2 && text.starts_with('v'))) => {
            Some((format!("`{text}` is a channel of many builds"), exact()))
        }
        _ => {
            let letters = numbers.trim_end_matches(|c: char| c.is_ascii_digit());
            let preset = !letters.is_empty()
                && letters.len() < numbers.len()
                && letters.bytes().all(|b| b.is_ascii_alphabetic());
            preset.then(|| (format!("`{text}` names a family of builds"), exact()))
        }
    }
}

fn is_digest(text: &str) -> bool {
    text.strip_prefix("sha256:")
        .is_some_and(|hex| hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_hexdigit()))
}

fn requirements(
    lint: &mut Lint<'_, '_>,
    document: (Kind, &str),
    requires: &BTreeMap<ComponentName, String>,
    carried: &BTreeMap<ComponentName, ComponentVersion>,
) {
    for (name, constraint) in requires {
        if carried.contains_key(name) {
            let message = format!("the release carries `{name}` itself");
            let hint = Some("remove the requirement: the version is fixed".to_owned());
            let place = (path!["requires"] as &[_], name.as_str());
            lint.at_key(document, place, RuleId::Requirement, message, hint);
        }
        if !is_constraint(constraint) {
            let message = format!("`{constraint}` isn't a constraint");
            let hint = Some("write for example \">= 580.65.06\" or \">= 1.30, < 2\"".to_owned());
            lint.at(document, path!["requires", name.as_str()], RuleId::Requirement, message, hint);
        }
    }
}

/// Comparisons joined by commas; all must hold.
fn is_constraint(text: &str) -> bool {
    const OPERATORS: [&str; 6] = [">=", "<=", "!=", ">", "<", "="];
    text.split(',').all(|part| {
        let part = part.trim();
        let version = OPERATORS.iter().find_map(|op| part.strip_prefix(op)).map(str::trim);
        version.is_some_and(|v| {
            let v = v.strip_prefix('v').unwrap_or(v);
            v.starts_with(|c: char| c.is_ascii_digit())
                && !v.contains(char::is_whitespace)
                && !v.ends_with('.')
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Version;

    #[test]
    fn one_build_or_many() {
        let driver = Some(ComponentClass::GpuDriver);
        let agent = Some(ComponentClass::Agent);
        let cases = [
            ("580.95.05", driver, true),
            ("580.126.20-ubuntu22.04", driver, true),
            ("595", driver, false),
            ("latest", driver, false),
            ("v580.95.05", driver, false),
            ("1.35.", agent, false),
            ("v26.3", agent, false),
            ("v26.3.0", agent, true),
            ("26.3.0", agent, true),
            ("stable", agent, false),
            ("DEFAULT", agent, false),
            ("cuda12", agent, false),
            ("doca3.2.2-25.10-2.4.1.0-4", agent, true),
            ("570.148.08-scos4.18", agent, true),
            ("1.x", agent, false),
        ];
        for (text, class, single) in cases {
            let version =
                ComponentVersion { version: Version::new(text), digest: None, config: BTreeMap::new() };
            assert_eq!(vague(&version, class, false).is_none(), single, "{text}");
        }
    }

    #[test]
    fn constraints() {
        for good in [">= 580.65.06", ">=1.30, < 2", "= v1.2.3", "!= 1.0.0"] {
            assert!(is_constraint(good), "{good}");
        }
        for bad in ["", "580", ">=", ">= latest", ">= 1.35.", ">= 1 2", ">= 1,"] {
            assert!(!is_constraint(bad), "{bad}");
        }
    }
}
