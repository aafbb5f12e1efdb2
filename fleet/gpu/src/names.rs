//! Comparing names that people typed with names from a table.

/// Lower case, with blanks and underscores as dashes, so that "NVIDIA H100 NVL" and "nvidia-h100-nvl" meet.
pub(crate) fn fold(text: &str) -> String {
    text.trim()
        .chars()
        .map(|c| match c {
            ' ' | '_' | '/' => '-',
            other => other.to_ascii_lowercase(),
        })
        .collect()
}

/// Longest name that is compared by edit distance. Real product names stay below 60 characters, and the
/// distance costs the product of both lengths.
const MAX_COMPARED: usize = 96;

/// Levenshtein distance in characters; `None` when either name is too long to be one of ours.
pub(crate) fn distance(a: &str, b: &str) -> Option<usize> {
    if a.len() > MAX_COMPARED || b.len() > MAX_COMPARED {
        return None;
    }
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (cell, cb) in row.iter_mut().skip(1).zip(&b) {
            let substituted = diagonal + usize::from(ca != *cb);
            diagonal = *cell;
            left = substituted.min(*cell + 1).min(left + 1);
            *cell = left;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_single_edits() {
        for (a, b, want) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("h100", "h100", 0),
            ("h100", "h200", 1),
            ("kitten", "sitting", 3),
            ("a100-40gb", "a100-80gb", 1),
        ] {
            assert_eq!(distance(a, b), Some(want), "{a} {b}");
        }
        assert_eq!(distance(&"x".repeat(97), "x"), None);
    }

    #[test]
    fn fold_joins_the_spellings() {
        assert_eq!(fold(" NVIDIA H100_NVL "), "nvidia-h100-nvl");
    }
}
