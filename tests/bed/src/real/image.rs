//! Container images made of a few static files, as an OCI layout in a tar. Pure.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// An image, ready to be imported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// `NAME:TAG`, as pods name it.
    pub reference: String,
    /// The tar.
    pub tar: Vec<u8>,
}

/// Makes an image. Files are given with absolute path, content and mode; the same input gives the same bytes.
#[must_use]
pub fn image(
    name: &str,
    tag: &str,
    files: &[(&str, &[u8], u32)],
    entrypoint: &[&str],
    env: &[(&str, &str)],
) -> Image {
    let mut layer = Tar::default();
    for (path, bytes, mode) in files {
        layer.file(path.trim_start_matches('/'), bytes, *mode);
    }
    let layer = layer.end();
    let env: Vec<String> = env.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let config = json!({
        "architecture": "amd64", "os": "linux",
        "config": {"Entrypoint": entrypoint, "Env": env},
        "rootfs": {"type": "layers", "diff_ids": [digest(&layer)]},
    });
    let config = config.to_string().into_bytes();
    let manifest = json!({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": descriptor("application/vnd.oci.image.config.v1+json", &config),
        "layers": [descriptor("application/vnd.oci.image.layer.v1.tar", &layer)],
    });
    let manifest = manifest.to_string().into_bytes();
    let reference = format!("{name}:{tag}");
    let mut entry = descriptor("application/vnd.oci.image.manifest.v1+json", &manifest);
    // By this one containerd names what it imports.
    entry["annotations"] =
        json!({"io.containerd.image.name": full(&reference), "org.opencontainers.image.ref.name": tag});
    let index = json!({"schemaVersion": 2, "manifests": [entry]}).to_string();
    let mut tar = Tar::default();
    tar.file("oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#, 0o644);
    tar.file("index.json", index.as_bytes(), 0o644);
    for blob in [&layer, &config, &manifest] {
        tar.file(&format!("blobs/{}", digest(blob).replace(':', "/")), blob, 0o644);
    }
    Image { reference, tar: tar.end() }
}

/// The whole name of an image: the kubelet's side looks for `docker.io/library/x:1` when a pod says `x:1`.
fn full(reference: &str) -> String {
    match reference.split_once('/') {
        Some((host, _)) if host.contains(['.', ':']) || host == "localhost" => reference.to_owned(),
        Some(_) => format!("docker.io/{reference}"),
        None => format!("docker.io/library/{reference}"),
    }
}

fn digest(bytes: &[u8]) -> String {
    let hex: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

fn descriptor(media_type: &str, bytes: &[u8]) -> Value {
    json!({"mediaType": media_type, "digest": digest(bytes), "size": bytes.len()})
}

/// A block of a tar.
const BLOCK: usize = 512;

/// A tar in the ustar format, with regular files only: unpacking makes the folders.
#[derive(Default)]
struct Tar(Vec<u8>);

impl Tar {
    /// Paths are at most 100 bytes long, which is all that is needed here.
    fn file(&mut self, path: &str, bytes: &[u8], mode: u32) {
        let mut header = [0u8; BLOCK];
        let mut put = |at: usize, text: &[u8]| {
            if let Some(place) = header.get_mut(at..at + text.len()) {
                place.copy_from_slice(text);
            }
        };
        put(0, path.as_bytes().get(..path.len().min(100)).unwrap_or_default());
        put(100, format!("{mode:07o}\0").as_bytes());
        put(108, b"0000000\0");
        put(116, b"0000000\0");
        put(124, format!("{:011o}\0", bytes.len()).as_bytes());
        put(136, b"00000000000\0");
        // The checksum is taken with spaces in its own place.
        put(148, b"        ");
        put(156, b"0");
        put(257, b"ustar\x0000");
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        if let Some(place) = header.get_mut(148..156) {
            place.copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        }
        self.0.extend_from_slice(&header);
        self.0.extend_from_slice(bytes);
        self.0.resize(self.0.len().next_multiple_of(BLOCK), 0);
    }
    fn end(mut self) -> Vec<u8> {
        self.0.resize(self.0.len() + 2 * BLOCK, 0);
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn images_have_whole_names() {
        assert_eq!(full("x:1"), "docker.io/library/x:1");
        assert_eq!(full("bed/x:1"), "docker.io/bed/x:1");
        assert_eq!(full("bed.drydock.dev/x:1"), "bed.drydock.dev/x:1");
    }

    #[test]
    fn tar_reads_what_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let made = image("bed/x", "1", &[("/bin/x", b"hello", 0o755)], &["/bin/x"], &[("A", "b")]);
        assert_eq!(made.reference, "bed/x:1");
        let path = folder.path().join("image.tar");
        std::fs::write(&path, &made.tar).unwrap();
        let out = Command::new("tar").arg("-xvf").arg(&path).arg("-C").arg(folder.path()).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        let index: Value =
            serde_json::from_slice(&std::fs::read(folder.path().join("index.json")).unwrap()).unwrap();
        let manifest = index["manifests"][0]["digest"].as_str().unwrap().replace(':', "/");
        let manifest: Value =
            serde_json::from_slice(&std::fs::read(folder.path().join("blobs").join(manifest)).unwrap())
                .unwrap();
        let layer = manifest["layers"][0]["digest"].as_str().unwrap().replace(':', "/");
        let list =
            Command::new("tar").arg("-tvf").arg(folder.path().join("blobs").join(layer)).output().unwrap();
        let list = String::from_utf8_lossy(&list.stdout).into_owned();
        assert!(list.contains("-rwxr-xr-x") && list.contains("bin/x"), "{list}");
    }
}
