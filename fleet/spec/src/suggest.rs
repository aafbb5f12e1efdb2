//! "Did you mean": the nearest of some known words.

/// The candidate nearest to `word`, when it is near enough that a slip of the hand explains the difference: one edit
/// for each three letters, at least one. The first of equals wins.
pub(crate) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word: Vec<char> = word.chars().map(|c| c.to_ascii_lowercase()).collect();
    let mut limit = (word.len() / 3).max(1);
    let mut best = None;
    for candidate in candidates {
        let other: Vec<char> = candidate.chars().map(|c| c.to_ascii_lowercase()).collect();
        if other.len().abs_diff(word.len()) > limit {
            continue;
        }
        let distance = distance(&word, &other);
        if distance < limit || (distance == limit && best.is_none()) {
            limit = distance;
            best = Some(candidate);
        }
    }
    best
}

/// Edits (insert, delete, replace, swap of neighbours) that turn one word into the other.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.iter().enumerate() {
        let mut row = Vec::with_capacity(b.len() + 1);
        row.push(i + 1);
        for (j, cb) in b.iter().enumerate() {
            let mut cost = (last[j] + usize::from(ca != cb)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *ca == b[j - 1] && a[i - 1] == *cb {
                cost = cost.min(before_last[j - 1] + 1);
            }
            row.push(cost);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

/// A hint that names the nearest word, or else the known ones when they are few enough to read.
pub(crate) fn hint(word: &str, known: &[&str]) -> Option<String> {
    // More than this many names is a list nobody reads.
    const READABLE: usize = 12;
    match nearest(word, known.iter().copied()) {
        Some(near) => Some(format!("did you mean `{near}`?")),
        None if known.is_empty() => None,
        None if known.len() <= READABLE => Some(format!("known are {}", known.join(", "))),
        None => Some(format!("known are {}, … ({} in all)", known[..READABLE].join(", "), known.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_slips_and_refuses_strangers() {
        let fields = ["nodeSelector", "release", "layout", "rdmaRails"];
        assert_eq!(nearest("nodeSelectr", fields), Some("nodeSelector"));
        assert_eq!(nearest("relaese", fields), Some("release"));
        assert_eq!(nearest("rdmarails", fields), Some("rdmaRails"));
        assert_eq!(nearest("banana", fields), None);
        assert_eq!(nearest("", fields), None);
    }

    #[test]
    fn counts_edits() {
        let d = |a: &str, b: &str| distance(&a.chars().collect::<Vec<_>>(), &b.chars().collect::<Vec<_>>());
        assert_eq!(d("abc", "abc"), 0);
        assert_eq!(d("abc", "acb"), 1);
        assert_eq!(d("", "abc"), 3);
        assert_eq!(d("kitten", "sitting"), 3);
    }
}
