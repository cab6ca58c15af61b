//! What the program is built of, as a CycloneDX document, from `Cargo.lock`.

use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
struct Lock {
    package: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    source: Option<String>,
    checksum: Option<String>,
    #[serde(default)]
    dependencies: Vec<String>,
}

impl Package {
    fn address(&self) -> String {
        format!("pkg:cargo/{}@{}", self.name, self.version)
    }

    /// Whether a word of `dependencies` means it: a name, or name and version where several are.
    fn is_meant(&self, word: &str) -> bool {
        let mut words = word.split(' ');
        words.next() == Some(&self.name) && words.next().is_none_or(|v| v == self.version)
    }
}

/// Writes the document.
///
/// # Errors
/// `Cargo.lock` cannot be read, or the file not be written.
pub fn write(root: &Path, file: &Path) -> Result<()> {
    let lock = std::fs::read_to_string(root.join("Cargo.lock"))?;
    let text = serde_json::to_string_pretty(&document(&lock)?)?;
    std::fs::write(file, text + "\n").with_context(|| format!("cannot write {}", file.display()))
}

fn document(lock: &str) -> Result<Value> {
    let lock: Lock = toml::from_str(lock).context("Cargo.lock is not as expected")?;
    let component = |package: &Package| {
        let address = package.address();
        let mut found = json!({
            "type": "library",
            "bom-ref": address,
            "name": package.name,
            "version": package.version,
            "purl": address,
        });
        if let Some(checksum) = &package.checksum {
            found["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
        }
        // what has no source is this workspace's own
        found["scope"] = json!(if package.source.is_some() {
            "required"
        } else {
            "excluded"
        });
        found
    };
    let edge = |package: &Package| {
        let meant = |word: &String| {
            let found = lock.package.iter().find(|other| other.is_meant(word));
            found.map(Package::address)
        };
        let on: Vec<String> = package.dependencies.iter().filter_map(meant).collect();
        json!({ "ref": package.address(), "dependsOn": on })
    };
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "components": lock.package.iter().map(component).collect::<Vec<_>>(),
        "dependencies": lock.package.iter().map(edge).collect::<Vec<_>>(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_and_what_they_depend_on() {
        let lock = r#"
            version = 4
            [[package]]
            name = "own"
            version = "0.1.0"
            dependencies = ["a", "b 2.0.0"]
            [[package]]
            name = "a"
            version = "1.2.3"
            source = "registry"
            checksum = "ff"
            [[package]]
            name = "b"
            version = "1.0.0"
            source = "registry"
            [[package]]
            name = "b"
            version = "2.0.0"
            source = "registry"
        "#;
        let found = document(lock).unwrap();
        assert_eq!(found["components"][1]["hashes"][0]["content"], "ff");
        assert_eq!(found["components"][0]["scope"], "excluded");
        let on = &found["dependencies"][0]["dependsOn"];
        assert_eq!(*on, json!(["pkg:cargo/a@1.2.3", "pkg:cargo/b@2.0.0"]));
        assert!(document("package = 3").is_err());
    }
}
