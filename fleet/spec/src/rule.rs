//! The rules a repository is held to. Numbers are promises: they stand in CI logs and in people's notes, so a rule
//! keeps its number for ever and a number is never used again.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Severity {
    /// The commit isn't accepted; the last good one stays in force.
    Error,
    /// Accepted, and probably not what was meant.
    Warning,
    /// Accepted, and worth knowing.
    Note,
}

impl Severity {
    /// The word on screens.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

macro_rules! rules {
    ($($name:ident = $number:literal, $severity:ident, $text:literal;)*) => {
        /// A rule. Prints as `DD017`.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum RuleId {
            $(#[doc = $text] $name,)*
        }

        impl RuleId {
            /// Every rule, in the order of numbers.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Its number.
            #[must_use]
            pub const fn number(self) -> u16 {
                match self { $(Self::$name => $number,)* }
            }
            /// How bad a breach is.
            #[must_use]
            pub const fn severity(self) -> Severity {
                match self { $(Self::$name => Severity::$severity,)* }
            }
            /// What it demands, in one line.
            #[must_use]
            pub const fn explanation(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

rules! {
    // Files and YAML.
    Syntax = 1, Error, "A document must be well-formed YAML.";
    Tab = 2, Error, "Indentation is made of spaces; YAML refuses tabs.";
    DuplicateKey = 3, Error, "A mapping names each key once; most parsers silently keep the last of two.";
    AliasLimit = 4, Error, "Aliases may not blow a file up to more than 100,000 nodes, nor contain themselves.";
    MergeKey = 5, Error, "Merge keys (<<) aren't applied: parsers disagree about them. Write the fields out.";
    TooDeep = 6, Error, "Mappings and lists nest at most 64 levels deep.";
    FileTooLarge = 7, Error, "A file has at most 1 MiB.";
    TooManyFiles = 8, Error, "A repository has at most 10,000 files of documents.";
    NotText = 9, Error, "Files are UTF-8 text.";
    LfsPointer = 10, Error, "A file of documents is stored in Git itself, not as a Git LFS pointer.";
    Placeholder = 11, Error, "Placeholders ($NAME, ${NAME}, {{ name }}) are rendered before they are committed.";
    Tag = 12, Error, "YAML tags aren't used, except !!str.";
    ApiVersion = 13, Error, "apiVersion is one that this drydock knows.";
    UnknownKind = 14, Error, "kind is one that drydock knows.";
    KeyNotText = 15, Error, "Keys are plain text.";
    ForeignDocument = 16, Warning, "A document of one of drydock's kinds carries drydock's apiVersion; others are ignored.";
    // Values.
    QuoteText = 17, Error, "Where text is wanted, whatever YAML reads as a number, truth value or time is quoted.";
    Null = 18, Error, "A value isn't left empty where one is wanted.";
    UnknownField = 19, Error, "Fields are known: an unknown one would be a setting that nothing reads.";
    MissingField = 20, Error, "Required fields are there.";
    WrongType = 21, Error, "A value has the type its field wants.";
    BadValue = 22, Error, "A value can be read: names, lengths of time, amounts, times.";
    UnknownWord = 23, Error, "Where a field takes one of some words, it is one of them.";
    TooManyErrors = 24, Error, "Only the first 100 errors of a file are shown.";
    OutOfRange = 25, Error, "A number lies within its range.";
    Sealed = 26, Warning, "A file with the name of a document is plain text: what is encrypted or compressed in place isn't read.";
    NotRead = 27, Warning, "A document stands in a plain file named .yaml or .yml: links, submodules and other names aren't read.";
    PassedOver = 28, Note, "A file named .yaml that isn't YAML, and doesn't say that it is drydock's, is passed over.";
    NotByItself = 29, Error, "A document stands by itself, after a line ---: not as an item of a list.";
    // Documents and references.
    NoFleet = 30, Error, "A repository has exactly one document of kind Fleet; this one has none.";
    ManyFleets = 31, Error, "A repository has exactly one document of kind Fleet; this one has more.";
    DuplicateName = 32, Error, "Two documents of one kind have different names.";
    UnknownReference = 33, Error, "What a document refers to exists.";
    UnknownEnvironment = 34, Error, "Environments are listed in the Fleet document.";
    MatchesNothing = 35, Warning, "A selector, pattern or scope matches at least one pool.";
    // Time.
    TimeZone = 40, Error, "Time zones are names of the IANA database.";
    ClockTime = 41, Error, "Local times are written HH:MM.";
    WindowTooShort = 42, Warning, "A window is at least as long as one node's usual visit (p90).";
    WindowLength = 43, Error, "A window is longer than nothing and at most seven days.";
    FreezeBackwards = 44, Error, "A freeze ends after it begins.";
    // Budgets.
    RoundsToNothing = 50, Error, "A positive percentage allows at least one node, or says atLeastOne.";
    GatesEverything = 51, Error, "A budget lets something move: a floor of 100 % never does.";
    ZeroInFlight = 52, Error, "maxInFlight isn't zero: nothing could ever move. To stop a rollout, pause it.";
    BudgetWithoutLimit = 53, Warning, "A budget sets minAvailable or maxInFlight.";
    SmallerThanANode = 54, Error, "A budget has room for one node of every pool that it covers; otherwise that pool never moves.";
    SmallerThanAUnit = 55, Warning, "A budget has room for what moves together: with one node in flight, a domain of two never moves.";
    // Policies.
    PoolInTwoPolicies = 60, Error, "A pool belongs to at most one policy.";
    PoolWithoutPolicy = 61, Warning, "A pool belongs to a policy, or it never moves.";
    PoolInNoWave = 62, Error, "The waves of a policy cover all pools that it selects.";
    WaveSelectsNothing = 63, Warning, "A wave selects at least one of its policy's pools that no earlier wave took whole.";
    NoWaves = 64, Error, "A policy has at least one wave.";
    BatchZero = 65, Error, "A batch has at least one unit.";
    TolerateEverything = 66, Warning, "A wave can fail: its tolerance is less than all of it.";
    ZeroDeadline = 67, Error, "Deadlines and timeouts are longer than nothing; zero would mean for ever to some and never to others.";
    AtomicAndSpread = 68, Error, "Domains that move together can't also be limited to some of their nodes.";
    DuplicateInList = 69, Error, "Things in one list have different names.";
    // Pools.
    PoolsOverlap = 70, Error, "No node belongs to two pools.";
    EmptySelector = 71, Error, "A pool selects nodes by at least one label; an empty selector would take every node.";
    UnknownGpuModel = 72, Error, "GPU models are those of the catalogue.";
    NoGpus = 73, Error, "A GPU node has at least one GPU.";
    NodeBounds = 74, Error, "The least number of nodes isn't more than the most.";
    CheckNotApplicable = 75, Note, "Checks of class rdma don't apply to pools without RDMA rails.";
    FloorOfUnknownCheck = 76, Error, "Floors name checks that exist.";
    LabelWithoutDomain = 77, Warning, "A policy uses only kinds of domain for which its pools name a label.";
    LayoutWithoutAgent = 78, Error, "Where a pool has a layout, a component of class partitionManager that is delivered by label cuts the GPUs.";
    ClusterTwice = 79, Error, "Two Cluster documents don't reach the same cluster: each of its nodes would be two.";
    // Versions and components.
    NoSingleBuild = 80, Error, "A version names one build: no channel, branch, prefix or `latest`.";
    MixedPrefix = 81, Warning, "Versions of one component carry the same `v` prefix everywhere.";
    FabricManager = 82, Error, "Fabric manager and driver have the same version on nodes with NVSwitch.";
    DriverArchitecture = 83, Error, "The driver supports the GPUs of the pool.";
    DriverSource = 84, Error, "A driver that somebody else installs is delivered as `observe`.";
    EmptyRelease = 85, Error, "A release carries at least one component.";
    ComponentCycle = 86, Error, "Components don't wait for each other in a circle.";
    Irreversible = 87, Note, "An irreversible component is applied last and never rolled back by itself.";
    Requirement = 88, Error, "What a release requires of a component is a constraint, and the component isn't in the release itself.";
    ExpectOrder = 89, Error, "The time that nine of ten need isn't less than the time that half need.";
    // Checks.
    RegressEverything = 90, Error, "The regression limit of a check lies between 0 and 100 %.";
    // What is handed on to Kubernetes.
    TemplateField = 91, Error, "A template is a whole pod template, and leaves to drydock what drydock sets.";
    Probe = 92, Error, "Only a delivery by `job` has a probe: a command with at least one word.";
    ClusterComponentTwice = 93, Error, "All pools of a cluster want the same version of what the cluster has once.";
    CheckGpus = 94, Error, "A check asks for at most the GPUs that a node has.";
    MeasuresWithoutLimit = 95, Warning, "What a check measures is compared with something: regress, or a floor of every pool.";
    SuiteWithoutChecks = 96, Warning, "A suite has at least one check; without any, every release passes.";
    BatchAboveMax = 97, Error, "The first batch isn't larger than the largest.";
    BatchAboveTolerance = 98, Warning, "Before anything is proven, no more move at once than may fail, and one.";
    DriverWithoutDrain = 99, Warning, "Kernel modules and what GPUs hang on aren't replaced under running pods: such a component drains.";
    SampleTooSmall = 100, Warning, "A sample has a node for each combination that it should cover.";
    // Layouts.
    ImpossibleLayout = 101, Error, "The GPUs of every pool that uses a layout can be cut that way.";
    StrategyMismatch = 103, Error, "The strategy of a layout fits its slices.";
    DeviceIndex = 104, Error, "A layout names only GPUs that a node has.";
    DeviceTwice = 105, Error, "A GPU is in one group of a layout.";
    ReplicasOne = 106, Error, "Sharing has at least two replicas; no sharing is written as absence.";
    SharedTwice = 107, Error, "A device is time-sliced or shared by MPS, not both.";
    // Settings, and what was found later.
    UnknownSetting = 108, Error, "Settings that drydock knows have its words for keys and values.";
    SettingNotCarried = 109, Error, "A setting is carried by the delivery of its component; otherwise it would change nothing.";
    ControlsContradict = 110, Warning, "Two controls of one rollout don't say different things; the most careful one wins.";
    DriverAdvice = 111, Warning, "Nothing that is known about a driver speaks against it.";
}

impl fmt::Display for RuleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("DD{:03}", self.number()))
    }
}

impl fmt::Debug for RuleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why a rule was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no such rule: {0:?}; rules are written like DD017")]
pub struct RuleError(String);

impl FromStr for RuleId {
    type Err = RuleError;
    fn from_str(text: &str) -> Result<Self, RuleError> {
        let number = text.strip_prefix("DD").and_then(|n| n.parse().ok());
        let rule = number.and_then(|n: u16| Self::ALL.iter().copied().find(|r| r.number() == n));
        rule.ok_or_else(|| RuleError(text.to_owned()))
    }
}

impl Serialize for RuleId {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for RuleId {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_rise_and_read_back() {
        assert!(RuleId::ALL.windows(2).all(|w| w[0].number() < w[1].number()));
        for &rule in RuleId::ALL {
            assert_eq!(rule.to_string().parse(), Ok(rule));
            assert!(rule.explanation().ends_with('.'), "{rule}");
        }
        assert!("DD999".parse::<RuleId>().is_err());
    }
}
