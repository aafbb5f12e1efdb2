//! How things look on a terminal. Pure: values in, text out.

pub(crate) mod diagnostic;
pub(crate) mod event;
pub(crate) mod node;
pub(crate) mod paint;
pub(crate) mod plan;
pub(crate) mod reason;
pub(crate) mod rollout;
pub(crate) mod simulation;
pub(crate) mod story;
pub(crate) mod table;
pub(crate) mod time;

/// Breaks a text between words so that no line is longer than `width`; lines after the first are indented.
pub(crate) fn wrap(text: &str, indent: usize, width: usize) -> String {
    let (mut out, mut column, mut first) = (String::new(), 0, true);
    // Blanks at the start and double ones between columns stay as they are.
    for word in text.split_inclusive(' ') {
        let length = word.trim_end().chars().count();
        if !first && column + length > width && length > 0 {
            out.truncate(out.trim_end().len());
            out.push('\n');
            out.push_str(&" ".repeat(indent));
            column = indent;
        }
        out.push_str(word);
        column += word.chars().count();
        first = false;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_between_words() {
        assert_eq!(wrap("why  one two three four", 5, 14), "why  one two\n     three\n     four");
        assert_eq!(wrap("short", 5, 14), "short");
    }
}
