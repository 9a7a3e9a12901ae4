//! The libraries that have functions in the table: which of them an object is.

use super::needs;
use crate::sys::object::LoadedObject;
use cupeer_spec::function::Library;

/// The libraries that have functions in the table.
pub const LIBRARIES: [Library; 3] = [Library::Cuda, Library::Nvml, Library::Cudart];

/// Returns which of these libraries an object is, by its soname; `None` if it is another one.
pub fn library_of(object: &LoadedObject) -> Option<Library> {
    let soname = object.soname()?.to_bytes();
    LIBRARIES.into_iter().find(|library| library.matches_soname(soname))
}

/// Returns true if an object is a CUDA driver.
pub fn is_driver(object: &LoadedObject) -> bool {
    library_of(object) == Some(Library::Cuda)
}

/// Returns true if calls of this object that bypass us would be missed: it is a driver, or another library whose calls we
/// intercept.
pub fn is_watched_object(object: &LoadedObject) -> bool {
    library_of(object).is_some_and(needs::is_watched_library)
}
