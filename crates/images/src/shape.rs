//! The size of one image, or of any value that belongs to one image.

/// `[channels, height, width]` of one image.
///
/// ```
/// assert_eq!(images::Shape::new(1, 28, 28).to_string(), "1x28x28");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shape {
    /// 1 for gray, 3 for red, green, blue; features of a flat value.
    pub channels: usize,
    /// Rows.
    pub height: usize,
    /// Columns.
    pub width: usize,
}

impl Shape {
    /// A shape from its three sizes.
    pub const fn new(channels: usize, height: usize, width: usize) -> Self {
        Self {
            channels,
            height,
            width,
        }
    }

    /// Pixels of one channel.
    pub const fn plane(self) -> usize {
        self.height * self.width
    }

    /// Entries of one image.
    pub const fn len(self) -> usize {
        self.channels * self.plane()
    }

    /// Whether there are no entries.
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Whether this is a flat vector of features.
    pub const fn is_flat(self) -> bool {
        self.height == 1 && self.width == 1
    }
}

impl std::fmt::Display for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}x{}x{}", self.channels, self.height, self.width)
    }
}
