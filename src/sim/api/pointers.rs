//! Pointer attributes.

use super::boundary::Argument;
use crate::engine::answer::fail_if;
use crate::engine::process;
use core::ffi::c_void;
use cupeer_spec::abi::CUdeviceptr;
use cupeer_spec::results::Result as Code;

entry! {
    fn cuPointerGetAttribute(data: *mut c_void, attribute: i32, ptr: CUdeviceptr) {
        let driver = process::enter()?;
        let out = data.required()?;
        out.put_bytes(&driver.pointer_attribute(attribute, ptr)?.to_bytes());
        Ok(())
    }

    /// An attribute that the pointer lacks becomes zero, which is not a failure.
    fn cuPointerGetAttributes(
        numAttributes: u32,
        attributes: *mut i32,
        data: *mut *mut c_void,
        ptr: CUdeviceptr,
    ) {
        let driver = process::enter()?;
        let (wanted, outputs) = (attributes.required()?, data.required()?);
        fail_if(numAttributes == 0, Code::INVALID_VALUE)?;
        let wanted = wanted.read_elements(numAttributes as usize);
        let values = driver.pointer_attributes(&wanted, ptr)?;
        for ((value, attribute), out) in
            values.iter().zip(&wanted).zip(outputs.read_elements(numAttributes as usize))
        {
            // SAFETY: the caller of the C function promises that each is valid for its attribute.
            let out = unsafe { out.receive() };
            match value {
                Some(value) => out.put_bytes(&value.to_bytes()),
                None => out.put_bytes(&crate::engine::pointers::missing_value(*attribute).to_bytes()),
            }
        }
        Ok(())
    }

    fn cuPointerSetAttribute(value: *const c_void, attribute: i32, ptr: CUdeviceptr) {
        let mut driver = process::enter()?;
        let value: u32 = value.read_as().ok_or(Code::INVALID_VALUE)?;
        driver.set_pointer_attribute(value != 0, attribute, ptr)
    }
}
