//! Several runs of one check, as one result.

use drydock_plan::{CheckResult, RawVerdict};

use super::read::{cut, rank};

/// The worst verdict counts, since each run was asked whether something is wrong, and one of them has said so: `Fail`,
/// then `Hang`, then `Inconclusive`, then `NotApplicable`. Among runs that all passed the median of the values counts:
/// one slow run among three is noise.
pub(super) fn result(runs: &[CheckResult]) -> Option<CheckResult> {
    let worst = runs.iter().min_by_key(|r| rank(r.verdict))?;
    let mut told = worst.clone();
    told.started = runs.iter().map(|r| r.started).min().unwrap_or(told.started);
    told.finished = runs.iter().map(|r| r.finished).max().unwrap_or(told.finished);
    if worst.verdict == RawVerdict::Pass && runs.len() > 1 {
        let mut values: Vec<f64> = runs.iter().filter_map(|r| r.value).collect();
        values.sort_by(f64::total_cmp);
        told.value = median(&values);
        if let Some(median) = told.value {
            let all: Vec<String> = values.iter().map(|v| format!("{v:.1}")).collect();
            told.detail = cut(format!("median {median:.1} of {}: {}", all.join(", "), told.detail));
        }
    }
    Some(told)
}

/// The middle of sorted values; between the two in the middle where there are two.
fn median(sorted: &[f64]) -> Option<f64> {
    let high = *sorted.get(sorted.len() / 2)?;
    if sorted.len() % 2 == 1 {
        return Some(high);
    }
    let low = *sorted.get(sorted.len() / 2 - 1)?;
    Some(f64::midpoint(low, high))
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;

    fn run(verdict: RawVerdict, value: Option<f64>) -> CheckResult {
        CheckResult {
            check: "busbw".parse().unwrap(),
            verdict,
            value,
            detail: "d".to_owned(),
            started: Timestamp::UNIX_EPOCH,
            finished: Timestamp::UNIX_EPOCH,
            partner: None,
        }
    }

    #[test]
    fn the_worst_counts_and_among_good_ones_the_median() {
        use RawVerdict::*;
        let told = |runs: &[(RawVerdict, Option<f64>)]| {
            let runs: Vec<CheckResult> = runs.iter().map(|(v, n)| run(*v, *n)).collect();
            result(&runs).map(|r| (r.verdict, r.value))
        };
        assert_eq!(told(&[]), None);
        assert_eq!(told(&[(Pass, Some(3.0))]), Some((Pass, Some(3.0))));
        assert_eq!(told(&[(Pass, Some(9.0)), (Pass, Some(1.0)), (Pass, Some(3.0))]), Some((Pass, Some(3.0))));
        assert_eq!(told(&[(Pass, Some(1.0)), (Pass, Some(2.0))]), Some((Pass, Some(1.5))));
        assert_eq!(told(&[(Pass, None), (Pass, None)]), Some((Pass, None)));
        assert_eq!(told(&[(Pass, Some(1.0)), (Inconclusive, None)]), Some((Inconclusive, None)));
        assert_eq!(told(&[(Inconclusive, None), (Fail, Some(2.0))]), Some((Fail, Some(2.0))));
        assert_eq!(told(&[(Pass, Some(1.0)), (Hang, None)]), Some((Hang, None)));
        assert_eq!(told(&[(Pass, Some(1.0)), (NotApplicable, None)]), Some((NotApplicable, None)));
    }
}
