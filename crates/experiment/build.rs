//! Tells the crate which commit it is built from, where there is a git checkout; records carry it.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let Ok(root) = std::env::var("CARGO_MANIFEST_DIR") else {
        return;
    };
    let git = |arguments: &[&str]| -> Option<String> {
        let output = Command::new("git")
            .args(arguments)
            .current_dir(&root)
            .output()
            .ok()?;
        let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
        (output.status.success() && !text.is_empty()).then_some(text)
    };
    // the reflog grows with every commit and checkout
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        let log = Path::new(&root).join(log);
        if log.exists() {
            println!("cargo::rerun-if-changed={}", log.display());
        }
    }
    if let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) {
        println!("cargo::rustc-env=MAXITIVE_COMMIT={commit}");
    }
}
