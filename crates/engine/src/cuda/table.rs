//! What the kernels read and write, as `common.cuh` and the kernels' files lay it out. Every struct
//! fills its bytes, so that none of them is left to chance.

/// Types whose bytes may go to the card and come from it: no padding, any bits are a value.
///
/// # Safety
/// The type is as said.
pub(crate) unsafe trait Plain: Copy {
    /// The value in words of eight bytes, as an argument of a kernel.
    fn words(&self) -> Vec<u64> {
        let mut words = vec![0; size_of::<Self>().div_ceil(8)];
        // SAFETY: there are as many bytes, and alignment does not matter to bytes.
        unsafe {
            let from = std::ptr::from_ref(self).cast::<u8>();
            from.copy_to_nonoverlapping(words.as_mut_ptr().cast(), size_of::<Self>());
        }
        words
    }
}

macro_rules! plain {
    ($($(#[$doc:meta])* struct $name:ident { $($field:ident: $type:ty),* $(,)? })*) => {
        $(
            $(#[$doc])*
            #[repr(C)]
            #[derive(Debug, Clone, Copy, PartialEq, Default)]
            pub(crate) struct $name { $(pub $field: $type),* }
            // SAFETY: plain numbers whose sizes add up to that of the whole.
            unsafe impl Plain for $name {}
            const _: () = assert!(size_of::<$name>() == 0 $(+ size_of::<$type>())*);
            // tables are words one after another
            const _: () = assert!(size_of::<$name>() % 8 == 0);
        )*
    };
}
// SAFETY: numbers without padding.
unsafe impl Plain for u8 {}
// SAFETY: numbers without padding.
unsafe impl Plain for u32 {}
// SAFETY: numbers without padding.
unsafe impl Plain for i32 {}
// SAFETY: numbers without padding.
unsafe impl Plain for i64 {}
// SAFETY: numbers without padding.
unsafe impl Plain for u64 {}
// SAFETY: numbers without padding.
unsafe impl Plain for f32 {}
// SAFETY: numbers without padding.
unsafe impl Plain for f64 {}

impl From<&images::Visit> for Visit {
    fn from(visit: &images::Visit) -> Self {
        Self {
            image: visit.image,
            down: visit.down,
            right: visit.right,
            flip: u8::from(visit.flip),
            reserved: 0,
        }
    }
}

/// Numbers of the constants of a step.
pub(crate) const CONSTANTS: usize = 16;

plain! {
    /// One image of a step.
    struct Visit { image: u32, down: i8, right: i8, flip: u8, reserved: u8 }
    /// One gradient of one run.
    struct Step {
        first_visit: u32, images: u32, first_image: u32, sample: u32, logit: u32, reserved: u32,
        noise_step: u64, dropout_seed: u64, constants: [f32; CONSTANTS],
    }
    /// What came of it.
    struct Outcome {
        loss: f64, correct: u32, unusable: u32, floored: u32, gap_not_positive: u32, clipped: u32,
        overflowed: u32,
    }
    /// One run: addresses, then where it is.
    struct Run {
        theta: u64, point: u64, gradient: u64, momentum: u64, curvature: u64, envelope: u64,
        values: u64, partial: u64, prepared: u64, visits: u64, steps: u64, outcomes: u64,
        gradient_mean: u64, second_mean: u64, seed: u64, step: u32, stopped: u32, rule: u32,
        parameters: u32,
    }
    /// The images that all runs share.
    struct Images {
        pixels: u64, ready: u64, labels: u64, tables: u64, channels: i32, height: i32, width: i32,
        reserved: i32,
    }
    /// A convolution or dense layer.
    struct Conv {
        in_c: i32, in_h: i32, in_w: i32, out_c: i32, out_h: i32, out_w: i32, kernel: i32,
        stride: i32, top: i32, left: i32, weight: i32, bias: i32, group: i32, accumulate: i32,
        x_stride: i32, y_stride: i32, relu: i32, reserved: i32, x: i64, y: i64, partial: i64,
    }
    /// Filter response normalization.
    struct Frn {
        channels: i32, plane: i32, gamma: i32, accumulate: i32, x_stride: i32, y_stride: i32,
        dx_stride: i32, add_stride: i32, x: i64, y: i64, dx: i64, partial: i64, add: i64,
    }
    /// A pool.
    struct Pool {
        planes: i32, in_h: i32, in_w: i32, out_h: i32, out_w: i32, kernel_h: i32, kernel_w: i32,
        stride: i32, x_stride: i32, y_stride: i32, dx_stride: i32, accumulate: i32, relu: i32,
        reserved: i32, x: i64, y: i64, dx: i64,
    }
    /// What works on single numbers.
    struct Flat {
        size: i32, threshold: u32, factor: f32, layer: i32, x_stride: i32, y_stride: i32,
        z_stride: i32, accumulate: i32, x: i64, y: i64, z: i64,
    }
    /// Softmax and cross-entropy; the kernels read four of the eight bytes of the classes.
    struct Loss { classes: i64, logits: i64, gradient: i64, loss: i64, correct: i64 }
    /// Partial sums of some parameters.
    struct Segment { partial: i64, gradient: i32, count: i32, stride: i32, group: i32 }
    /// The same of DenseNet, those of a 1×1 convolution with so many inputs in tiles.
    struct DenseSums {
        partial: i64, gradient: i32, count: i32, stride: i32, group: i32, inputs: i32, reserved: i32,
    }
    /// What a prediction gives.
    struct Rows { width: i32, stride: i32, samples: i32, share: f32, from: i64 }
    /// Gram matrices of gradients.
    struct Gram { classes: i32, parameters: i32, chunks: i32, common: i32 }
    /// LeNet in one block; four bytes of padding before the offsets.
    struct Lenet {
        classes: i32, layer1: i32, layer2: i32, threshold: u32, factor: f32, reserved: i32,
        features: i64, hidden1: i64, hidden2: i64, delta1: i64, delta2: i64, delta3: i64,
        loss: i64, correct: i64, partial: i64,
    }
    /// A stage of ResNet-20.
    struct Stage {
        batch: i32, parameters: i32, prepared: i32, slice: i32, gradients: i32, reserved: i32,
        values: i64, roots: i64, input: i64, input_gradient: i64, partial: i64,
        drop_layers: [i32; 6], threshold: u32, factor: f32,
    }
    /// The mean, the dense layer and the loss of ResNet-20.
    struct Head {
        batch: i32, classes: i32, weight: i32, slice: i32, gradients: i32, predict: i32, x: i64,
        dx: i64, loss: i64, correct: i64, logits: i64, partial: i64,
    }
    /// A convolution of DenseNet in the order its kernels want.
    struct DensePrepare { weight: i32, out: i32, inputs: i32, taps: i32, prepared: i32, reserved: i32 }
    /// A block of layers of DenseNet.
    struct DenseBlock {
        batch: i32, layers: i32, width: i32, parameters: i32, prepared: i32, slice: i32,
        next_channels: i32, next_first: i32, x: i64, g: i64, z: i64, z_step: i64, dz: i64,
        roots: i64, z_roots: i64, sums: i64, next_x: i64, next_g: i64, next_roots: i64,
        next_sums: i64, partial: i64,
    }
    /// The last FRN, the mean, the dense layer and the loss of DenseNet.
    struct DenseHead {
        channels: i32, classes: i32, frn: i32, weight: i32, layer: i32, predict: i32,
        threshold: u32, factor: f32, x: i64, g: i64, roots: i64, sums: i64, features: i64,
        delta: i64, loss: i64, correct: i64, logits: i64, partial: i64,
    }
    /// A convolution of ResNet-20 in the order its kernels want.
    struct Prepare {
        weight: i32, out: i32, inputs: i32, padded: i32, taps: i32, forward: i32, backward: i32,
        partial: i32, together: i32, reserved: i32,
    }
}
