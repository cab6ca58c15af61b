//! Image datasets in their official formats: found, fetched, checked, decoded, split, augmented.
