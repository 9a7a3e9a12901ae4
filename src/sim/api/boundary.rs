//! The boundary to C: converts arguments, and answers to result codes.

use crate::engine::answer::{Answer, Failure, fail_if};
use crate::engine::driver::{Driver, Stream};
use crate::engine::{log, process};
use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr;
use cupeer_spec::abi::*;
use cupeer_spec::results::Result as Code;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Number of calls of the program that reached the driver.
pub(crate) static CALLS: AtomicU64 = AtomicU64::new(0);

/// Runs the body of a function of the driver. A failure goes to the log of the driver, and a panic becomes
/// CUDA_ERROR_UNKNOWN.
pub(crate) fn answer(function: &str, body: impl FnOnce() -> Answer) -> CUresult {
    CALLS.fetch_add(1, Relaxed);
    let result = catch_panic(|| {
        log::log_file_path();
        match body() {
            Ok(()) => Code::SUCCESS,
            Err(failure) => {
                log::log_failure(function, &failure);
                failure.code
            }
        }
    });
    CUresult(result.unwrap_or(Code::UNKNOWN) as i32)
}

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
}

const PTHREAD_CANCEL_DISABLE: c_int = 1;

/// Runs work, and returns `None` if it panicked. A cancellation of the thread waits until the end: it unwinds the stack, which
/// `catch_unwind` must not stop, and would leave the driver locked.
pub(crate) fn catch_panic<T>(work: impl FnOnce() -> T) -> Option<T> {
    let mut before = 0;
    // SAFETY: the call sets a property of this thread, and `before` is writable.
    unsafe { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &mut before) };
    let result = catch_unwind(AssertUnwindSafe(work));
    // SAFETY: the call restores what the one above returned, and null is allowed.
    unsafe { pthread_setcancelstate(before, ptr::null_mut()) };
    result.ok()
}

/// Arguments of a function of the table in `cupeer-spec`, as its entry receives them. `exports` derives them from
/// the table.
pub(crate) trait Signature {
    type Arguments;
}

/// Defines entries: a type for each function, whose `call` follows the C calling convention. The body receives each
/// argument as [`Argument::Received`] and returns an [`Answer`]. Names joined by `|` share a body.
///
/// A function of the table has names of arguments only: `exports` adds `call`, with the types that the table has.
/// Any other function has its types here.
macro_rules! entry {
    ($($(#[$doc:meta])* fn $name:ident $(| $same:ident)* ($($args:tt)*) $body:block)*) => {
        $(entry! { @each [$name $($same)*] ($($args)*) $body })*
    };
    (@each [$($name:ident)*] $args:tt $body:block) => {
        $(entry! { @one $name $args $body })*
    };
    (@one $name:ident($($arg:ident),+ $(,)?) $body:block) => {
        pub(crate) enum $name {}
        impl $name {
            pub(crate) fn body(
                ($($arg,)+): <Self as $crate::api::boundary::Signature>::Arguments,
            ) -> $crate::engine::answer::Answer $body
        }
    };
    (@one $name:ident($($arg:ident: $type:ty),* $(,)?) $body:block) => {
        pub(crate) enum $name {}
        impl $name {
            pub(crate) unsafe extern "C" fn call($($arg: $type),*) -> cupeer_spec::abi::CUresult {
                // SAFETY: the caller of the C function promises that each pointer is null, or valid for the use that
                // the function's documentation describes.
                $(let $arg = unsafe { $crate::api::boundary::Argument::receive($arg) };)*
                $crate::api::boundary::answer(stringify!($name), move || $body)
            }
        }
    };
}

/// Defines entries that only forward to the engine, each with the expression that is its body.
macro_rules! forward {
    ($($(#[$doc:meta])* $name:ident $(| $same:ident)* ($($args:tt)*) = $body:expr;)*) => {
        entry! { $(fn $name $(| $same)* ($($args)*) { $body })* }
    };
}

/// Writes a value that the driver returns to a pointer of the program.
pub(crate) fn write_result<T: CForm<V>, V>(out: OutPointer<T>, value: impl FnOnce(&mut Driver) -> Answer<V>) -> Answer {
    out.write_computed(process::enter()?, value)
}

/// Does the same as [`write_result`], with a message in the log for a null pointer.
pub(crate) fn write_result_or_refuse<T: CForm<V>, V>(
    out: OutPointer<T>,
    message: &'static str,
    value: impl FnOnce(&mut Driver) -> Answer<V>,
) -> Answer {
    let mut driver = process::enter()?;
    let out = out.or_refuse(message)?;
    out.put(value(&mut driver)?);
    Ok(())
}

/// Writes two values that the driver returns. A value whose pointer is null is not written.
pub(crate) fn write_both_results<T: CForm<V>, U: CForm<W>, V, W>(
    (first, second): (OutPointer<T>, OutPointer<U>),
    values: impl FnOnce(&mut Driver) -> Answer<(V, W)>,
) -> Answer {
    let values = values(&mut *process::enter()?)?;
    first.put(values.0);
    second.put(values.1);
    Ok(())
}

/// Looks up the stream with a handle, and calls `work` with the locked driver and the stream.
pub(crate) fn with_stream(stream: u64, work: impl FnOnce(&mut Driver, &Stream) -> Answer) -> Answer {
    let mut driver = process::enter()?;
    let stream = driver.stream(stream)?;
    work(&mut driver, &stream)
}

/// Writes a value that the driver returns. Unlike [`write_result`], fails without a current context before it checks
/// the pointer.
pub(crate) fn write_result_in_context<T: CForm<V>, V>(
    out: OutPointer<T>,
    value: impl FnOnce(&mut Driver) -> Answer<V>,
) -> Answer {
    let driver = process::enter()?;
    driver.current_context_handle()?;
    out.write_computed(driver, value)
}

/// An argument of a C function.
pub(crate) trait Argument: Sized {
    /// Type that the body of the entry receives.
    type Received;
    /// Converts the argument.
    ///
    /// # Safety
    ///
    /// A pointer is null, or valid for as long as the call lasts for what the function does with it.
    unsafe fn receive(self) -> Self::Received;
}

/// A pointer through which the function writes. Values of this type are made only from arguments.
#[derive(Clone, Copy)]
pub(crate) struct OutPointer<T>(*mut T);

/// A pointer through which the function reads. Values of this type are made only from arguments.
#[derive(Clone, Copy)]
pub(crate) struct InPointer<T>(*const T);

impl<T> Argument for *mut T {
    type Received = OutPointer<T>;
    unsafe fn receive(self) -> OutPointer<T> {
        OutPointer(self)
    }
}

impl<T> Argument for *const T {
    type Received = InPointer<T>;
    unsafe fn receive(self) -> InPointer<T> {
        InPointer(self)
    }
}

impl<T> OutPointer<T> {
    /// Returns the address for the engine, which checks it before use.
    pub(crate) fn address(&self) -> u64 {
        self.0 as u64
    }

    /// Fails with INVALID_VALUE if the pointer is null.
    pub(crate) fn required(self) -> Answer<OutPointer<T>> {
        if self.0.is_null() { Err(Code::INVALID_VALUE.into()) } else { Ok(self) }
    }

    /// Fails with INVALID_VALUE and a message for the log if the pointer is null.
    pub(crate) fn or_refuse(self, message: &'static str) -> Answer<OutPointer<T>> {
        self.required().map_err(|failure| Failure { messages: vec![message.into()], ..failure })
    }

    /// Writes a value from the driver. If the pointer is null, it fails without computing the value.
    pub(crate) fn write_computed<V>(
        self,
        mut driver: MutexGuard<'_, Driver>,
        value: impl FnOnce(&mut Driver) -> Answer<V>,
    ) -> Answer
    where
        T: CForm<V>,
    {
        self.required()?.put(value(&mut driver)?);
        Ok(())
    }

    /// Writes a value, unless the pointer is null.
    pub(crate) fn put<V>(&self, value: V)
    where
        T: CForm<V>,
    {
        self.put_at(0, value);
    }

    /// Writes an element of an array, unless the pointer is null.
    pub(crate) fn put_at<V>(&self, index: usize, value: V)
    where
        T: CForm<V>,
    {
        if !self.0.is_null() {
            // SAFETY: only `Argument::receive` makes one, whose caller promises that it is null or valid.
            unsafe { self.0.add(index).write_unaligned(T::of(value)) };
        }
    }

    /// Reads `count` elements. Returns no elements if the pointer is null.
    pub(crate) fn read_elements(&self, count: usize) -> Vec<T>
    where
        T: Copy,
    {
        InPointer(self.0.cast_const()).elements(count).unwrap_or_default()
    }

    /// Reads the value. Returns `None` if the pointer is null.
    pub(crate) fn get(&self) -> Option<T>
    where
        T: Copy,
    {
        // SAFETY: only `Argument::receive` makes one, whose caller promises that it is null or valid, to read as well.
        (!self.0.is_null()).then(|| unsafe { self.0.read_unaligned() })
    }
}

impl OutPointer<c_void> {
    /// Writes a value of any type, as bytes.
    pub(crate) fn put_bytes(&self, bytes: &[u8]) {
        let start = OutPointer(self.0.cast::<u8>());
        for (i, byte) in bytes.iter().enumerate() {
            start.put_at(i, *byte);
        }
    }

    /// Reads `count` bytes. Returns no bytes if the pointer is null.
    pub(crate) fn bytes(self, count: usize) -> Vec<u8> {
        OutPointer(self.0.cast::<u8>()).read_elements(count)
    }

    /// Reads a value of a type. Returns zero if the pointer is null.
    pub(crate) fn read_as<T: Copy + Default>(&self) -> T {
        OutPointer(self.0.cast::<T>()).get().unwrap_or_default()
    }
}

impl InPointer<c_void> {
    /// Reads a value of a type. Returns `None` if the pointer is null.
    pub(crate) fn read_as<T: Copy>(&self) -> Option<T> {
        InPointer(self.0.cast::<T>()).required().ok()
    }
}

impl<T: Copy> InPointer<T> {
    /// Reads the value, or fails with INVALID_VALUE if the pointer is null.
    pub(crate) fn required(self) -> Answer<T> {
        self.elements(1).map(|elements| elements[0])
    }

    /// Reads the value, or fails with INVALID_VALUE and a message if the pointer is null.
    pub(crate) fn or_refuse(self, message: &'static str) -> Answer<T> {
        self.required().map_err(|failure| Failure { messages: vec![message.into()], ..failure })
    }

    /// Reads `count` elements, or fails with INVALID_VALUE if the pointer is null.
    pub(crate) fn elements(&self, count: usize) -> Answer<Vec<T>> {
        fail_if(self.0.is_null(), Code::INVALID_VALUE)?;
        // SAFETY: only `Argument::receive` makes one, whose caller promises that it is null or valid.
        Ok((0..count).map(|i| unsafe { self.0.add(i).read_unaligned() }).collect())
    }
}

impl<T> InPointer<T> {
    /// Returns the address for the engine, which checks it before use.
    pub(crate) fn address(&self) -> u64 {
        self.0 as u64
    }

    /// Returns true for a null pointer.
    pub(crate) fn is_null(&self) -> bool {
        self.0.is_null()
    }
}

impl InPointer<c_char> {
    /// Reads a text, or fails with INVALID_VALUE if the pointer is null.
    pub(crate) fn text(self) -> Answer<&'static [u8]> {
        fail_if(self.0.is_null(), Code::INVALID_VALUE)?;
        // SAFETY: not null, and the caller of the C function promises a NUL-terminated text that lives
        // through the call; no entry keeps it longer.
        Ok(unsafe { CStr::from_ptr(self.0) }.to_bytes())
    }
}

/// Implements [`Argument`] for types that entries receive unchanged.
macro_rules! plain {
    ($($type:ty)*) => {$(
        impl Argument for $type {
            type Received = $type;
            unsafe fn receive(self) -> $type {
                self
            }
        }
    )*};
}
plain! {
    u8 u16 i32 u32 u64 usize CUdevice CUdevice_P2PAttribute CUdevice_attribute IpcMemFlags ProcAddressFlags
    CUipcMemHandle CUipcEventHandle CUmemLocation CUmemAllocationHandleType CUmemAllocationGranularity_flags
    CUmemRangeHandleType CUmulticastGranularity_flags
    crate::abi::CUlogsCallback
}

/// Converts handles and device addresses to numbers, and back.
macro_rules! numbers {
    ($($type:ident)*) => {$(
        impl Argument for $type {
            type Received = u64;
            unsafe fn receive(self) -> u64 {
                self.0 as u64
            }
        }

        impl CForm<u64> for $type {
            fn of(value: u64) -> $type {
                $type(value as _)
            }
        }
    )*};
}
numbers! { CUgraph CUgraphExec CUgraphNode CUcontext CUfunction CUkernel CUmodule CUlibrary HostAddress CUevent CUstream CUdeviceptr CUmemoryPool CUmemGenericAllocationHandle }

/// A C type to which a value of the engine can be converted.
pub(crate) trait CForm<V> {
    fn of(value: V) -> Self;
}

impl<T> CForm<T> for T {
    fn of(value: T) -> T {
        value
    }
}

impl<T> CForm<u64> for *mut T {
    fn of(value: u64) -> *mut T {
        value as *mut T
    }
}

impl CForm<u64> for usize {
    fn of(value: u64) -> usize {
        value as usize
    }
}

impl CForm<usize> for CUdevice {
    fn of(ordinal: usize) -> CUdevice {
        CUdevice(ordinal as i32)
    }
}
