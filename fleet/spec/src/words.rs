//! Words of other tools, and what they are called here. Who comes from another tool types its words first; a hint that
//! knows them saves a look into the schema.

use crate::suggest;

/// A word elsewhere; fields that say it here, the likeliest first; where that field stands, when it isn't beside.
const WORDS: &[(&str, &[&str], &str)] = &[
    ("maxUnavailable", &["maxInFlight"], "`maxInFlight` of a Budget"),
    ("maxParallelUpgrades", &["maxInFlight"], "`maxInFlight` of a Budget"),
    ("maxParallel", &["maxInFlight", "max"], "`maxInFlight` of a Budget, or `batch` of a wave"),
    ("maxConcurrent", &["maxInFlight", "max"], "`maxInFlight` of a Budget, or `batch` of a wave"),
    ("parallelism", &["maxInFlight", "max", "start"], "`maxInFlight` of a Budget, or `batch` of a wave"),
    ("disruptionsAllowed", &["maxInFlight"], "`maxInFlight` of a Budget"),
    ("minReady", &["minAvailable"], "`minAvailable` of a Budget"),
    ("minHealthy", &["minAvailable"], "`minAvailable` of a Budget"),
    ("minHealthyPercentage", &["minAvailable"], "`minAvailable` of a Budget"),
    ("batchSize", &["batch", "start"], "`batch: {start: …}` of a wave"),
    ("stages", &["waves"], "`waves` of a RolloutPolicy"),
    ("steps", &["waves"], "`waves` of a RolloutPolicy"),
    ("phases", &["waves"], "`waves` of a RolloutPolicy"),
    ("partitions", &["waves", "gpus"], "`waves` of a RolloutPolicy"),
    ("canary", &["waves"], "a first wave with pick: {count: 1}"),
    ("bakeTime", &["soak"], "`soak: {time: …}` of a wave"),
    ("pauseDuration", &["soak"], "`soak: {time: …}` of a wave"),
    ("minReadySeconds", &["soak"], "`soak: {time: …}` of a wave"),
    ("failureThreshold", &["tolerate", "failure"], "`failure: {tolerate: …}` of a wave"),
    ("maxFailures", &["tolerate", "failure"], "`failure: {tolerate: …}` of a wave"),
    ("failureLimit", &["tolerate", "failure"], "`failure: {tolerate: …}` of a wave"),
    ("paused", &["state"], "a RolloutControl with state: Pause"),
    ("suspend", &["state"], "a RolloutControl with state: Pause"),
    ("suspended", &["state"], "a RolloutControl with state: Pause"),
    ("excludedNodes", &["skip"], "`skip` of a RolloutControl"),
    ("nodeLabels", &["nodeSelector", "labels"], "`nodeSelector` of a GpuNodePool"),
    (
        "matchLabels",
        &["nodeSelector", "labels", "clusterLabels"],
        "the labels themselves, without matchLabels",
    ),
    ("labelSelector", &["nodeSelector", "select", "scope"], "`nodeSelector` of a GpuNodePool"),
    ("selector", &["select", "scope", "nodeSelector"], "`select` of a policy or `scope` of a budget"),
    ("targets", &["select", "scope"], "`select` of a policy"),
    ("gpuType", &["gpu", "model"], "`gpu: {model: …}` of a GpuNodePool"),
    ("accelerator", &["gpu", "model"], "`gpu: {model: …}` of a GpuNodePool"),
    ("replicas", &["nodes"], "`nodes: {min: …, max: …}` of a GpuNodePool"),
    ("minSize", &["nodes", "min"], "`nodes: {min: …}` of a GpuNodePool"),
    ("maxSize", &["nodes", "max"], "`nodes: {max: …}` of a GpuNodePool"),
    ("migConfig", &["layout"], "`layout` of a GpuNodePool"),
    ("migStrategy", &["strategy"], "`strategy` of a PartitionLayout"),
    ("migDevices", &["gpus", "mig"], "`gpus` of a PartitionLayout"),
    ("timeout", &["deadline", "timeout", "wait"], "`deadline`"),
    ("timeoutSeconds", &["timeout", "deadline", "wait"], "`timeout`"),
    ("gracePeriod", &["podGracePeriod"], "`drain: {podGracePeriod: …}` of a RolloutPolicy"),
    ("terminationGracePeriod", &["podGracePeriod"], "`drain: {podGracePeriod: …}` of a RolloutPolicy"),
    ("deleteEmptyDir", &["localStorage"], "`drain: {localStorage: evict}` of a RolloutPolicy"),
    ("deleteEmptyDirData", &["localStorage"], "`drain: {localStorage: evict}` of a RolloutPolicy"),
    ("drainSpec", &["drain"], "`drain` of a RolloutPolicy"),
    ("force", &["unmanaged"], "`drain: {unmanaged: evict}` of a RolloutPolicy"),
    ("retries", &["retry", "checkAttempts"], "`retry` of a RolloutPolicy"),
    ("backoffLimit", &["retry", "applyAttempts"], "`retry` of a RolloutPolicy"),
    ("maintenanceWindow", &["windows"], "`windows` of a Calendar"),
    ("maintenanceWindows", &["windows"], "`windows` of a Calendar"),
    ("schedule", &["windows", "from", "active"], "`windows` of a Calendar: weekdays, a start and a length"),
    ("cron", &["windows", "from"], "`windows` of a Calendar: weekdays, a start and a length"),
    ("duration", &["for", "time"], "`for` of a window"),
    ("start", &["from"], "`from`"),
    ("end", &["to", "for"], "`to` of a freeze, `for` of a window"),
    ("tz", &["timeZone"], "`timeZone`"),
    ("location", &["timeZone"], "`timeZone`"),
    ("exclusions", &["freezes"], "`freezes` of a Calendar"),
    ("blackouts", &["freezes"], "`freezes` of a Calendar"),
    ("dependsOn", &["after"], "`after` of a Component"),
    ("tag", &["version"], "`version`"),
    ("settings", &["config"], "`config` of a component in a Release"),
    ("values", &["config"], "`config` of a component in a Release"),
    ("threshold", &["regress", "floors"], "`regress` of a check, or `floors` of a GpuNodePool"),
    ("approvers", &["gates"], "`gates` of a wave"),
    ("approval", &["gates", "approve"], "`gates` of a wave"),
    ("context", &["access", "kubeconfigContext"], "`access: {kubeconfigContext: …}` of a Cluster"),
    ("kubeconfig", &["access", "secret"], "`access: {secret: …}` of a Cluster"),
    ("server", &["access"], "`access` of a Cluster: a context, or a kubeconfig in a Secret"),
];

/// What to write instead of a field that isn't known.
pub(crate) fn hint(field: &str, known: &[&str]) -> Option<String> {
    // A slip of the hand in a field of this very place is likelier than another tool's word, unless that fits exactly.
    let word = WORDS.iter().find(|(word, ..)| word.eq_ignore_ascii_case(field));
    let Some((_, here, elsewhere)) = word else { return suggest::hint(field, known) };
    match here.iter().find(|name| known.contains(name)) {
        Some(name) => Some(format!("here it is called `{name}`")),
        None if suggest::nearest(field, known.iter().copied()).is_some() => suggest::hint(field, known),
        None => Some(format!("elsewhere it is called that; here it is {elsewhere}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_other_tools_lead_to_fields() {
        let budget = ["scope", "maxInFlight", "minAvailable"];
        assert_eq!(hint("maxUnavailable", &budget).as_deref(), Some("here it is called `maxInFlight`"));
        let policy = ["select", "waves", "drain"];
        assert!(hint("maxUnavailable", &policy).is_some_and(|h| h.contains("of a Budget")));
        assert_eq!(hint("selectr", &policy).as_deref(), Some("did you mean `select`?"));
        assert_eq!(hint("selector", &policy).as_deref(), Some("here it is called `select`"));
    }

    /// Every field that is named exists in some schema.
    #[test]
    fn fields_that_are_named_exist() {
        let schema = serde_json::to_string(&crate::schemas()).unwrap_or_default();
        for (word, here, _) in WORDS {
            for name in *here {
                assert!(schema.contains(&format!("\"{name}\":")), "{word}: {name}");
            }
        }
    }
}
