// A libnvidia-ml.so.1 for machines without one, because UCX's CUDA modules link it: it says that NVML is not
// there, and UCX goes on without.
enum { NVML_ERROR_LIBRARY_NOT_FOUND = 12 };
int nvmlInit_v2(void) { return NVML_ERROR_LIBRARY_NOT_FOUND; }
int nvmlShutdown(void) { return NVML_ERROR_LIBRARY_NOT_FOUND; }
const char *nvmlErrorString(int result) {
    (void)result;
    return "there is no NVML on this machine";
}
