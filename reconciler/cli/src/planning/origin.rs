//! Where in a document a field is written. Parsed documents keep no place for every field, so the line is looked for in
//! the text, which is enough to point a reader at it.

/// The line (from 1) on which the field at `path` stands in the document that begins at line `from`; `None` when it
/// isn't written, so that its default holds. A part like `name=lab` steps into the entry of a list with that name.
pub(super) fn line_of(text: &str, from: u32, path: &[&str]) -> Option<u32> {
    let lines: Vec<&str> = text.lines().collect();
    let first = usize::try_from(from).ok()?.saturating_sub(1);
    let end =
        lines.iter().skip(first).position(|line| line.starts_with("---")).map_or(lines.len(), |n| first + n);
    // `kind` stands at the same depth as `spec`, before or after it; the document may begin above it.
    let start = lines.iter().take(first).rposition(|line| line.starts_with("---")).map_or(0, |n| n + 1);
    let (mut at, mut indent, mut inline) = (start, None, None);
    for part in path {
        if let Some(rest) = inline {
            // Inside `{…}` on one line there is no deeper place to point at.
            inline = after_key(rest, part);
            inline?;
            continue;
        }
        let (line, depth) = find(&lines, at, end, indent, part)?;
        at = line;
        indent = Some(depth);
        inline = flow(lines.get(line)?);
        if inline.is_none() {
            at += 1;
        }
    }
    let line = if inline.is_some() { at } else { at.saturating_sub(1) };
    u32::try_from(line + 1).ok()
}

fn indent_of(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

fn is_blank(line: &str) -> bool {
    let line = line.trim_start();
    line.is_empty() || line.starts_with('#')
}

/// The next line with the key that lies deeper than `above`, before anything that doesn't.
fn find(lines: &[&str], from: usize, end: usize, above: Option<usize>, part: &str) -> Option<(usize, usize)> {
    for (number, line) in lines.iter().enumerate().take(end).skip(from) {
        if is_blank(line) {
            continue;
        }
        let indent = indent_of(line);
        // The entries of a list may stand as deep as its key.
        let entry = part.contains('=') && line.trim_start().starts_with("- ");
        if above.is_some_and(|above| indent < above || (indent == above && !entry)) {
            return None;
        }
        let text = line.trim_start();
        if let Some((key, value)) = part.split_once('=') {
            let item = text.strip_prefix("- ").unwrap_or(text);
            if after_key(item, key).is_some_and(|rest| rest.trim().trim_matches('"') == value) {
                // The entry's fields lie deeper than its dash.
                let dash = if text.starts_with("- ") { indent } else { indent.saturating_sub(2) };
                return Some((number, dash));
            }
        } else if after_key(text.strip_prefix("- ").unwrap_or(text), part).is_some() {
            return Some((number, indent));
        }
    }
    None
}

/// What follows `key:` at the start of a text or inside `{…}`.
fn after_key<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let text = text.trim_start();
    if let Some(rest) = text.strip_prefix(key).and_then(|rest| rest.strip_prefix(':')) {
        return Some(rest);
    }
    let inside = text.split(['{', ',']).skip(1);
    inside.map(str::trim_start).find_map(|piece| piece.strip_prefix(key)?.strip_prefix(':'))
}

/// The rest of a line whose value is written as `{…}`.
fn flow(line: &str) -> Option<&str> {
    let at = line.find(": {")?;
    line.get(at + 2..)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
apiVersion: drydock.dev/v1alpha1
kind: Budget
metadata:
  name: one
spec:
  # maxInFlight: 9
  maxInFlight: 1
---
kind: RolloutPolicy
metadata: {name: two}
spec:
  drain:
    checkpoint: {wait: 30m, onTimeout: defer}
    timeout: 10m
  waves:
    - name: lab
      batch: {start: 1, max: 4}
    - name: dev
      soak: {time: 30m}
  timeout: 1m
";

    #[test]
    fn fields_are_found_where_they_are_written() {
        for (from, path, line) in [
            (2, &["spec", "maxInFlight"][..], Some(7)),
            (2, &["spec", "minAvailable"], None),
            (2, &["spec", "drain"], None),
            (9, &["spec", "drain", "timeout"], Some(14)),
            (9, &["spec", "drain", "checkpoint", "wait"], Some(13)),
            (9, &["spec", "drain", "checkpoint", "other"], None),
            (9, &["spec", "waves", "name=lab", "batch", "max"], Some(17)),
            (9, &["spec", "waves", "name=lab", "soak", "time"], None),
            (9, &["spec", "waves", "name=dev", "soak", "time"], Some(19)),
            (9, &["spec", "waves", "name=other", "soak"], None),
            (9, &["spec", "maxClusters"], None),
        ] {
            assert_eq!(line_of(TEXT, from, path), line, "{path:?}");
        }
    }
}
