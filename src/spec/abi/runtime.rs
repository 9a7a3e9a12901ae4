//! The runtime's C types, as far as the functions of the table use them. Most are the driver's under another name.

// Names are as driver_types.h spells them.
#![allow(non_camel_case_types)]

use super::{CUatomicOperation, CUdevice_P2PAttribute, CUipcEventHandle, CUipcMemHandle};

/// `cudaError_t`: result of a runtime function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct cudaError_t(pub i32);

/// `cudaIpcMemHandle_t`: the driver's handle.
pub type cudaIpcMemHandle_t = CUipcMemHandle;
/// `cudaIpcEventHandle_t`: the driver's handle.
pub type cudaIpcEventHandle_t = CUipcEventHandle;
/// `enum cudaDeviceP2PAttr`: its values are the driver's.
pub type cudaDeviceP2PAttr = CUdevice_P2PAttribute;
/// `enum cudaAtomicOperation`: its values are the driver's.
pub type cudaAtomicOperation = CUatomicOperation;
