//! The example fleets, inside the program: `demo` needs nothing else.

use std::borrow::Cow;

use rust_embed::RustEmbed;

/// Everything under `examples-repo/`.
#[derive(RustEmbed)]
#[folder = "../../examples-repo"]
struct Examples;

/// An example fleet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Example {
    /// 2 clusters, 184 nodes.
    Demo,
    /// 12 clusters, 3,000 nodes.
    Model,
}

impl Example {
    /// Its files, by path inside the fleet's folder.
    pub(crate) fn files(self) -> Vec<(String, Vec<u8>)> {
        let folder = match self {
            Self::Demo => "demo/",
            Self::Model => "model/",
        };
        let mut files: Vec<(String, Vec<u8>)> = Examples::iter()
            .filter_map(|path| {
                let inside = path.strip_prefix(folder)?.to_owned();
                Some((inside, Examples::get(&path)?.data.into_owned()))
            })
            .collect();
        files.sort();
        files
    }
    /// The page that explains the folders, and who is asked to review.
    pub(crate) fn beside() -> Vec<(String, Vec<u8>)> {
        let file =
            |path: &str| Some((path.to_owned(), Examples::get(path).map(|f| f.data).map(Cow::into_owned)?));
        file("README.md").into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fleets_are_inside() {
        for (example, count) in [(Example::Demo, 15), (Example::Model, 35)] {
            let files = example.files();
            assert!(files.len() > count && files.iter().any(|(path, _)| path == "fleet.yaml"), "{example:?}");
        }
        assert_eq!(Example::beside().len(), 1);
    }
}
