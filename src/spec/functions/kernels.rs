//! Functions that find kernels, and those that unload them. A launch takes two kinds of handles for its kernel, and only the function
//! that made a handle shows of which kind it is. None of them is recorded unless somebody asks for it.

/// Hands the entries, behind those that it is given, to the macro `$callback`.
#[doc(hidden)]
#[macro_export]
macro_rules! with_kernel_functions {
    ($callback:path; $($entries:tt)*) => { $crate::with_graph_functions! { $callback; $($entries)*

/// Finds a function of a module by its name.
fn cuModuleGetFunction(
    out hfunc: *mut $crate::abi::CUfunction,
    in hmod: $crate::abi::CUmodule,
    string name: *const ::core::ffi::c_char,
) -> $crate::abi::CUresult {
    library: Cuda, since: 2000, simulated: Inferred,
    effects: [Finds Function(hfunc) of hmod],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT, INVALID_VALUE, NOT_FOUND],
}

/// Finds the functions of a module.
fn cuModuleEnumerateFunctions(
    out[numFunctions] functions: *mut $crate::abi::CUfunction,
    in numFunctions: u32,
    in hmod: $crate::abi::CUmodule,
) -> $crate::abi::CUresult {
    library: Cuda, since: 12040, simulated: Inferred,
    effects: [Finds Function(functions) sized numFunctions of hmod],
    results: [SUCCESS, INVALID_VALUE],
}

/// Finds a kernel of a library by its name.
fn cuLibraryGetKernel(
    out pKernel: *mut $crate::abi::CUkernel,
    in library: $crate::abi::CUlibrary,
    string name: *const ::core::ffi::c_char,
) -> $crate::abi::CUresult {
    library: Cuda, since: 12000, simulated: Inferred,
    effects: [Finds Kernel(pKernel) of library],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT, INVALID_VALUE, INVALID_HANDLE, NOT_FOUND],
}

/// Finds the kernels of a library.
fn cuLibraryEnumerateKernels(
    out[numKernels] kernels: *mut $crate::abi::CUkernel,
    in numKernels: u32,
    in lib: $crate::abi::CUlibrary,
) -> $crate::abi::CUresult {
    library: Cuda, since: 12040, simulated: Inferred,
    effects: [Finds Kernel(kernels) sized numKernels of lib],
    results: [SUCCESS, INVALID_VALUE],
}

/// Finds the function of a kernel in the current context.
fn cuKernelGetFunction(
    out pFunc: *mut $crate::abi::CUfunction,
    in kernel: $crate::abi::CUkernel,
) -> $crate::abi::CUresult {
    library: Cuda, since: 12000, simulated: Inferred,
    effects: [Finds Function(pFunc) of kernel],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT, INVALID_VALUE, INVALID_HANDLE, NOT_FOUND],
}

/// Unloads a module with its functions.
fn cuModuleUnload(
    in hmod: $crate::abi::CUmodule,
) -> $crate::abi::CUresult {
    library: Cuda, since: 2000, simulated: Inferred,
    effects: [Unloads Module(hmod)],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT, INVALID_VALUE, NOT_PERMITTED],
}

/// Unloads a library with its kernels.
fn cuLibraryUnload(
    in library: $crate::abi::CUlibrary,
) -> $crate::abi::CUresult {
    library: Cuda, since: 12000, simulated: Inferred,
    effects: [Unloads Library(library)],
    results: [SUCCESS, DEINITIALIZED, NOT_INITIALIZED, INVALID_CONTEXT, INVALID_VALUE],
}

    } };
}
