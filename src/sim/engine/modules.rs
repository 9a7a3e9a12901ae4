//! Modules, libraries, and their functions. With `kernels = "skip"`, modules load, and their functions launch and do nothing.
//! The module of `cupeer doctor --p2p` loads on any machine, and its kernels run.

use super::answer::{Answer, fail, fail_if};
use super::driver::{Driver, Module, ModuleFunction, ModuleOwner};
use super::images::ModuleImage;
use super::log;
use super::space::HandleKind;
use cupeer_spec::effect::Launchable;
use cupeer_spec::p2p::Kernel;
use cupeer_spec::results::Result as Code;
use std::collections::HashMap;
use std::sync::Arc;

/// Returns the offset in bytes of a parameter. Each parameter has the alignment of its type, which is at most
/// 8 bytes here.
fn parameter_offset(sizes: &[u64], index: usize) -> usize {
    let aligned = |at: u64, size: u64| at.next_multiple_of(size.clamp(1, 8).next_power_of_two().min(8));
    let before = sizes[..index].iter().fold(0, |at, size| aligned(at, *size) + size);
    aligned(before, sizes[index]) as usize
}

impl Driver {
    /// Fails if the machine does not skip kernels, and the module of `cupeer doctor --p2p` is not loaded.
    pub(crate) fn check_modules_supported(&self) -> Answer {
        let has_own = || self.modules.map.values().any(|module| *module.image == ModuleImage::Own);
        if self.machine.skips_kernels || has_own() { Ok(()) } else { fail(Code::NOT_SUPPORTED) }
    }

    /// Adds a module or a library.
    pub(crate) fn add_module(&mut self, owner: ModuleOwner, image: Arc<ModuleImage>) -> Answer<u64> {
        let handle = self.space.new_handle(HandleKind::Module)?;
        let module = Module { owner, image, functions: HashMap::new(), globals: HashMap::new() };
        self.modules.map.insert(handle, module);
        Ok(handle)
    }

    /// `cuModuleUnload`, which fails for a module that belongs to a library.
    pub(crate) fn unload_module(&mut self, handle: u64) -> Answer {
        let module = self.modules.get(handle)?;
        fail_if(!matches!(module.owner, ModuleOwner::Context(_)), Code::INVALID_HANDLE)?;
        let functions: Vec<u64> = module.functions.values().copied().collect();
        self.free_globals(handle);
        self.modules.unload_where(|module, _| module == handle);
        functions.into_iter().for_each(|function| self.space.recycle_handle(HandleKind::Function, function));
        self.space.recycle_handle(HandleKind::Module, handle);
        Ok(())
    }

    /// `cuLibraryUnload`.
    pub(crate) fn unload_library(&mut self, handle: u64) -> Answer {
        fail_if(self.modules.get(handle)?.owner != ModuleOwner::Library, Code::INVALID_HANDLE)?;
        self.free_globals(handle);
        self.modules.unload_where(|module, owner| {
            module == handle || matches!(owner, ModuleOwner::Part { library, .. } if library == handle)
        });
        Ok(())
    }

    fn free_globals(&mut self, handle: u64) {
        let globals = self.modules.map.get(&handle).into_iter().flat_map(|module| module.globals.values());
        for address in globals.map(|(address, _)| *address).collect::<Vec<u64>>() {
            self.remove_allocation(address);
        }
    }

    /// `cuLibraryGetModule`: returns the module of a library for the current context.
    pub(crate) fn module_for_context(&mut self, library: u64) -> Answer<u64> {
        let context = self.current_context_handle()?;
        let wanted = ModuleOwner::Part { library, context };
        let image = self.modules.get(library)?.image.clone();
        let found = self.modules.map.iter().find(|(_, module)| module.owner == wanted);
        match found.map(|(handle, _)| *handle) {
            Some(handle) => Ok(handle),
            None => self.add_module(wanted, image),
        }
    }

    /// `cuModuleGetFunction` and `cuLibraryGetKernel`.
    pub(crate) fn find_function(&mut self, handle: u64, name: &[u8]) -> Answer<u64> {
        let name = std::str::from_utf8(name).map_err(|_| Code::NOT_FOUND)?;
        let module = self.modules.get(handle)?;
        if let Some(function) = module.functions.get(name) {
            return Ok(*function);
        }
        fail_if(name.is_empty(), Code::INVALID_VALUE)?;
        fail_if(!module.image.has_function(name), Code::NOT_FOUND)?;
        let capability = self.machine.devices[0].compute_capability;
        let mut function = ModuleFunction::new(handle, name, (10 * capability.0 + capability.1) as i32)?;
        let is_own = *module.image == ModuleImage::Own;
        function.own = Kernel::ALL.into_iter().find(|kernel| is_own && kernel.name() == name);
        let new = self.space.new_handle(HandleKind::Function)?;
        self.modules.functions.insert(new, function);
        if let Some(module) = self.modules.map.get_mut(&handle) {
            module.functions.insert(name.into(), new);
        }
        Ok(new)
    }

    /// `cuModuleGetGlobal`: returns the address and the size of a variable.
    pub(crate) fn find_global(&mut self, handle: u64, name: &[u8]) -> Answer<(u64, u64)> {
        let context = self.current_context_handle()?;
        let name = std::str::from_utf8(name).map_err(|_| Code::NOT_FOUND)?;
        // The module of a library shares the variables of the library.
        let home = match self.modules.get(handle)?.owner {
            ModuleOwner::Part { library, .. } => library,
            _ => handle,
        };
        let module = self.modules.get(home)?;
        let key = (name.to_owned(), context);
        if let Some(global) = module.globals.get(&key) {
            return Ok(*global);
        }
        let global = module.image.find_global(name).ok_or(Code::NOT_FOUND)?;
        let address = self.allocate_device(global.size.max(1), false)?;
        self.initialize_variable(address, &global.bytes)?;
        if let Some(module) = self.modules.map.get_mut(&home) {
            module.globals.insert(key, (address, global.size));
        }
        Ok((address, global.size))
    }

    /// Returns the sizes in bytes of the parameters of a function.
    fn parameter_sizes(&self, function: &ModuleFunction) -> Answer<Vec<u64>> {
        let name = function.name.to_str().map_err(|_| Code::NOT_FOUND)?;
        self.modules.image(function.module)?.parameter_sizes(name).ok_or_else(|| Code::NOT_SUPPORTED.into())
    }

    /// Returns the offset and size of each parameter of a function or a kernel; none if they are unknown.
    pub(crate) fn parameter_layout(&self, function: u64) -> Answer<Vec<(usize, usize)>> {
        let sizes = self.parameter_sizes(self.modules.function(function)?).unwrap_or_default();
        Ok((0..sizes.len()).map(|index| (parameter_offset(&sizes, index), sizes[index] as usize)).collect())
    }

    /// `cuFuncGetParamInfo`: returns the offset and the size of a parameter in bytes.
    pub(crate) fn parameter_info(&self, function: u64, kind: Launchable, index: usize) -> Answer<(usize, usize)> {
        let sizes = self.parameter_sizes(self.modules.function_of_kind(function, kind))?;
        let size = *sizes.get(index).ok_or(Code::INVALID_VALUE)?;
        Ok((parameter_offset(&sizes, index), size as usize))
    }

    /// Checks a launch. Unless the function is a kernel of `cupeer doctor --p2p`, says once per process that
    /// kernels have no effect.
    pub(crate) fn check_launch(&mut self, function: u64, grid: [u32; 3], block: [u32; 3]) -> Answer<Option<Kernel>> {
        let own = self.modules.function(function)?.own;
        let threads = block.iter().try_fold(1u32, |all, one| all.checked_mul(*one));
        fail_if(
            grid.contains(&0) || !threads.is_some_and(|threads| (1..=1024).contains(&threads)),
            Code::INVALID_VALUE,
        )?;
        if own.is_none() && !std::mem::replace(&mut self.modules.has_said, true) {
            log::print_error("kernels = \"skip\": kernels launch here and do nothing");
        }
        Ok(own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cupeer_topology::Topology;

    const TEXT: &[u8] = b".version 3.2\n.global .u32 seven = 7;\n.entry sum() { }\n";

    fn driver() -> (Driver, u64) {
        let mut driver = Driver::new(Topology::parse("nvlink:2,kernels=skip").unwrap(), vec![0, 1]);
        let context = driver.create_context(0, 0).unwrap();
        (driver, context)
    }

    #[test]
    fn functions_live_with_their_module_and_it_with_its_context() {
        let (mut driver, context) = driver();
        let image = Arc::new(ModuleImage::parse_image(TEXT).unwrap());
        let module = driver.add_module(ModuleOwner::Context(context), image.clone()).unwrap();
        let function = driver.find_function(module, b"sum").unwrap();
        assert_eq!(driver.find_function(module, b"sum"), Ok(function));
        assert_eq!(driver.find_function(module, b"product"), fail(Code::NOT_FOUND));
        assert_eq!(driver.check_launch(function, [1, 1, 1], [1024, 2, 1]), fail(Code::INVALID_VALUE));
        assert_eq!(driver.check_launch(function, [1, 0, 1], [1, 1, 1]), fail(Code::INVALID_VALUE));
        assert_eq!(driver.check_launch(function, [9, 9, 9], [32, 32, 1]), Ok(None));
        let free = driver.memory_info(0).0;
        driver.find_global(module, b"seven").unwrap();
        driver.unload_module(module).unwrap();
        assert_eq!(driver.check_launch(function, [1; 3], [1; 3]), fail(Code::INVALID_HANDLE));
        assert_eq!(driver.memory_info(0).0, free);
        let other = driver.add_module(ModuleOwner::Context(context), image).unwrap();
        driver.destroy_context(context).unwrap();
        assert_eq!(driver.unload_module(other), fail(Code::INVALID_HANDLE));
    }

    #[test]
    fn parameters_follow_each_other_as_their_types_are_aligned() {
        let (mut driver, context) = driver();
        let text = b".version 6.0\n.entry add(.param .u32 n, .param .align 8 .b8 pair[24], .param .u64 p) { }\n";
        let image = Arc::new(ModuleImage::parse_image(text).unwrap());
        let module = driver.add_module(ModuleOwner::Context(context), image).unwrap();
        let function = driver.find_function(module, b"add").unwrap();
        let known = [0, 1, 2].map(|index| driver.parameter_info(function, Launchable::Function, index));
        assert_eq!(known, [Ok((0, 4)), Ok((8, 24)), Ok((32, 8))]);
        assert_eq!(driver.parameter_info(function, Launchable::Function, 3), fail(Code::INVALID_VALUE));
    }

    #[test]
    fn a_library_has_a_module_in_each_context() {
        let (mut driver, _) = driver();
        let library =
            driver.add_module(ModuleOwner::Library, Arc::new(ModuleImage::parse_image(TEXT).unwrap())).unwrap();
        let first = driver.module_for_context(library).unwrap();
        assert_eq!(driver.module_for_context(library), Ok(first));
        let (address, size) = driver.find_global(library, b"seven").unwrap();
        assert_eq!((driver.find_global(first, b"seven"), size), (Ok((address, 4)), 4));
        let second = driver.create_context(1, 0).unwrap();
        assert_ne!(driver.module_for_context(library), Ok(first));
        assert_ne!(driver.find_global(library, b"seven").unwrap().0, address);
        driver.destroy_context(second).unwrap();
        driver.unload_library(library).unwrap();
        assert_eq!(driver.module_for_context(library), fail(Code::INVALID_HANDLE));
    }
}
