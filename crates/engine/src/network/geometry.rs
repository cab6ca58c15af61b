//! Where the windows of a convolution or a pooling layer lie: the one description that network,
//! twin, plan and backends share.

use super::Shape;

/// Zero padding on the four sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Padding {
    /// Columns before the first.
    pub left: usize,
    /// Columns after the last.
    pub right: usize,
    /// Rows before the first.
    pub top: usize,
    /// Rows after the last.
    pub bottom: usize,
}

/// How a convolution is padded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PaddingRule {
    /// The same number of zeros on every side.
    Symmetric(usize),
    /// TensorFlow's rule: output size `ceil(n / stride)`, the odd zero at the end.
    Same,
}

impl PaddingRule {
    /// Zeros before and after `size` pixels.
    pub fn resolve(self, size: usize, kernel: usize, stride: usize) -> (usize, usize) {
        match self {
            Self::Symmetric(pad) => (pad, pad),
            Self::Same => {
                let last = (size.div_ceil(stride) - 1) * stride;
                let need = last.saturating_add(kernel).saturating_sub(size);
                (need / 2, need - need / 2)
            }
        }
    }
}

/// A convolution without its parameters: output `(y, x)` sees the square of the padded input that
/// begins at `(stride y, stride x)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conv {
    /// Shape of an input image.
    pub input: Shape,
    /// Shape of an output image.
    pub output: Shape,
    /// Side of the kernel.
    pub kernel: usize,
    /// Step in both directions.
    pub stride: usize,
    /// Zeros around the input.
    pub padding: Padding,
}

/// The windows of a pooling layer; an incomplete last row or column is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pool {
    /// Shape of an input image.
    pub input: Shape,
    /// Shape of an output image.
    pub output: Shape,
    /// Rows of a window.
    pub height: usize,
    /// Columns of a window.
    pub width: usize,
    /// Step in both directions.
    pub stride: usize,
}

impl Pool {
    /// Square windows, which must fit the input.
    pub fn square(input: Shape, kernel: usize, stride: usize) -> Self {
        let count = |size: usize| (size - kernel) / stride + 1;
        Self {
            input,
            output: Shape::new(input.channels, count(input.height), count(input.width)),
            height: kernel,
            width: kernel,
            stride,
        }
    }

    /// One window: the whole plane.
    pub fn global(input: Shape) -> Self {
        Self {
            input,
            output: Shape::new(input.channels, 1, 1),
            height: input.height,
            width: input.width,
            stride: 1,
        }
    }

    /// Whether every entry of the input is in exactly one window.
    pub fn is_tiling(&self) -> bool {
        self.height == self.stride
            && self.width == self.stride
            && self.output.height * self.stride == self.input.height
            && self.output.width * self.stride == self.input.width
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_padding_puts_the_odd_zero_last() {
        assert_eq!(PaddingRule::Same.resolve(8, 3, 2), (0, 1));
        assert_eq!(PaddingRule::Same.resolve(7, 3, 2), (1, 1));
        assert_eq!(PaddingRule::Same.resolve(8, 5, 2), (1, 2));
        assert_eq!(PaddingRule::Same.resolve(6, 1, 2), (0, 0));
    }
}
