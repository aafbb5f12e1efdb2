//! Just enough reading of Rust text for the rules: code without comments, texts and test modules.

/// The code of a file that runs in production: comments and the contents of texts are blanked, and what follows
/// `#[cfg(test)]` up to the end of that item is left out. Line breaks stay, so lines can be counted.
pub(crate) fn code(text: &str) -> String {
    without_tests(&without_comments(text))
}

fn without_comments(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let (mut out, mut i) = (String::with_capacity(text.len()), 0);
    let at = |i: usize| chars.get(i).copied().unwrap_or('\0');
    while i < chars.len() {
        let end = match (at(i), at(i + 1)) {
            ('/', '/') => (i..chars.len()).find(|&j| at(j) == '\n').unwrap_or(chars.len()),
            ('/', '*') => end_of_comment(&chars, i),
            ('r', '"' | '#') if i == 0 || !is_word(at(i - 1)) => match end_of_raw(&chars, i) {
                Some(end) => end,
                None => {
                    out.push('r');
                    i += 1;
                    continue;
                }
            },
            ('"', _) => end_of_text(&chars, i),
            // 'x' and '\n' are characters, 'a without a closing quote is a lifetime.
            ('\'', '\\') => (i + 3..chars.len()).find(|&j| at(j) == '\'').map_or(chars.len(), |j| j + 1),
            ('\'', _) if at(i + 2) == '\'' => i + 3,
            _ => {
                out.push(chars[i]);
                i += 1;
                continue;
            }
        };
        out.extend(chars[i..end].iter().map(|c| if *c == '\n' { '\n' } else { ' ' }));
        i = end;
    }
    out
}

fn end_of_comment(chars: &[char], start: usize) -> usize {
    let (mut depth, mut i) = (0, start);
    while i + 1 < chars.len() {
        match (chars[i], chars[i + 1]) {
            ('/', '*') => (depth, i) = (depth + 1, i + 2),
            ('*', '/') => {
                (depth, i) = (depth - 1, i + 2);
                if depth == 0 {
                    return i;
                }
            }
            _ => i += 1,
        }
    }
    chars.len()
}

fn end_of_text(chars: &[char], start: usize) -> usize {
    let mut i = start + 1;
    while i < chars.len() {
        match chars[i] {
            '\\' => i += 2,
            '"' => return i + 1,
            _ => i += 1,
        }
    }
    chars.len()
}

/// The end of `r"…"` or `r#"…"#`; `None` for a raw identifier.
fn end_of_raw(chars: &[char], start: usize) -> Option<usize> {
    let hashes = chars[start + 1..].iter().take_while(|c| **c == '#').count();
    let open = start + 1 + hashes;
    if chars.get(open) != Some(&'"') {
        return None;
    }
    let closes = |i: usize| chars[i] == '"' && (1..=hashes).all(|n| chars.get(i + n) == Some(&'#'));
    Some((open + 1..chars.len()).find(|&i| closes(i)).map_or(chars.len(), |i| i + 1 + hashes))
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Leaves out every item that stands under `#[cfg(test)]`: up to its closing brace, or its semicolon.
fn without_tests(code: &str) -> String {
    const MARK: &str = "#[cfg(test)]";
    let (mut out, mut rest) = (String::with_capacity(code.len()), code);
    while let Some(start) = rest.find(MARK) {
        out.push_str(&rest[..start]);
        let item = &rest[start..];
        let (mut depth, mut end) = (0, item.len());
        for (i, c) in item.char_indices().skip(MARK.len()) {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                ';' => {}
                _ => continue,
            }
            if depth == 0 {
                end = i + 1;
                break;
            }
        }
        out.extend(item[..end].chars().filter(|c| *c == '\n'));
        rest = &item[end..];
    }
    out.push_str(rest);
    out
}

/// Lines, from 1, on which `word` stands as a whole word.
pub(crate) fn lines_with(code: &str, word: &str) -> Vec<usize> {
    let whole = |line: &str| {
        line.match_indices(word).any(|(at, _)| {
            let before = line[..at].chars().next_back();
            let after = line[at + word.len()..].chars().next();
            let goes_on = after.is_some_and(is_word) && word.ends_with(is_word);
            !before.is_some_and(is_word) && !goes_on
        })
    };
    code.lines().enumerate().filter(|(_, line)| whole(line)).map(|(i, _)| i + 1).collect()
}

/// Every path that a file names from `std`, also inside `use std::{a, b::c}`: `fs`, `time::Instant`, with its line.
pub(crate) fn std_paths(code: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("std::") {
        if code[..at].chars().next_back().is_some_and(is_word) {
            continue;
        }
        let line = code[..at].matches('\n').count() + 1;
        let mut names = Vec::new();
        expand(&code[at + "std::".len()..], "", &mut names);
        found.extend(names.into_iter().map(|name| (line, name)));
    }
    found
}

/// Reads one tree of a `use`: a path, or a list in braces. Returns how much of the text it took.
fn expand(text: &str, prefix: &str, found: &mut Vec<String>) -> usize {
    let mut at = text.len() - text.trim_start().len();
    if text[at..].starts_with('{') {
        at += 1;
        loop {
            at += expand(&text[at..], prefix, found);
            let skipped = text[at..].len() - text[at..].trim_start().len();
            at += skipped;
            match text[at..].chars().next() {
                Some(',') => at += 1,
                Some('}') => return at + 1,
                // Not a list after all, or cut short: what was read so far stands.
                Some(c) => at += c.len_utf8(),
                None => return at,
            }
            let empty = text[at..].trim_start();
            if let Some(rest) = empty.strip_prefix('}') {
                return text.len() - rest.len();
            }
        }
    }
    let length = text[at..].find(|c| !is_word(c)).unwrap_or(text.len() - at);
    let name = &text[at..at + length];
    at += length;
    let path = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}::{name}") };
    if let Some(rest) = text[at..].strip_prefix("::")
        && rest.trim_start().starts_with(|c: char| is_word(c) || c == '{')
    {
        return at + 2 + expand(rest, &path, found);
    }
    if !name.is_empty() {
        found.push(path);
    }
    at
}

#[test]
fn comments_texts_and_tests_are_not_code() {
    let text = "let a = \"std::fs // x\"; // std::env\n/* std::net /* in */ */ let c = '\"'; fn f<'a>() {}\n\
                let r = r#\"panic!(\"#;\n#[cfg(test)]\nmod tests { fn g() { std::fs::read(); } }\nlet z = b'\\'';";
    let code = code(text);
    for gone in ["std", "panic", "mod tests"] {
        assert!(!code.contains(gone), "{gone} in {code}");
    }
    for kept in ["let a =", "let c =", "fn f<'a>() {}", "let r =", "let z = b"] {
        assert!(code.contains(kept), "{kept} not in {code}");
    }
    assert_eq!(code.lines().count(), text.lines().count());
}

#[test]
fn a_test_module_in_a_file_of_its_own_ends_at_its_semicolon() {
    assert_eq!(code("#[cfg(test)]\nmod tests;\nfn f() {}").trim(), "fn f() {}");
}

#[test]
fn words_are_whole() {
    assert_eq!(lines_with("MyHashMap\nHashMap<u8>\nHashMaps", "HashMap"), [2]);
    assert_eq!(lines_with("a.println!(x)\neprintln!\nprintln!", "println!"), [1, 3]);
}

#[test]
fn grouped_imports_are_unfolded() {
    let names = |text: &str| std_paths(text).into_iter().map(|(_, name)| name).collect::<Vec<_>>();
    assert_eq!(
        names("use std::{fmt, fs, time::{Duration, Instant}, sync::Arc};"),
        ["fmt", "fs", "time::Duration", "time::Instant", "sync::Arc"]
    );
    assert_eq!(names("let x = std::env::var(name)?; mystd::fs::x"), ["env::var"]);
    assert_eq!(
        names("use std::{\n    collections::BTreeMap,\n    process,\n};\n"),
        ["collections::BTreeMap", "process"]
    );
    assert_eq!(std_paths("\n\nuse std::fs::File;"), [(3, "fs::File".to_owned())]);
}
