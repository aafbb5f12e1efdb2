//! Waiting for the thing itself, with a deadline.

use std::{future::Future, time::Duration};

use tokio::time::Instant;

/// How often a thing is looked at while it isn't there yet: real API servers answer in a few milliseconds, and a test
/// that waits for ten things this way asks for 200 requests a second at most.
const PACE: Duration = Duration::from_millis(50);

/// Looks again and again until `look` gives a value, and gives it.
///
/// `look` says with `Ok(Err(text))` what is still missing; the text of the last look stands in the error. An error of
/// `look` itself (a refused request) is taken for "not yet" too, since API servers are stopped in tests.
///
/// # Errors
/// `what`, and what was missing at the last look, when `within` has passed.
pub async fn eventually<T, F, Fut>(what: &str, within: Duration, mut look: F) -> anyhow::Result<T>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = anyhow::Result<Result<T, String>>>,
{
    let deadline = Instant::now() + within;
    loop {
        let missing = match look().await {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(missing)) => missing,
            Err(error) => format!("{error:#}"),
        };
        anyhow::ensure!(Instant::now() < deadline, "{what}: not within {within:?}; {missing}");
        tokio::time::sleep(PACE).await;
    }
}
