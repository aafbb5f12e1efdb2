//! Settings of a component in a release (`config`), and how each way of delivery carries them to what runs. Loader and
//! executor both ask here, so that a setting which passes the loader arrives.

use serde_json::Value;

use crate::kinds::{ComponentClass, Delivery};

/// How a way of delivery carries settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingsBy {
    /// As fields of the GPU Operator's driver; only the settings of [`driver_field`].
    DriverFields,
    /// As environment variables of every container, named by [`environment_name`]; any setting.
    Environment,
    /// Not at all.
    Nothing,
}

impl Delivery {
    /// How it carries settings.
    #[must_use]
    pub const fn settings_by(&self) -> SettingsBy {
        match self {
            Self::NvidiaDriver(_) | Self::ClusterPolicy(_) => SettingsBy::DriverFields,
            Self::DaemonSet(_) | Self::Deployment(_) | Self::Job(_) => SettingsBy::Environment,
            // A label has room for one value, and what somebody else installs is theirs to set.
            Self::Label(_) | Self::Observe {} => SettingsBy::Nothing,
        }
    }
}

/// A setting whose values are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// Its key.
    pub key: &'static str,
    /// Its values.
    pub values: &'static [&'static str],
    /// What other tools call it.
    also: &'static [&'static str],
}

/// Settings of GPU drivers.
const DRIVER: [Setting; 2] = [
    Setting {
        key: "kernelModule",
        values: &["open", "proprietary", "auto"],
        also: &[
            "kernelModuleType",
            "kernelModules",
            "useOpenKernelModules",
            "openKernelModules",
            "openKernelModulesEnabled",
        ],
    },
    Setting {
        key: "usePrecompiled",
        values: &["true", "false"],
        also: &["precompiled", "usePrecompiledDrivers", "usePrecompiledDriver"],
    },
];

impl Setting {
    /// Settings whose values are known for a class of component.
    #[must_use]
    pub const fn of(class: ComponentClass) -> &'static [Self] {
        match class {
            ComponentClass::GpuDriver => &DRIVER,
            ComponentClass::NetworkDriver
            | ComponentClass::FabricManager
            | ComponentClass::ContainerToolkit
            | ComponentClass::DevicePlugin
            | ComponentClass::PartitionManager
            | ComponentClass::Scheduler
            | ComponentClass::Agent
            | ComponentClass::Firmware
            | ComponentClass::NodeImage => &[],
        }
    }
    /// The known setting that `key` is another tool's word or a slip of the hand for.
    pub(crate) fn meant(class: ComponentClass, key: &str) -> Option<&'static Self> {
        let known = Self::of(class);
        let same = |word: &&str| word.eq_ignore_ascii_case(key);
        known.iter().find(|setting| setting.also.iter().any(&same)).or_else(|| {
            let near = crate::suggest::nearest(key, known.iter().map(|setting| setting.key))?;
            known.iter().find(|setting| setting.key == near)
        })
    }
}

/// The field of an `NVIDIADriver`'s `spec`, or of a ClusterPolicy's `spec.driver`, that carries a setting, and what
/// stands in it. `None` for a setting that no field carries.
#[must_use]
pub fn driver_field(key: &str, value: &str) -> Option<(&'static str, Value)> {
    match (key, value) {
        ("kernelModule", _) => Some(("kernelModuleType", Value::String(value.to_owned()))),
        ("usePrecompiled", "true" | "false") => Some(("usePrecompiled", Value::Bool(value == "true"))),
        _ => None,
    }
}

/// The environment variable that carries a setting: `kernelModule` is `DRYDOCK_CONFIG_KERNEL_MODULE`. `None` for a key
/// that holds more than letters, digits, `-`, `_` and `.`, or doesn't begin with a letter.
#[must_use]
pub fn environment_name(key: &str) -> Option<String> {
    let sound = key.starts_with(|c: char| c.is_ascii_alphabetic())
        && key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
    if !sound {
        return None;
    }
    let mut name = "DRYDOCK_CONFIG_".to_owned();
    let mut after_small = false;
    for c in key.chars() {
        if c.is_ascii_uppercase() && after_small {
            name.push('_');
        }
        after_small = c.is_ascii_lowercase() || c.is_ascii_digit();
        name.push(if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' });
    }
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_variables() {
        let cases = [
            ("kernelModule", Some("DRYDOCK_CONFIG_KERNEL_MODULE")),
            ("use-x.509", Some("DRYDOCK_CONFIG_USE_X_509")),
            ("MIG", Some("DRYDOCK_CONFIG_MIG")),
            ("1st", None),
            ("a b", None),
            ("", None),
        ];
        for (key, name) in cases {
            assert_eq!(environment_name(key).as_deref(), name, "{key}");
        }
    }

    #[test]
    fn every_known_setting_of_a_driver_has_a_field() {
        for setting in Setting::of(ComponentClass::GpuDriver) {
            for value in setting.values {
                assert!(driver_field(setting.key, value).is_some(), "{} {value}", setting.key);
            }
        }
        assert_eq!(driver_field("mode", "x"), None);
    }

    #[test]
    fn words_of_other_tools_are_known() {
        let meant = |key| Setting::meant(ComponentClass::GpuDriver, key).map(|s| s.key);
        assert_eq!(meant("kernelModuleType"), Some("kernelModule"));
        assert_eq!(meant("useOpenKernelModules"), Some("kernelModule"));
        assert_eq!(meant("kernelmodule"), Some("kernelModule"));
        assert_eq!(meant("usePrecompild"), Some("usePrecompiled"));
        assert_eq!(meant("mode"), None);
        assert_eq!(Setting::meant(ComponentClass::Agent, "kernelModuleType"), None);
    }
}
