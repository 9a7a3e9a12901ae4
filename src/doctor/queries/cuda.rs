//! Queries the driver about the devices that CUDA shows to this process, and about their pairs. Creates no context.

use cupeer_nvidia::nvml::{text_before_nul, to_kernel_pci_address};
use cupeer_nvidia::{call, find, load};
use cupeer_spec::function::Library;
use libloading::os::unix::Library as Handle;
use serde::{Deserialize, Serialize};
use std::ffi::{c_int, c_uint};

/// Number of the device attribute CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED.
const FABRIC_ATTRIBUTE: c_int = 128;

#[derive(Serialize, Deserialize, Clone, Default, Debug)]
pub struct CudaAnswers {
    /// Result of cuInit.
    pub init: i32,
    /// Devices that CUDA shows, in CUDA's order. CUDA_VISIBLE_DEVICES may hide others.
    pub devices: Vec<CudaDevice>,
    /// All ordered pairs of different devices.
    pub pairs: Vec<CudaPair>,
}

#[derive(Serialize, Deserialize, Clone, Default, Debug)]
pub struct CudaDevice {
    /// PCI address, as the kernel writes it.
    pub pci: String,
    pub uuid: String,
    /// True if the device supports fabric handles.
    pub fabric: Option<bool>,
}

#[derive(Serialize, Deserialize, Clone, Default, Debug)]
pub struct CudaPair {
    pub from: usize,
    pub to: usize,
    /// Result of cuDeviceCanAccessPeer; `None` if the call failed.
    pub reaches: Option<bool>,
}

pub fn query_cuda() -> Result<CudaAnswers, String> {
    // The driver stays loaded, because it may crash when it is unloaded.
    let library = std::mem::ManuallyDrop::new(load(Library::Cuda)?);
    let Some(init) = find(&library, "cuInit") else { return Err("the library has no cuInit".to_owned()) };
    // SAFETY: cuda.h declares the function so.
    let init = unsafe {
        let init: unsafe extern "C" fn(c_uint) -> c_int = std::mem::transmute(init);
        init(0)
    };
    if init != 0 {
        return Ok(CudaAnswers { init, ..CudaAnswers::default() });
    }
    let mut count: c_int = 0;
    call!(&library, "cuDeviceGetCount", (&mut count => *mut c_int))?;
    let devices = (0..count).map(|ordinal| query_device(&library, ordinal)).collect::<Result<Vec<_>, _>>()?;
    let ordinals = 0..devices.len();
    let all = ordinals.clone().flat_map(|from| ordinals.clone().map(move |to| (from, to)));
    let pairs = all.filter(|(from, to)| from != to).map(|(from, to)| {
        let mut yes: c_int = 0;
        let ordinal = |place: usize| c_int::try_from(place).unwrap_or(-1);
        let asked = call!(&library, "cuDeviceCanAccessPeer",
            (&mut yes => *mut c_int, ordinal(from) => c_int, ordinal(to) => c_int));
        CudaPair { from, to, reaches: asked.ok().map(|()| yes != 0) }
    });
    let pairs = pairs.collect();
    Ok(CudaAnswers { init, devices, pairs })
}

fn query_device(library: &Handle, ordinal: c_int) -> Result<CudaDevice, String> {
    let mut device: c_int = 0;
    call!(library, "cuDeviceGet", (&mut device => *mut c_int, ordinal => c_int))?;
    let mut text = [0u8; 64];
    call!(library, "cuDeviceGetPCIBusId", (text.as_mut_ptr() => *mut u8, 64 => c_int, device => c_int))?;
    let mut bytes = [0u8; 16];
    call!(library, "cuDeviceGetUuid_v2", (bytes.as_mut_ptr() => *mut u8, device => c_int))
        .or_else(|_| call!(library, "cuDeviceGetUuid", (bytes.as_mut_ptr() => *mut u8, device => c_int)))?;
    let mut fabric: c_int = 0;
    let has =
        call!(library, "cuDeviceGetAttribute", (&mut fabric => *mut c_int, FABRIC_ATTRIBUTE => c_int, device => c_int));
    Ok(CudaDevice {
        pci: to_kernel_pci_address(&text_before_nul(&text)),
        uuid: format_uuid(&bytes),
        fabric: has.ok().map(|()| fabric != 0),
    })
}

/// Formats a UUID as nvidia-smi does.
fn format_uuid(bytes: &[u8; 16]) -> String {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("GPU-{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_uuid_is_written_as_by_nvidia_smi() {
        let bytes = std::array::from_fn(|i| u8::try_from(i).unwrap());
        assert_eq!(super::format_uuid(&bytes), "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f");
    }
}
