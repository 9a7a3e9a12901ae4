/* An NVML of a machine with GPUs. A call with a marked device keeps account as the fake driver does; a call with a
 * device of the machine answers as an NVML of driver 580 was seen to do on H200s: 18 links a device, of which the
 * others are NVML_ERROR_INVALID_ARGUMENT.
 *
 * $FAKE_NVML_GPUS is the number of devices (2 where it is not set), which have the UUIDs and PCI addresses of the
 * simulated driver's; $FAKE_NVML_LINKS is `switch`, or `direct` where link L of device D leads to one of the others,
 * in turn. Each device has 16 GiB of memory, of which the processes in $FAKE_NVML_HOLDERS have some: DEVICE:PID:BYTES, with
 * `-` for bytes that are not available, and a comma between two. With $FAKE_NVML_OLD, it has only the first versions of the
 * functions that answer this. Where $FAKE_NVML_ASKED is set, every call of the functions that cupeer asks by itself is counted in that
 * file. */
#define _GNU_SOURCE
#define NVML
#define TAG nvml
#include "account.h"

enum { SUCCESS, UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED, NOT_FOUND = 6, INSUFFICIENT_SIZE, LINKS = 18 };
enum { FIRST = 0x600d0000 };
static int initialized;

static int gpus(void) {
    const char *count = getenv("FAKE_NVML_GPUS");
    return count ? atoi(count) : 2;
}
static int is_direct(void) {
    const char *links = getenv("FAKE_NVML_LINKS");
    return links && strcmp(links, "direct") == 0;
}
/* The index of a device, or -1 for a marked one. */
static int index_of(nvmlDevice_t device) {
    uintptr_t i = (uintptr_t)device - FIRST;
    return i < (uintptr_t)gpus() ? (int)i : -1;
}
static nvmlDevice_t handle_of(int i) { return (nvmlDevice_t)(uintptr_t)(FIRST + i); }
/* Where a link leads: a device, or -1 to a switch. */
static int remote_of(int device, unsigned link) {
    if (!is_direct()) return -1;
    int other = (int)(link % (unsigned)(gpus() - 1));
    return other < device ? other : other + 1;
}
static void asked(const char *function) {
    const char *path = getenv("FAKE_NVML_ASKED");
    int fd = path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (fd < 0) return;
    if (write(fd, function, strlen(function)) < 0 || write(fd, "\n", 1) < 0) abort();
    close(fd);
}
static void address_of(int device, nvmlPciInfo_t *pci) {
    memset(pci, 0, sizeof *pci);
    pci->bus = device < 0 ? 0xff : 0x1b + 3 * (unsigned)device;
    pci->domain = device < 0 ? 0xfffffff : 0;
    pci->device = device < 0 ? 0xff : 0;
    snprintf(pci->busId, sizeof pci->busId, "%08X:%02X:%02X.0", pci->domain, pci->bus, pci->device);
    snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "%04X:%02X:%02X.0", pci->domain & 0xffff, pci->bus,
             pci->device);
}

int nvmlInit_v2(void) { return initialized = 1, SUCCESS; }
int nvmlShutdown(void) { return initialized ? (initialized = 0, SUCCESS) : UNINITIALIZED; }
int nvmlDeviceGetCount_v2(unsigned *count) {
    return initialized ? (*count = (unsigned)gpus(), SUCCESS) : UNINITIALIZED;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned i, nvmlDevice_t *device) {
    if (!initialized) return UNINITIALIZED;
    return i < (unsigned)gpus() ? (*device = handle_of((int)i), SUCCESS) : INVALID_ARGUMENT;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char *text, nvmlDevice_t *device) {
    asked("nvmlDeviceGetHandleByPciBusId_v2");
    for (int i = 0; initialized && i < gpus(); i++) {
        nvmlPciInfo_t pci;
        address_of(i, &pci);
        if (strcmp(pci.busId, text) == 0) return *device = handle_of(i), SUCCESS;
    }
    return initialized ? NOT_FOUND : UNINITIALIZED;
}
int nvmlDeviceGetUUID(nvmlDevice_t device, char *text, unsigned length) {
    asked("nvmlDeviceGetUUID");
    int i = index_of(device);
    if (!initialized || i < 0) return initialized ? INVALID_ARGUMENT : UNINITIALIZED;
    int n = snprintf(text, length, "GPU-c09ee200-5130-4d0e-b00d-0000000000%02x", i);
    return (unsigned)n < length ? SUCCESS : INSUFFICIENT_SIZE;
}
int nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci) {
    asked("nvmlDeviceGetPciInfo_v3");
    int i = index_of(device);
    if (!initialized || i < 0) return initialized ? INVALID_ARGUMENT : UNINITIALIZED;
    return address_of(i, pci), SUCCESS;
}

/* The next process of a device behind a place in the list; false at its end. */
static int next_holder(const char **at, int device, unsigned *pid, unsigned long long *bytes) {
    for (int of = -1, read = 0; **at; *at += strcspn(*at, ",")) {
        *at += **at == ',';
        if (sscanf(*at, "%d:%u:%n", &of, pid, &read) < 2 || of != device) continue;
        *bytes = (*at)[read] == '-' ? ~0ull : strtoull(*at + read, NULL, 10);
        *at += strcspn(*at, ",");
        return 1;
    }
    return 0;
}
static const char *holders(void) {
    const char *text = getenv("FAKE_NVML_HOLDERS");
    return text ? text : "";
}
enum { FUNCTION_NOT_FOUND = 13 };
static int is_old(void) { return getenv("FAKE_NVML_OLD") != NULL; }
static int memory_of(nvmlDevice_t device, unsigned long long *total, unsigned long long *used) {
    unsigned pid;
    unsigned long long bytes;
    if (!initialized || index_of(device) < 0) return initialized ? INVALID_ARGUMENT : UNINITIALIZED;
    *total = 16ull << 30;
    *used = 0;
    for (const char *at = holders(); next_holder(&at, index_of(device), &pid, &bytes);) *used += bytes == ~0ull ? 0 : bytes;
    return SUCCESS;
}
int nvmlDeviceGetMemoryInfo(nvmlDevice_t device, unsigned long long memory[3]) {
    int r = memory_of(device, &memory[0], &memory[2]);
    memory[1] = memory[0] - memory[2];
    return r;
}
int nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, unsigned long long memory[5]) {
    if (is_old()) return FUNCTION_NOT_FOUND;
    if ((unsigned)memory[0] != (40 | 2 << 24)) return INVALID_ARGUMENT;
    int r = memory_of(device, &memory[1], &memory[4]);
    memory[2] = 0;
    memory[3] = memory[1] - memory[4];
    return r;
}
static int processes_of(nvmlDevice_t device, unsigned *count, unsigned long long *infos, unsigned words) {
    unsigned pid, n = 0;
    unsigned long long bytes;
    if (!initialized || index_of(device) < 0) return initialized ? INVALID_ARGUMENT : UNINITIALIZED;
    for (const char *at = holders(); next_holder(&at, index_of(device), &pid, &bytes); n++) {
        if (n >= *count) return INSUFFICIENT_SIZE;
        infos[n * words] = pid;
        infos[n * words + 1] = bytes;
    }
    return *count = n, SUCCESS;
}
int nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *count, unsigned long long *infos) {
    return is_old() ? FUNCTION_NOT_FOUND : processes_of(device, count, infos, 3);
}
int nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned *count, unsigned long long *infos) {
    return processes_of(device, count, infos, 2);
}

/* The answers for a device of the machine, `d`. */
static int gpu_nvmlDeviceGetP2PStatus(int d, nvmlDevice_t device1, nvmlDevice_t device2, int p2pIndex, int *p2pStatus) {
    if (index_of(device2) < 0 || p2pIndex < 0 || p2pIndex > 5 || !p2pStatus) return INVALID_ARGUMENT;
    *p2pStatus = p2pIndex == 4 ? 5 : 0;
    return SUCCESS;
}
static int gpu_nvmlDeviceGetTopologyCommonAncestor(int d, nvmlDevice_t device1, nvmlDevice_t device2, int *pathInfo) {
    if (index_of(device2) < 0 || !pathInfo) return INVALID_ARGUMENT;
    *pathInfo = index_of(device2) == d ? 0 : 40;
    return SUCCESS;
}
static int gpu_nvmlDeviceGetNvLinkState(int d, nvmlDevice_t device, unsigned link, int *isActive) {
    if (link >= LINKS || !isActive) return INVALID_ARGUMENT;
    *isActive = 1;
    return SUCCESS;
}
static int gpu_nvmlDeviceGetNvLinkCapability(int d, nvmlDevice_t device, unsigned link, int capability, unsigned *capResult) {
    if (link >= LINKS || !capResult) return INVALID_ARGUMENT;
    *capResult = 1;
    return SUCCESS;
}
static int gpu_nvmlDeviceGetNvLinkRemotePciInfo_v2(int d, nvmlDevice_t device, unsigned link, nvmlPciInfo_t *pci) {
    if (link >= LINKS || !pci) return INVALID_ARGUMENT;
    address_of(remote_of(d, link), pci);
    return SUCCESS;
}
static int gpu_nvmlDeviceGetNvLinkRemotePciInfo(int d, nvmlDevice_t device, unsigned link, nvmlPciInfo_v2_t *pci) {
    nvmlPciInfo_t whole;
    if (link >= LINKS || !pci) return INVALID_ARGUMENT;
    address_of(remote_of(d, link), &whole);
    *pci = (nvmlPciInfo_v2_t){.domain = whole.domain, .bus = whole.bus, .device = whole.device};
    memcpy(pci->busId, whole.busIdLegacy, sizeof pci->busId);
    return SUCCESS;
}
static int gpu_nvmlDeviceGetNvLinkRemoteDeviceType(int d, nvmlDevice_t device, unsigned link, int *pNvLinkDeviceType) {
    if (link >= LINKS || !pNvLinkDeviceType) return INVALID_ARGUMENT;
    *pNvLinkDeviceType = remote_of(d, link) < 0 ? 2 : 0;
    return SUCCESS;
}
static int gpu_nvmlDeviceGetGpuFabricInfo(int d, nvmlDevice_t device, nvmlGpuFabricInfo_t *gpuFabricInfo) {
    if (!gpuFabricInfo) return INVALID_ARGUMENT;
    *gpuFabricInfo = (nvmlGpuFabricInfo_t){{1, 2, 3}, 0, 9, 3};
    return SUCCESS;
}
static int gpu_nvmlDeviceGetGpuFabricInfoV(int d, nvmlDevice_t device, nvmlGpuFabricInfoV_t *gpuFabricInfo) {
    unsigned version = gpuFabricInfo ? gpuFabricInfo->version : 0;
    if (version != 0x02000024 && version != 0x03000028) return INVALID_ARGUMENT;
    nvmlGpuFabricInfoV_t whole = {version, {1, 2, 3}, 0, 9, 3, 0x1555, 1};
    memcpy(gpuFabricInfo, &whole, version & 0xff);
    return SUCCESS;
}
static int gpu_nvmlDeviceGetFieldValues(int d, nvmlDevice_t device, int valuesCount, nvmlFieldValue_t *values) {
    if (valuesCount <= 0 || !values) return INVALID_ARGUMENT;
    for (int i = 0; i < valuesCount; i++) {
        nvmlFieldValue_t *v = &values[i];
        v->valueType = 1;
        v->nvmlReturn = SUCCESS;
        v->value.ull = 0;
        if (v->fieldId == 91)
            v->value.ui = LINKS;
        else if (v->fieldId == 170)
            v->value.ui = 7;
        else if ((v->fieldId >= 84 && v->fieldId <= 90) || v->fieldId == 164)
            v->value.ui = 26562;
        else if (v->fieldId == 165 && v->scopeId < LINKS)
            v->value.ui = 1;
        else
            v->nvmlReturn = v->fieldId == 165 ? INVALID_ARGUMENT : NOT_SUPPORTED;
    }
    return SUCCESS;
}

#define DEVICE_AND(...) (d, __VA_ARGS__)
#define DEFINE(name, parameters, forwarded, marked, mark)                                                     \
    CUresult name parameters {                                                                                \
        int d = index_of((nvmlDevice_t)(uintptr_t)(mark));                                                    \
        if (d >= 0) return initialized ? gpu_##name DEVICE_AND forwarded : UNINITIALIZED;                     \
        CUresult r = answer(#name, (unsigned)(mark));                                                         \
        if (r == 0) {                                                                                         \
            OUTPUT_##name                                                                                     \
        }                                                                                                     \
        return r;                                                                                             \
    }
NVML_TABLE(DEFINE)
