//! The edge to C: what its arguments become, and what becomes of an answer.

use crate::engine::answer::{Answer, Failure};
use crate::engine::{driver::Driver, log, process};
use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr;
use cupeer_spec::abi::*;
use cupeer_spec::results::Result as Code;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How many calls reached the driver.
pub(crate) static CALLS: AtomicU64 = AtomicU64::new(0);

/// Runs the body of an entry: a failure goes to the driver's log, and a panic of ours becomes
/// CUDA_ERROR_UNKNOWN.
pub(crate) fn answer(function: &str, body: impl FnOnce() -> Answer) -> CUresult {
    CALLS.fetch_add(1, Relaxed);
    let result = caught(|| {
        log::file();
        match body() {
            Ok(()) => Code::SUCCESS,
            Err(failure) => {
                log::say(function, &failure);
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
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Option<T> {
    let mut before = 0;
    // SAFETY: the call sets a property of this thread, and `before` is writable.
    unsafe { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &mut before) };
    let result = catch_unwind(AssertUnwindSafe(work));
    // SAFETY: the call restores what the one above returned, and null is allowed.
    unsafe { pthread_setcancelstate(before, ptr::null_mut()) };
    result.ok()
}

/// Defines entries: functions in the C calling convention whose bodies get their arguments as
/// [`Argument::Received`] and answer an [`Answer`]. Names that are joined by `|` do the same.
macro_rules! entry {
    ($($(#[$doc:meta])* fn $name:ident $(| $same:ident)* ($($args:tt)*) $body:block)*) => {
        $(entry! { @each [$name $($same)*] ($($args)*) $body })*
    };
    (@each [$($name:ident)*] $args:tt $body:block) => {
        $(entry! { @one $name $args $body })*
    };
    (@one $name:ident($($arg:ident: $type:ty),* $(,)?) $body:block) => {
        pub(crate) unsafe extern "C" fn $name($($arg: $type),*) -> cupeer_spec::abi::CUresult {
            // SAFETY: the caller of the C function promises what its documentation asks of pointers: null,
            // or valid for what they are for.
            $(let $arg = unsafe { $crate::api::boundary::Argument::receive($arg) };)*
            $crate::api::boundary::answer(stringify!($name), move || $body)
        }
    };
}

/// Answers what one look at the driver tells.
pub(crate) fn get<T: Form<V>, V>(out: Out<T>, value: impl FnOnce(&mut Driver) -> Answer<V>) -> Answer {
    out.fill(process::enter()?, value)
}

/// Answers what is made in the current context, without which nothing else is looked at.
pub(crate) fn make<T: Form<V>, V>(out: Out<T>, value: impl FnOnce(&mut Driver) -> Answer<V>) -> Answer {
    let driver = process::enter()?;
    driver.current()?;
    out.fill(driver, value)
}

/// An argument of a C function.
pub(crate) trait Argument: Sized {
    /// What the body of the entry gets.
    type Received;
    /// Takes it in.
    ///
    /// # Safety
    ///
    /// A pointer is null, or valid for as long as the call lasts for what the function does with it.
    unsafe fn receive(self) -> Self::Received;
}

/// A pointer to something that the function writes. It is only made of an argument.
pub(crate) struct Out<T>(*mut T);

/// A pointer to something that the function reads. It is only made of an argument.
pub(crate) struct In<T>(*const T);

impl<T> Clone for Out<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Out<T> {}

impl<T> Clone for In<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for In<T> {}

impl<T> Argument for *mut T {
    type Received = Out<T>;
    unsafe fn receive(self) -> Out<T> {
        Out(self)
    }
}

impl<T> Argument for *const T {
    type Received = In<T>;
    unsafe fn receive(self) -> In<T> {
        In(self)
    }
}

impl<T> Out<T> {
    /// The address, for the engine, which does not follow it without a check.
    pub(crate) fn address(self) -> u64 {
        self.0 as u64
    }

    /// The same pointer, or INVALID_VALUE where it is null.
    pub(crate) fn required(self) -> Answer<Out<T>> {
        if self.0.is_null() { Err(Code::INVALID_VALUE.into()) } else { Ok(self) }
    }

    /// The same pointer, or INVALID_VALUE with a message where it is null.
    pub(crate) fn or_say(self, message: &'static str) -> Answer<Out<T>> {
        self.required().map_err(|failure| Failure { messages: vec![message.into()], ..failure })
    }

    /// Writes what is found in the driver; it is not looked for where the pointer is null.
    pub(crate) fn fill<V>(
        self,
        mut driver: MutexGuard<'_, Driver>,
        value: impl FnOnce(&mut Driver) -> Answer<V>,
    ) -> Answer
    where
        T: Form<V>,
    {
        self.required()?.put(value(&mut driver)?);
        Ok(())
    }

    /// Writes what it points to, where it is not null.
    pub(crate) fn put<V>(self, value: V)
    where
        T: Form<V>,
    {
        self.put_at(0, value);
    }

    /// Writes one of the elements to which it points, where it is not null.
    pub(crate) fn put_at<V>(self, index: usize, value: V)
    where
        T: Form<V>,
    {
        if !self.0.is_null() {
            // SAFETY: only `Argument::receive` makes one, whose caller promises that it is null or valid.
            unsafe { self.0.add(index).write_unaligned(T::of(value)) };
        }
    }

    /// Reads `count` elements; it must not be null.
    pub(crate) fn list(self, count: usize) -> Vec<T>
    where
        T: Copy,
    {
        In(self.0.cast_const()).elements(count).unwrap_or_default()
    }

    /// Reads what it points to: `None` where it is null.
    pub(crate) fn get(self) -> Option<T>
    where
        T: Copy,
    {
        // SAFETY: only `Argument::receive` makes one, whose caller promises that it is null or valid, to read as well.
        (!self.0.is_null()).then(|| unsafe { self.0.read_unaligned() })
    }
}

impl Out<c_void> {
    /// Writes a value of whatever type lies behind an untyped pointer.
    pub(crate) fn put_bytes(self, bytes: &[u8]) {
        let start = Out(self.0.cast::<u8>());
        for (i, byte) in bytes.iter().enumerate() {
            start.put_at(i, *byte);
        }
    }

    /// Reads this many bytes; it must not be null.
    pub(crate) fn bytes(self, count: usize) -> Vec<u8> {
        Out(self.0.cast::<u8>()).list(count)
    }

    /// Reads what lies behind an untyped pointer: zero where it is null.
    pub(crate) fn read_as<T: Copy + Default>(self) -> T {
        Out(self.0.cast::<T>()).get().unwrap_or_default()
    }
}

impl In<c_void> {
    /// Reads what lies behind an untyped pointer: `None` where it is null.
    pub(crate) fn read_as<T: Copy>(self) -> Option<T> {
        In(self.0.cast::<T>()).required().ok()
    }
}

impl<T: Copy> In<T> {
    /// What it points to, or INVALID_VALUE where it is null.
    pub(crate) fn required(self) -> Answer<T> {
        self.elements(1).map(|elements| elements[0])
    }

    /// What it points to, or INVALID_VALUE with a message where it is null.
    pub(crate) fn or_say(self, message: &'static str) -> Answer<T> {
        self.required().map_err(|failure| Failure { messages: vec![message.into()], ..failure })
    }

    /// The elements to which it points, or INVALID_VALUE where it is null.
    pub(crate) fn elements(self, count: usize) -> Answer<Vec<T>> {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE.into());
        }
        // SAFETY: only `Argument::receive` makes one, whose caller promises that it is null or valid.
        Ok((0..count).map(|i| unsafe { self.0.add(i).read_unaligned() }).collect())
    }
}

impl<T> In<T> {
    /// The address, for the engine, which does not follow it without a check.
    pub(crate) fn address(self) -> u64 {
        self.0 as u64
    }

    /// Whether it is null.
    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }
}

impl In<c_char> {
    /// The text to which it points, or INVALID_VALUE where it is null.
    pub(crate) fn text(self) -> Answer<&'static [u8]> {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE.into());
        }
        // SAFETY: not null, and the caller of the C function promises a NUL-terminated text that lives
        // through the call; no entry keeps it longer.
        Ok(unsafe { CStr::from_ptr(self.0) }.to_bytes())
    }
}

/// Arguments that are taken as they are.
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

/// Handles and device addresses become numbers, and numbers these.
macro_rules! numbers {
    ($($type:ident)*) => {$(
        impl Argument for $type {
            type Received = u64;
            unsafe fn receive(self) -> u64 {
                self.0 as u64
            }
        }

        impl Form<u64> for $type {
            fn of(value: u64) -> $type {
                $type(value as _)
            }
        }
    )*};
}
numbers! { CUgraph CUgraphExec CUgraphNode CUcontext CUfunction CUkernel CUmodule CUlibrary HostAddress CUevent CUstream CUdeviceptr CUmemoryPool CUmemGenericAllocationHandle }

/// What a value of the engine is in C.
pub(crate) trait Form<V> {
    fn of(value: V) -> Self;
}

impl<T> Form<T> for T {
    fn of(value: T) -> T {
        value
    }
}

impl<T> Form<u64> for *mut T {
    fn of(value: u64) -> *mut T {
        value as *mut T
    }
}

impl Form<u64> for usize {
    fn of(value: u64) -> usize {
        value as usize
    }
}

impl Form<usize> for CUdevice {
    fn of(ordinal: usize) -> CUdevice {
        CUdevice(ordinal as i32)
    }
}
