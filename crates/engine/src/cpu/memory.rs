//! Zeroed memory that begins on a cache line, in large pages where there is much of it.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};

/// Bytes of a cache line, and of the widest vector.
const LINE: usize = 64;

/// A fixed number of `f32`, aligned to 64 bytes.
pub(crate) struct Memory {
    start: *mut f32,
    len: usize,
}

// SAFETY: `Memory` owns its numbers, like a `Box<[f32]>`.
unsafe impl Send for Memory {}
// SAFETY: as above; shared access goes through raw pointers whose users say why they do not
// collide.
unsafe impl Sync for Memory {}

impl Memory {
    /// `len` zeros.
    pub fn new(len: usize) -> Self {
        let layout = Self::layout(len);
        // SAFETY: the layout is not empty.
        let start = unsafe { alloc(layout) }.cast::<f32>();
        if start.is_null() {
            handle_alloc_error(layout);
        }
        // SAFETY: the allocation has `len` numbers, which nobody else knows of; zeros are numbers.
        unsafe {
            let numbers = std::slice::from_raw_parts_mut(start.cast(), len);
            machine::prefer_large_pages(numbers);
            start.write_bytes(0, len);
        }
        Self { start, len }
    }

    fn layout(len: usize) -> Layout {
        Layout::array::<f32>(len.max(1))
            .and_then(|layout| layout.align_to(LINE))
            .expect("lengths are far below the address space")
    }

    pub fn as_ptr(&self) -> *mut f32 {
        self.start
    }

    /// Numbers.
    pub fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with the same layout.
        unsafe { dealloc(self.start.cast(), Self::layout(self.len)) }
    }
}
