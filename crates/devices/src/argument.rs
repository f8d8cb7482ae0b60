//! What a kernel is called with: memory of the host, and values.

/// What a kernel is called with.
pub enum Argument<'a> {
    /// A buffer that it reads.
    Input(&'a [u8]),
    /// A buffer that it reads and writes.
    Output(&'a mut [u8]),
    /// A value.
    Value(&'a [u8]),
}

/// Numbers as devices have them, too.
///
/// # Safety
/// Any bytes are a value, and none of them is padding.
pub unsafe trait Element: Copy + 'static {}

macro_rules! elements {
    ($($type:ty),*) => {
        // SAFETY: numbers.
        $(unsafe impl Element for $type {})*
    };
}
elements!(u8, i8, u16, i16, u32, i32, u64, i64, f32, f64);

impl<'a> Argument<'a> {
    /// A buffer that the kernel reads.
    pub fn input<T: Element>(elements: &'a [T]) -> Argument<'a> {
        Argument::Input(bytes(elements))
    }

    /// A buffer that the kernel reads and writes.
    pub fn output<T: Element>(elements: &'a mut [T]) -> Argument<'a> {
        let (start, length) = (elements.as_mut_ptr(), size_of_val(elements));
        // SAFETY: numbers are bytes, and any bytes are numbers; the borrow goes on.
        Argument::Output(unsafe { std::slice::from_raw_parts_mut(start.cast(), length) })
    }

    /// A value.
    pub fn value<T: Element>(value: &'a T) -> Argument<'a> {
        Argument::Value(bytes(std::slice::from_ref(value)))
    }

    /// What is copied to the device before the kernel starts; none for a value.
    pub(crate) fn buffer(&self) -> Option<&[u8]> {
        match self {
            Argument::Input(bytes) => Some(bytes),
            Argument::Output(bytes) => Some(bytes),
            Argument::Value(_) => None,
        }
    }
}

/// What is copied back when the kernel is done, each with its buffer on the device.
pub(crate) fn outputs<'a, B>(
    arguments: &'a mut [Argument<'_>],
    buffers: &'a [Option<B>],
) -> impl Iterator<Item = (&'a mut [u8], &'a B)> {
    arguments.iter_mut().zip(buffers).filter_map(|(argument, buffer)| match (argument, buffer) {
        (Argument::Output(bytes), Some(buffer)) if !bytes.is_empty() => Some((&mut **bytes, buffer)),
        _ => None,
    })
}

fn bytes<T: Element>(elements: &[T]) -> &[u8] {
    // SAFETY: numbers are bytes; the borrow goes on.
    unsafe { std::slice::from_raw_parts(elements.as_ptr().cast(), size_of_val(elements)) }
}
