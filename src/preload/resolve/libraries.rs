//! The libraries that have functions in the table: which of them an object is.

use super::needs;
use crate::sys::object::Object;
use cupeer_spec::function::Library;

/// The libraries that have functions in the table.
pub const LIBRARIES: [Library; 3] = [Library::Cuda, Library::Nvml, Library::Cudart];

/// Returns the library that an object is, by its soname.
pub fn library_of(object: &Object) -> Option<Library> {
    let soname = object.soname()?.to_bytes();
    LIBRARIES.into_iter().find(|library| library.is_called(soname))
}

/// Returns true if an object is a CUDA driver.
pub fn is_driver(object: &Object) -> bool {
    library_of(object) == Some(Library::Cuda)
}

/// Returns true if calls of this object that bypass us are missed: of a driver, or of another intercepted library.
pub fn is_missed(object: &Object) -> bool {
    library_of(object).is_some_and(needs::is_missed)
}
