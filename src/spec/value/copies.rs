//! Stored form of a copy of rows: the device memory that it reads and writes.

use super::*;

/// Values `CU_MEMORYTYPE_DEVICE` and `CU_MEMORYTYPE_UNIFIED`, with which a device address names the memory.
const DEVICE: [i32; 2] = [2, 4];

/// Source or destination of a copy of rows.
struct CopySide {
    kind: i32,
    device: u64,
    x: u64,
    y: u64,
    z: u64,
    pitch: u64,
    height: u64,
}

impl CopySide {
    /// Returns the start address of the memory that the copy uses, and the number of bytes from its first to its last
    /// byte; zeros if this is not device memory.
    fn touched_range(self, [width, height, depth]: [u64; 3]) -> (u64, u64) {
        if !DEVICE.contains(&self.kind) || [width, height, depth].contains(&0) {
            return (0, 0);
        }
        // A pitch of 0 means that rows follow each other without a gap, and a height of 0 means the same for
        // slices.
        let pitch = if self.pitch == 0 { self.x.wrapping_add(width) } else { self.pitch };
        let slice = pitch.wrapping_mul(if self.height == 0 { height } else { self.height });
        let offset = |x: u64, y: u64, z: u64| z.wrapping_mul(slice).wrapping_add(y.wrapping_mul(pitch)).wrapping_add(x);
        let start = self.device.wrapping_add(offset(self.x, self.y, self.z));
        (start, offset(width, height - 1, depth - 1))
    }
}

impl CUDA_MEMCPY2D<u64> {
    /// Returns the device memory that is written, and that is read: start address and size in bytes of each; zeros if it is not
    /// device memory.
    #[inline]
    pub fn touched(self) -> [(u64, u64); 2] {
        let shape = [self.WidthInBytes, self.Height, 1];
        let side =
            |kind, device, x, y, pitch| CopySide { kind, device, x, y, z: 0, pitch, height: 0 }.touched_range(shape);
        [
            side(self.dstMemoryType, self.dstDevice, self.dstXInBytes, self.dstY, self.dstPitch),
            side(self.srcMemoryType, self.srcDevice, self.srcXInBytes, self.srcY, self.srcPitch),
        ]
    }
}

impl CUDA_MEMCPY3D<u64> {
    /// Returns the device memory in the form of [`CUDA_MEMCPY2D::touched`].
    #[inline]
    pub fn touched(self) -> [(u64, u64); 2] {
        let shape = [self.WidthInBytes, self.Height, self.Depth];
        let side = |it: Side3D<u64>| {
            let Side3D { MemoryType: kind, Device: device, XInBytes: x, Y: y, Z: z, .. } = it;
            CopySide { kind, device, x, y, z, pitch: it.Pitch, height: it.Height }.touched_range(shape)
        };
        [self.dst, self.src].map(side)
    }
}

impl CUDA_MEMCPY3D_BATCH_OP {
    /// Returns the device memory that is written, and that is read: start address and size in bytes of each.
    /// For the elements of an array, the size is unknown here, so it is 1 byte.
    pub fn touched_ranges(&self) -> [(u64, u64); 2] {
        let is_flat = [self.dst, self.src].iter().all(|it| it.kind == CUmemcpy3DOperand::POINTER);
        [self.dst, self.src].map(|it| {
            let kind = if it.kind == CUmemcpy3DOperand::POINTER { DEVICE[1] } else { 0 };
            let [pitch, height, _] = it.rest;
            let shape = if is_flat { self.extent.map(|length| length as u64) } else { [1; 3] };
            CopySide { kind, device: it.place, x: 0, y: 0, z: 0, pitch, height }.touched_range(shape)
        })
    }
}

fn print_touched([to, from]: [(u64, u64); 2], out: &mut dyn Write, format: Format) -> fmt::Result {
    let mut fields = Fields::begin(out, format)?;
    for (name, value) in [("dst", to.0), ("dstBytes", to.1), ("src", from.0), ("srcBytes", from.1)] {
        fields.field(name, |out| value.print(out, format))?;
    }
    fields.end(&[])
}

macro_rules! copies {
    ($($type:ty)*) => {$(
        impl Value for $type {
            const STORED: usize = 32;
            fn store(self, place: &mut [u8], _: Fingerprint) {
                let [to, from] = self.touched();
                let words = [to.0, to.1, from.0, from.1];
                for (place, word) in place.chunks_exact_mut(8).zip(words) {
                    place.copy_from_slice(&word.to_le_bytes());
                }
            }
            fn print(self, out: &mut dyn Write, format: Format) -> fmt::Result {
                print_touched(self.touched(), out, format)
            }
            fn print_stored(bytes: &[u8], out: &mut dyn Write, format: Format) -> fmt::Result {
                let bytes = bytes.first_chunk::<32>().ok_or(fmt::Error)?;
                let word = |at: usize| bytes[at..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
                print_touched([(word(0), word(8)), (word(16), word(24))], out, format)
            }
        }
    )*};
}
copies! { CUDA_MEMCPY2D<u64> CUDA_MEMCPY3D<u64> }

#[cfg(test)]
mod tests {
    use super::*;

    const PITCH: u64 = 256;

    #[test]
    fn a_copy_touches_what_is_between_its_first_and_its_last_byte() {
        let rows = |kind, pitch, [x, y, z]: [u64; 3], shape| {
            CopySide { kind, device: 0x10000, x, y, z, pitch, height: 8 }.touched_range(shape)
        };
        for (kind, pitch, at, shape, wanted) in [
            (2, PITCH, [16, 2, 0], [48, 4, 1], (0x10000 + 2 * PITCH + 16, 3 * PITCH + 48)),
            (4, PITCH, [0, 0, 1], [48, 8, 3], (0x10000 + 8 * PITCH, 23 * PITCH + 48)),
            // Without a pitch, rows follow each other.
            (2, 0, [0, 0, 0], [48, 4, 1], (0x10000, 4 * 48)),
            (2, PITCH, [0, 0, 0], [48, 0, 1], (0, 0)),
            // An array, and memory of the host.
            (3, PITCH, [0, 0, 0], [48, 4, 1], (0, 0)),
            (1, PITCH, [0, 0, 0], [48, 4, 1], (0, 0)),
        ] {
            assert_eq!(rows(kind, pitch, at, shape), wanted, "{kind} {pitch} {at:?} {shape:?}");
        }
    }

    #[test]
    fn stored_copies_are_printed_like_the_structure() {
        let copy = CUDA_MEMCPY2D {
            srcXInBytes: 8,
            srcY: 1,
            srcMemoryType: 2,
            srcHost: 0,
            srcDevice: 0x1000,
            srcArray: 0,
            srcPitch: 64,
            dstXInBytes: 0,
            dstY: 0,
            dstMemoryType: 1,
            dstHost: 0x5000,
            dstDevice: 0,
            dstArray: 0,
            dstPitch: 64,
            WidthInBytes: 32,
            Height: 2,
        };
        let format = Format { json: false, fingerprint: |_| 0 };
        let (mut kept, mut now, mut later) = ([0; 32], String::new(), String::new());
        copy.store(&mut kept, format.fingerprint);
        copy.print(&mut now, format).unwrap();
        CUDA_MEMCPY2D::<u64>::print_stored(&kept, &mut later, format).unwrap();
        assert_eq!((now.as_str(), &later), ("{dst=0x0, dstBytes=0x0, src=0x1048, srcBytes=0x60}", &now));
    }
}
