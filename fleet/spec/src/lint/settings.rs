//! Settings of components in releases: known ones have known values, and the delivery carries them.

use std::collections::BTreeMap;

use super::Lint;
use crate::{
    document::Kind,
    kinds::{ComponentSpec, ComponentVersion},
    rule::RuleId,
    settings::{Setting, SettingsBy, driver_field, environment_name},
    suggest,
};

type Document<'a> = (Kind, &'a str);

pub(super) fn check(lint: &mut Lint<'_, '_>) {
    let fleet = lint.fleet();
    for (release, spec) in &fleet.releases {
        let document = (Kind::Release, release.as_str());
        for (name, version) in &spec.components {
            let Some(component) = fleet.components.get(name) else { continue };
            one(lint, document, (name.as_str(), component), version);
        }
    }
}

fn one(
    lint: &mut Lint<'_, '_>,
    document: Document<'_>,
    (name, component): (&str, &ComponentSpec),
    version: &ComponentVersion,
) {
    let known = Setting::of(component.class);
    let at = path!["components", name, "config"] as &[_];
    let mut variables: BTreeMap<String, &str> = BTreeMap::new();
    for (key, value) in &version.config {
        if let Some(setting) = known.iter().find(|setting| setting.key == key) {
            if !setting.values.contains(&value.as_str()) {
                let message = format!("{key} can't be `{value}`");
                let hint = suggest::hint(value, setting.values);
                let place = path!["components", name, "config", key.as_str()];
                lint.at(document, place, RuleId::UnknownSetting, message, hint);
                continue;
            }
        } else if let Some(setting) = Setting::meant(component.class, key) {
            let message = format!("drydock's word for `{key}` is `{}`", setting.key);
            let hint = Some(format!("write {}: {}", setting.key, setting.values.join(" or ")));
            lint.at_key(document, (at, key), RuleId::UnknownSetting, message, hint);
            continue;
        }
        let word = component.delivery.word();
        let refused = match component.delivery.settings_by() {
            SettingsBy::DriverFields if driver_field(key, value).is_some() => None,
            SettingsBy::DriverFields => Some((
                format!("delivery by `{word}` has no field for the setting `{key}`"),
                format!(
                    "it carries {}; what never changes belongs into the delivered object itself",
                    known.iter().map(|s| s.key).collect::<Vec<_>>().join(", ")
                ),
            )),
            SettingsBy::Environment => match environment_name(key) {
                None => Some((
                    format!("the setting `{key}` can't become an environment variable"),
                    "write it with letters, digits, - _ and .".to_owned(),
                )),
                Some(variable) => variables.insert(variable, key).map(|other| {
                    (
                        format!("the settings `{other}` and `{key}` become one environment variable"),
                        "rename one of the two".to_owned(),
                    )
                }),
            },
            SettingsBy::Nothing => Some((
                format!("delivery by `{word}` carries no settings: `{key}` would reach nothing"),
                "remove it, or deliver the component in another way".to_owned(),
            )),
        };
        if let Some((message, hint)) = refused {
            lint.at_key(document, (at, key), RuleId::SettingNotCarried, message, Some(hint));
        }
    }
}
