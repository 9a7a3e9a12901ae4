//! Modules, libraries and their functions.

use super::super::answer::{Answer, fail_if};
use super::super::images::ModuleImage;
use super::super::log;
use cupeer_spec::effect::Launchable;
use cupeer_spec::p2p::Kernel;
use cupeer_spec::results::Result as Code;
use std::collections::HashMap;
use std::ffi::CString;
use std::sync::Arc;

/// Owner of a module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ModuleOwner {
    /// A context, for a module of `cuModuleLoad`.
    Context(u64),
    /// No owner: the module is a library of `cuLibraryLoad`.
    Library,
    /// A library, for the module that `cuLibraryGetModule` returns for a context.
    Part { library: u64, context: u64 },
}

/// A module, or a library.
#[derive(Debug)]
pub(crate) struct Module {
    pub(in crate::engine) owner: ModuleOwner,
    pub(in crate::engine) image: Arc<ModuleImage>,
    pub(in crate::engine) functions: HashMap<String, u64>,
    /// Address and size of each variable that the program looked up, by its name and its context.
    pub(in crate::engine) globals: HashMap<(String, u64), (u64, u64)>,
}

/// A function, or a kernel.
#[derive(Debug)]
pub(crate) struct ModuleFunction {
    pub module: u64,
    pub name: CString,
    /// The kernel of `cupeer doctor --p2p` that the function is; `None` for any other function.
    pub own: Option<Kernel>,
    attributes: [i32; 16],
}

/// Numbers of the `CU_FUNC_ATTRIBUTE_*` that a program can set, each with the values that it can have.
const SETTABLE: [(i32, std::ops::RangeInclusive<i32>); 8] =
    [(8, 0..=232_448), (9, -1..=100), (10, 0..=1), (11, 0..=8), (12, 0..=8), (13, 0..=8), (14, 0..=1), (15, 0..=2)];

impl ModuleFunction {
    pub(crate) fn new(module: u64, name: &str, capability: i32) -> Answer<ModuleFunction> {
        let mut attributes = [0; 16];
        for (attribute, value) in [(0, 1024), (4, 16), (5, capability), (6, capability), (8, 49152), (9, -1)] {
            attributes[attribute] = value;
        }
        let name = CString::new(name).map_err(|_| Code::NOT_FOUND)?;
        Ok(ModuleFunction { module, name, own: None, attributes })
    }

    /// `cuFuncGetAttribute`.
    pub(crate) fn attribute(&self, attribute: i32) -> Answer<i32> {
        let value = usize::try_from(attribute).ok().and_then(|index| self.attributes.get(index));
        value.copied().ok_or_else(|| Code::INVALID_VALUE.into())
    }
}

/// The inputs and the output of a linker of `cuLinkCreate`.
#[derive(Debug, Default)]
pub(crate) struct Linker {
    pub inputs: Vec<Vec<u8>>,
    pub output: Vec<u8>,
}

/// All modules of a process.
#[derive(Default, Debug)]
pub(crate) struct Modules {
    pub(in crate::engine) map: HashMap<u64, Module>,
    pub(in crate::engine) functions: HashMap<u64, ModuleFunction>,
    pub links: HashMap<u64, Linker>,
    pub(in crate::engine) has_said: bool,
}

impl Modules {
    pub(crate) fn get(&self, handle: u64) -> Answer<&Module> {
        self.map.get(&handle).ok_or_else(|| Code::INVALID_HANDLE.into())
    }

    /// Returns the image of a module or a library.
    pub(crate) fn image(&self, handle: u64) -> Answer<&ModuleImage> {
        Ok(&self.get(handle)?.image)
    }

    /// Returns the function or the kernel with a handle.
    pub(crate) fn function(&self, handle: u64) -> Answer<&ModuleFunction> {
        self.functions.get(&handle).ok_or_else(|| Code::INVALID_HANDLE.into())
    }

    /// Returns the function with a handle, for a call that takes only functions, or only kernels. Ends the
    /// program for a handle of the other kind: a real driver may follow it as a pointer, so the result is
    /// unknown.
    pub(crate) fn function_of_kind(&self, handle: u64, kind: Launchable) -> &ModuleFunction {
        let of = |function: &&ModuleFunction| {
            let is_kernel = self.map.get(&function.module).is_some_and(|module| module.owner == ModuleOwner::Library);
            is_kernel == (kind == Launchable::Kernel)
        };
        self.functions.get(&handle).filter(of).unwrap_or_else(|| {
            let kind = format!("{kind:?}").to_lowercase();
            log::print_error(&format!("{handle:#x} is not a CU{kind}"));
            std::process::abort()
        })
    }

    /// `cuFuncSetAttribute`.
    pub(crate) fn set_attribute(&mut self, handle: u64, attribute: i32, value: i32) -> Answer {
        let function = self.functions.get_mut(&handle).ok_or(Code::INVALID_HANDLE)?;
        fail_if(
            !SETTABLE.iter().any(|(known, values)| *known == attribute && values.contains(&value)),
            Code::INVALID_VALUE,
        )?;
        function.attributes[attribute as usize] = value;
        Ok(())
    }

    /// Unloads the modules that `ends` chooses, with their functions.
    pub(crate) fn unload_where(&mut self, ends: impl Fn(u64, ModuleOwner) -> bool) {
        self.map.retain(|handle, module| !ends(*handle, module.owner));
        let (map, functions) = (&self.map, &mut self.functions);
        functions.retain(|_, function| map.contains_key(&function.module));
    }

    /// Unloads the modules of a context.
    pub(crate) fn unload_of_context(&mut self, context: u64) {
        self.unload_where(|_, owner| match owner {
            ModuleOwner::Context(of) | ModuleOwner::Part { context: of, .. } => of == context,
            ModuleOwner::Library => false,
        });
        for module in self.map.values_mut() {
            module.globals.retain(|(_, of), _| *of != context);
        }
    }
}
