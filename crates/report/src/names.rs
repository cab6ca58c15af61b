//! What datasets and networks are called on the page.
//!
//! Records hold ids. How an id is written for people matters to the page alone, so it stands here
//! and neither in the datasets' manifest, which describes files, nor in every record. The command
//! line, which knows all three, tests that every built-in dataset and network is named.

/// Datasets: id and name.
pub const DATASETS: [(&str, &str); 12] = [
    ("fashion-mnist", "Fashion-MNIST"),
    ("fashion-mnist-mini", "Small Fashion-MNIST"),
    ("mnist", "MNIST"),
    ("kmnist", "KMNIST"),
    ("notmnist", "notMNIST"),
    ("emnist-letters", "EMNIST letters"),
    ("sse-letters", "SSE letters"),
    ("letters", "drawn letters"),
    ("cifar-10", "CIFAR-10"),
    ("cifar-100", "CIFAR-100"),
    ("svhn", "SVHN"),
    ("tiny-imagenet", "TinyImageNet"),
];

/// Networks: id and name; one with dropout has the name of the one without.
pub const NETWORKS: [(&str, &str); 4] = [
    ("lenet", "LeNet"),
    ("resnet20", "ResNet-20"),
    ("densenet121", "DenseNet-121"),
    ("densenet101", "DenseNet-101"),
];

/// Name of a dataset; its id where it has none.
pub fn dataset(id: &str) -> &str {
    name(&DATASETS, id)
}

/// Name of a network; its id where it has none.
pub fn network(id: &str) -> &str {
    name(&NETWORKS, id)
}

fn name<'a>(names: &[(&str, &'a str)], id: &'a str) -> &'a str {
    let known = names.iter().find(|(known, _)| *known == id);
    known.map_or(id, |(_, name)| name)
}
