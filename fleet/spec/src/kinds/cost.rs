use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::Amount;

use super::Scope;

/// `kind: CostBudget`: money per month for a part of the fleet. It warns; it never moves a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CostBudgetSpec {
    /// What it counts over.
    #[serde(default)]
    pub scope: Scope,
    /// Currency code, for example `EUR`.
    pub currency: String,
    /// Most per month, in whole units of the currency.
    pub monthly_max: u64,
    /// Price of one GPU for an hour, in hundredths of the currency.
    pub gpu_hour_cents: u64,
    /// Shares of the maximum at which to warn.
    #[serde(default)]
    pub alert_at: Vec<Amount>,
}
