//! Modules, libraries, functions, and launches, if the machine skips kernels. Otherwise, only the kernels of `cupeer doctor`
//! are supported.

use super::boundary::{CForm, InPointer, OutPointer};
use crate::abi::CUlaunchConfig;
use crate::engine::answer::{Answer, fail, fail_if};
use crate::engine::driver::modules::Linker;
use crate::engine::driver::{Driver, KernelNode, ModuleOwner, Node, Stream, Visibility};
use crate::engine::images::{self, ModuleImage};
use crate::engine::process;
use crate::engine::space::HandleKind;
use crate::engine::{queue, stack};
use core::ffi::{CStr, c_char, c_void};
use cupeer_spec::abi::*;
use cupeer_spec::effect::Launchable;
use cupeer_spec::results::Result as Code;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, MutexGuard};

/// The magic number of the structure that wraps a fat binary. The second half of the structure is a pointer
/// to the binary.
const WRAPPER: u32 = 0x4662_43b1;
/// CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES and CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES.
const LOG_SIZES: [u32; 2] = [4, 6];

/// Locks the driver. Fails if the machine does not support modules.
fn lock_with_modules() -> Answer<MutexGuard<'static, Driver>> {
    let driver = process::enter()?;
    driver.check_modules_supported()?;
    Ok(driver)
}

/// Locks the driver. On late devices, first waits for all work of the current context.
fn lock_when_modules_done() -> Answer<MutexGuard<'static, Driver>> {
    queue::lock_when_done_if_late(|driver| Ok(driver.pending_in_context(stack::current_context())))
}

/// Writes a value that the driver returns. Fails if the machine does not support modules.
fn write_module_result<T: CForm<V>, V>(out: OutPointer<T>, value: impl FnOnce(&mut Driver) -> Answer<V>) -> Answer {
    out.write_computed(lock_with_modules()?, value)
}

/// Copies an image from the program's memory.
fn copy_image(address: u64) -> Answer<Vec<u8>> {
    let start = address as *const u8;
    fail_if(start.is_null(), Code::INVALID_VALUE)?;
    // SAFETY: the caller of the C function promises an image. Each of its forms begins with four bytes that say
    // which it is; a text of less than three bytes and its NUL is the one that does not.
    unsafe {
        let magic = start.cast::<[u8; 4]>().read_unaligned();
        if u32::from_le_bytes(magic) == WRAPPER {
            return copy_image(start.add(8).cast::<u64>().read_unaligned());
        }
        let mut head = [0; 64];
        core::ptr::copy_nonoverlapping(start, head.as_mut_ptr(), images::header_size(magic));
        Ok(match images::image_size(&head) {
            Some(length) if length > images::MOST_BYTES => return fail(Code::INVALID_IMAGE),
            Some(length) => core::slice::from_raw_parts(start, length as usize).to_vec(),
            None => CStr::from_ptr(start.cast()).to_bytes().to_vec(),
        })
    }
}

fn read_image_file(name: InPointer<c_char>) -> Answer<Vec<u8>> {
    let path = OsStr::from_bytes(name.text()?);
    let about = std::fs::metadata(path).map_err(|_| Code::FILE_NOT_FOUND)?;
    fail_if(!about.is_file() || about.len() > images::MOST_BYTES, Code::INVALID_IMAGE)?;
    std::fs::read(path).map_err(|_| Code::FILE_NOT_FOUND.into())
}

/// Loads a module into the current context.
fn load_module(out: OutPointer<*mut c_void>, image: impl FnOnce() -> Answer<Vec<u8>>) -> Answer {
    let context = lock_when_modules_done()?.current_context_handle();
    load_for_owner(|| Ok(ModuleOwner::Context(context?)), out, image)
}

fn load_library(out: OutPointer<*mut c_void>, image: impl FnOnce() -> Answer<Vec<u8>>) -> Answer {
    drop(process::enter()?);
    load_for_owner(|| Ok(ModuleOwner::Library), out, image)
}

fn load_for_owner(
    owner: impl FnOnce() -> Answer<ModuleOwner>,
    out: OutPointer<*mut c_void>,
    image: impl FnOnce() -> Answer<Vec<u8>>,
) -> Answer {
    let read = || ModuleImage::parse_image(&image()?);
    let skips_kernels = process::enter()?.machine.skips_kernels;
    if skips_kernels {
        let (owner, out) = (owner()?, out.required()?);
        let image = Arc::new(read()?);
        return write_module_result(out, |driver| driver.add_module(owner, image));
    }
    // Only the kernels of `cupeer doctor` are supported.
    let image = read().ok().filter(|image| *image == ModuleImage::Own).ok_or(Code::NOT_SUPPORTED)?;
    let owner = owner()?;
    out.write_computed(process::enter()?, |driver| driver.add_module(owner, Arc::new(image)))
}

/// Sets the sizes of the compiler's logs to zero, because nothing is compiled.
fn clear_compiler_logs(count: u32, options: OutPointer<u32>, values: OutPointer<*mut c_void>) -> Answer {
    let count = if options.address() == 0 { 0 } else { count as usize };
    for (index, _) in options.read_elements(count).iter().enumerate().filter(|(_, option)| LOG_SIZES.contains(option)) {
        values.put_at(index, core::ptr::null_mut());
    }
    Ok(())
}

/// Checks the function and the value of a setting that has no effect. `last` is the highest valid value.
fn check_setting(driver: &Driver, function: u64, value: u32, last: u32) -> Answer {
    driver.modules.function(function)?;
    fail_if(value > last, Code::INVALID_VALUE)
}

fn write_attribute(out: OutPointer<i32>, attribute: i32, function: u64) -> Answer {
    write_module_result(out, |driver| driver.modules.function(function)?.attribute(attribute))
}

/// Reads the parameters of a launch, which the program passes as pointers to the values, or as a buffer.
pub(super) fn read_launch(
    driver: &Driver,
    function: u64,
    (grid, block): ([u32; 3], [u32; 3]),
    (parameters, extra): (u64, u64),
) -> Answer<KernelNode> {
    let (parameters, extra) = (parameters as *const *const u8, extra as *const usize);
    let mut values = Vec::new();
    for (index, (offset, size)) in driver.parameter_layout(function)?.into_iter().enumerate() {
        // SAFETY: as cuda.h says of cuLaunchKernel, there is a pointer for each parameter, or the second word is the address of all.
        let place = unsafe {
            match (parameters.is_null(), extra.is_null()) {
                (false, _) => parameters.add(index).read_unaligned(),
                (true, false) => (extra.add(1).read_unaligned() as *const u8).wrapping_add(offset),
                (true, true) => return fail(Code::INVALID_VALUE),
            }
        };
        let mut words = vec![0u64; size.div_ceil(8)].into_boxed_slice();
        if !place.is_null() {
            // SAFETY: as cuda.h says of cuLaunchKernel, the parameter has so many bytes there.
            unsafe { words.as_mut_ptr().cast::<u8>().copy_from(place, size) };
        }
        values.push(words);
    }
    Ok(KernelNode::new(function, grid, block, values))
}

/// Launches a function in the order of a stream. Only the kernels of `cupeer doctor --p2p` have an effect.
fn launch_kernel(function: u64, grid: [u32; 3], block: [u32; 3], stream: u64, parameters: (u64, u64)) -> Answer {
    let mut driver = lock_with_modules()?;
    let of = driver.stream(stream)?;
    let is_own = driver.check_launch(function, grid, block)?.is_some();
    if driver.graphs.capture_of(&of).is_none() && !is_own {
        add_empty_work(&mut driver, &of);
        return Ok(());
    }
    let kernel = read_launch(&driver, function, (grid, block), parameters)?;
    if driver.graphs.add_to_capture(&of, || Node::Kernel(kernel.clone()))? {
        return Ok(());
    }
    launch_read_kernel(&mut driver, &of, &kernel)
}

/// Adds work without effect to a late stream, in the place of a kernel.
fn add_empty_work(driver: &mut Driver, stream: &Stream) {
    if driver.is_late() {
        driver.add_late_work(stream, Visibility::Nobody, |_| ());
    }
}

/// Launches a kernel whose parameters were read already.
pub(super) fn launch_read_kernel(driver: &mut Driver, stream: &Stream, kernel: &KernelNode) -> Answer {
    let &KernelNode { function, grid, block, .. } = kernel;
    let Some(own) = driver.check_launch(function, grid, block)? else {
        add_empty_work(driver, stream);
        return Ok(());
    };
    let all = |sizes: [u32; 3]| sizes.iter().map(|size| u64::from(*size)).product::<u64>();
    driver.launch_p2p_kernel(stream, own, kernel.arguments(), (all(grid), all(block)))
}

/// Returns the number of blocks that fit on a multiprocessor at once.
fn blocks_per_multiprocessor(block: i32, shared: usize) -> Answer<i32> {
    let threads = u32::try_from(block).ok().filter(|threads| (1..=1024).contains(threads));
    let threads = threads.ok_or(Code::INVALID_VALUE)?.next_multiple_of(32);
    let by_memory = 233_472usize.checked_div(shared).unwrap_or(usize::MAX);
    Ok((2048 / threads).min(32).min(u32::try_from(by_memory).unwrap_or(u32::MAX)) as i32)
}

fn write_occupancy(out: OutPointer<i32>, function: u64, block: i32, shared: usize) -> Answer {
    write_module_result(out, |driver| {
        driver.modules.function(function)?;
        blocks_per_multiprocessor(block, shared)
    })
}

/// Writes the size of blocks that fills a device, and the number of these blocks.
fn write_best_block_size(grid: OutPointer<i32>, block: OutPointer<i32>, function: u64, most: i32) -> Answer {
    write_module_result(grid, |driver| {
        let block = block.required()?;
        driver.modules.function(function)?;
        let size = if most > 0 { most.min(1024) } else { 1024 };
        // CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT.
        let multiprocessors = driver.device_attribute(16, driver.current_device()?)?;
        let blocks = multiprocessors * blocks_per_multiprocessor(size, 0)?;
        block.put(size);
        Ok(blocks)
    })
}

fn write_functions<T: CForm<u64>>(found: OutPointer<T>, room: u32, module: u64) -> Answer {
    let mut driver = lock_with_modules()?;
    let out = found.required()?;
    let names = driver.modules.image(module)?.function_names().to_vec();
    for (index, name) in names.iter().take(room as usize).enumerate() {
        out.put_at(index, driver.find_function(module, name.as_bytes())?);
    }
    Ok(())
}

fn write_parameter_info(
    (handle, kind): (u64, Launchable),
    index: usize,
    offset: OutPointer<usize>,
    size: OutPointer<usize>,
) -> Answer {
    let known = lock_with_modules()?.parameter_info(handle, kind, index)?;
    offset.required()?.put(known.0);
    size.put(known.1);
    Ok(())
}

fn add_link_input(state: u64, input: impl FnOnce() -> Answer<Vec<u8>>) -> Answer {
    drop(lock_with_modules()?);
    let input = input()?;
    ModuleImage::parse_image(&input)?;
    let mut driver = lock_with_modules()?;
    driver.modules.links.get_mut(&state).ok_or(Code::INVALID_HANDLE)?.inputs.push(input);
    Ok(())
}

forward! {
    cuModuleLoad(module: *mut *mut c_void, fname: *const c_char) = load_module(module, || read_image_file(fname));
    cuModuleLoadData | cuModuleLoadFatBinary(module: *mut *mut c_void, image: *const c_void) =
        load_module(module, || copy_image(image.address()));
    cuModuleGetFunction(hfunc, hmod, name) = write_module_result(hfunc, |driver| driver.find_function(hmod, name.text()?));
    cuLibraryGetKernel(pKernel, library, name) =
        write_module_result(pKernel, |driver| driver.find_function(library, name.text()?));
    cuModuleGetFunctionCount | cuLibraryGetKernelCount(count: *mut u32, module: HostAddress) =
        write_module_result(count, |driver| Ok(driver.modules.image(module)?.function_names().len() as u32));
    cuModuleEnumerateFunctions(functions, numFunctions, hmod) = write_functions(functions, numFunctions, hmod);
    cuLibraryEnumerateKernels(kernels, numKernels, lib) = write_functions(kernels, numKernels, lib);
    cuLibraryUnload(library) = lock_with_modules()?.unload_library(library);
    cuLibraryGetModule(pMod: *mut *mut c_void, library: HostAddress) =
        write_module_result(pMod, |driver| driver.module_for_context(library));
    cuFuncGetAttribute(pi: *mut i32, attrib: i32, hfunc: HostAddress) =
        write_attribute(pi, attrib, hfunc);
    cuFuncSetAttribute(hfunc: HostAddress, attrib: i32, value: i32) =
        lock_with_modules()?.modules.set_attribute(hfunc, attrib, value);
    cuFuncGetModule | cuKernelGetLibrary(hmod: *mut *mut c_void, hfunc: HostAddress) =
        write_module_result(hmod, |driver| Ok(driver.modules.function(hfunc)?.module));
    /// The name lives as long as the module stays loaded, as documented.
    cuFuncGetName(name: *mut *const c_char, hfunc: CUfunction) =
        write_module_result(name, |driver| Ok(driver.modules.function_of_kind(hfunc, Launchable::Function).name.as_ptr()));
    cuKernelGetName(name: *mut *const c_char, hfunc: CUkernel) =
        write_module_result(name, |driver| Ok(driver.modules.function_of_kind(hfunc, Launchable::Kernel).name.as_ptr()));
    cuFuncSetCacheConfig(hfunc: HostAddress, config: u32) = check_setting(&*lock_with_modules()?, hfunc, config, 3);
    cuFuncSetSharedMemConfig(hfunc: HostAddress, config: u32) = check_setting(&*lock_with_modules()?, hfunc, config, 2);
    cuFuncGetParamInfo(func: CUfunction, paramIndex: usize, paramOffset: *mut usize, paramSize: *mut usize) =
        write_parameter_info((func, Launchable::Function), paramIndex, paramOffset, paramSize);
    cuKernelGetParamInfo(kernel: CUkernel, paramIndex: usize, paramOffset: *mut usize, paramSize: *mut usize) =
        write_parameter_info((kernel, Launchable::Kernel), paramIndex, paramOffset, paramSize);
    cuFuncLoad(function: HostAddress) = lock_with_modules()?.modules.function(function).map(drop);
    cuLinkDestroy(state: HostAddress) =
        lock_with_modules()?.modules.links.remove(&state).map(drop).ok_or_else(|| Code::INVALID_HANDLE.into());
    cuKernelGetFunction(pFunc, kernel) = write_module_result(pFunc, |driver| {
        let kernel = driver.modules.function(kernel)?;
        let (library, name) = (kernel.module, kernel.name.clone());
        let module = driver.module_for_context(library)?;
        driver.find_function(module, name.to_bytes())
    });
}

entry! {
    fn cuModuleLoadDataEx(
        module: *mut *mut c_void,
        image: *const c_void,
        numOptions: u32,
        options: *mut u32,
        optionValues: *mut *mut c_void,
    ) {
        load_module(module, || copy_image(image.address()))?;
        clear_compiler_logs(numOptions, options, optionValues)
    }

    fn cuModuleUnload(hmod) {
        drop(lock_when_modules_done()?);
        lock_with_modules()?.unload_module(hmod)
    }

    /// Each of the two output pointers may be null.
    fn cuModuleGetGlobal_v2 | cuLibraryGetGlobal(
        dptr: *mut CUdeviceptr,
        bytes: *mut usize,
        hmod: HostAddress,
        name: *const c_char,
    ) {
        let (address, size) = lock_with_modules()?.find_global(hmod, name.text()?)?;
        dptr.put(address);
        bytes.put(size);
        Ok(())
    }

    fn cuLibraryLoadData(
        library: *mut *mut c_void,
        code: *const c_void,
        jitOptions: *mut u32,
        jitOptionsValues: *mut *mut c_void,
        numJitOptions: u32,
        _libraryOptions: *mut c_void,
        _libraryOptionValues: *mut c_void,
        _numLibraryOptions: u32,
    ) {
        load_library(library, || copy_image(code.address()))?;
        clear_compiler_logs(numJitOptions, jitOptions, jitOptionsValues)
    }

    fn cuLibraryLoadFromFile(
        library: *mut *mut c_void,
        fileName: *const c_char,
        jitOptions: *mut u32,
        jitOptionsValues: *mut *mut c_void,
        numJitOptions: u32,
        _libraryOptions: *mut c_void,
        _libraryOptionValues: *mut c_void,
        _numLibraryOptions: u32,
    ) {
        load_library(library, || read_image_file(fileName))?;
        clear_compiler_logs(numJitOptions, jitOptions, jitOptionsValues)
    }

    fn cuKernelGetAttribute(pi: *mut i32, attrib: i32, kernel: HostAddress, dev: CUdevice) {
        process::enter()?.check_ordinal(dev.0)?;
        write_attribute(pi, attrib, kernel)
    }

    fn cuKernelSetAttribute(attrib: i32, val: i32, kernel: HostAddress, dev: CUdevice) {
        process::enter()?.check_ordinal(dev.0)?;
        lock_with_modules()?.modules.set_attribute(kernel, attrib, val)
    }

    fn cuKernelSetCacheConfig(kernel: HostAddress, config: u32, dev: CUdevice) {
        let driver = lock_with_modules()?;
        driver.check_ordinal(dev.0)?;
        check_setting(&driver, kernel, config, 3)
    }

    fn cuFuncIsLoaded(state: *mut i32, function: HostAddress) {
        // CU_FUNCTION_LOADING_STATE_LOADED.
        write_module_result(state, |driver| driver.modules.function(function).map(|_| 1))
    }

    /// The arguments are read only for kernels of `cupeer doctor --p2p` and for captures.
    fn cuLaunchKernel | cuLaunchKernel_ptsz(
        f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, _sharedMemBytes, hStream,
        kernelParams, extra,
    ) {
        let (grid, block) = ([gridDimX, gridDimY, gridDimZ], [blockDimX, blockDimY, blockDimZ]);
        launch_kernel(f, grid, block, hStream, (kernelParams, extra))
    }

    fn cuLaunchCooperativeKernel | cuLaunchCooperativeKernel_ptsz(
        f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, _sharedMemBytes, hStream,
        kernelParams,
    ) {
        let (grid, block) = ([gridDimX, gridDimY, gridDimZ], [blockDimX, blockDimY, blockDimZ]);
        launch_kernel(f, grid, block, hStream, (kernelParams, 0))
    }

    fn cuLaunchKernelEx | cuLaunchKernelEx_ptsz(config, f, kernelParams, extra) {
        drop(lock_with_modules()?);
        // SAFETY: the caller of the C function promises that it is such a structure, or null.
        let config = unsafe { (config as *const CUlaunchConfig).as_ref() }.ok_or(Code::INVALID_VALUE)?;
        launch_kernel(f, config.grid, config.block, config.hStream as u64, (kernelParams, extra))
    }

    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
        numBlocks: *mut i32,
        func: HostAddress,
        blockSize: i32,
        dynamicSMemSize: usize,
    ) {
        write_occupancy(numBlocks, func, blockSize, dynamicSMemSize)
    }

    fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        numBlocks: *mut i32,
        func: HostAddress,
        blockSize: i32,
        dynamicSMemSize: usize,
        _flags: u32,
    ) {
        write_occupancy(numBlocks, func, blockSize, dynamicSMemSize)
    }

    /// No function needs shared memory here, so the callback is not called.
    fn cuOccupancyMaxPotentialBlockSize(
        minGridSize: *mut i32,
        blockSize: *mut i32,
        func: HostAddress,
        _blockSizeToDynamicSMemSize: *mut c_void,
        _dynamicSMemSize: usize,
        blockSizeLimit: i32,
    ) {
        write_best_block_size(minGridSize, blockSize, func, blockSizeLimit)
    }

    fn cuOccupancyMaxPotentialBlockSizeWithFlags(
        minGridSize: *mut i32,
        blockSize: *mut i32,
        func: HostAddress,
        _blockSizeToDynamicSMemSize: *mut c_void,
        _dynamicSMemSize: usize,
        blockSizeLimit: i32,
        _flags: u32,
    ) {
        write_best_block_size(minGridSize, blockSize, func, blockSizeLimit)
    }

    fn cuOccupancyAvailableDynamicSMemPerBlock(
        dynamicSmemSize: *mut usize,
        func: HostAddress,
        numBlocks: i32,
        blockSize: i32,
    ) {
        write_module_result(dynamicSmemSize, |driver| {
            driver.modules.function(func)?;
            fail_if(!(1..=blocks_per_multiprocessor(blockSize, 0)?).contains(&numBlocks), Code::INVALID_VALUE)?;
            // Each block also needs 1 KiB of shared memory for the driver.
            Ok((233_472 / numBlocks as usize - 1024).min(232_448))
        })
    }

    fn cuLinkCreate_v2(
        numOptions: u32,
        options: *mut u32,
        optionValues: *mut *mut c_void,
        stateOut: *mut *mut c_void,
    ) {
        let mut driver = lock_with_modules()?;
        driver.current_context_handle()?;
        let out = stateOut.required()?;
        let handle = driver.space.new_handle(HandleKind::Other)?;
        driver.modules.links.insert(handle, Linker::default());
        out.put(handle);
        clear_compiler_logs(numOptions, options, optionValues)
    }

    fn cuLinkAddData_v2(
        state: HostAddress,
        _kind: i32,
        data: *mut c_void,
        size: usize,
        _name: *const c_char,
        _numOptions: u32,
        _options: *mut u32,
        _optionValues: *mut *mut c_void,
    ) {
        add_link_input(state, || {
            let data = data.required()?;
            fail_if(size as u64 > images::MOST_BYTES, Code::INVALID_VALUE)?;
            Ok(data.bytes(size))
        })
    }

    fn cuLinkAddFile_v2(
        state: HostAddress,
        _kind: i32,
        path: *const c_char,
        _numOptions: u32,
        _options: *mut u32,
        _optionValues: *mut *mut c_void,
    ) {
        add_link_input(state, || read_image_file(path))
    }

    /// Returns the image if one was added, or the joined texts if several texts were added. Otherwise,
    /// returns a fat binary without content, in which every name counts as present.
    fn cuLinkComplete(state: HostAddress, cubinOut: *mut *mut c_void, sizeOut: *mut usize) {
        let mut driver = lock_with_modules()?;
        let out = cubinOut.required()?;
        let link = driver.modules.links.get_mut(&state).ok_or(Code::INVALID_HANDLE)?;
        link.output = match link.inputs.as_slice() {
            [] => return fail(Code::INVALID_VALUE),
            [one] => one.clone(),
            several if several.iter().all(|input| std::str::from_utf8(input).is_ok()) => {
                several.iter().flat_map(|text| text.split(|byte| *byte == 0).next()).collect::<Vec<_>>().join(&b'\n')
            }
            _ => [&0xba55_ed50u32.to_le_bytes()[..], &[1, 0, 16, 0], &[0; 8]].concat(),
        };
        link.output.push(0);
        out.put(link.output.as_mut_ptr().cast::<c_void>());
        sizeOut.put(link.output.len());
        Ok(())
    }
}
